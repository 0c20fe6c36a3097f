"""The names that programs import from TVM, over this compiler's own IR: no TVM is behind them."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir.dtype import dtype_of
from ..language.codec import narrow_type
from . import arith, ir, target, tir
from .ir import IRModule

tvm_ffi = _ffi.tvm_ffi
#: A newer name of :mod:`tilelang.tvm.tir`.
tirx = tir


def DataType(dtype: Any) -> Any:
    """The type of that name: ``DataType("int4").bits``."""
    return narrow_type(dtype) or dtype_of(dtype)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise errors.UnknownNameError(
        f"tilelang.tvm has no name {name!r}",
        notes=[
            "it holds what kernels need: tir, target.Target, ir, IRModule, DataType, arith; passes "
            "and the runtime of TVM are not part of this compiler"
        ],
    )


__all__ = ["DataType", "IRModule", "arith", "ir", "target", "tir", "tirx", "tvm_ffi"]
