"""The names that programs import from TVM, over this compiler's own IR: no TVM is behind them."""

from __future__ import annotations

import importlib
from typing import Any

from .. import _ffi, errors
from . import arith, error, ir, runtime, target, tir, transform
from .error import TVMError
from .ir import IRModule
from .runtime import DataType

tvm_ffi = _ffi.tvm_ffi
#: A newer name of :mod:`tilelang.tvm.tir`.
tirx = tir


def __getattr__(name: str) -> Any:
    if name == "testing":  # needs numpy and pytest, which kernels do not
        return importlib.import_module(f"{__name__}.testing")
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise errors.UnknownNameError(
        f"tilelang.tvm has no name {name!r}",
        notes=[
            "it has the names that kernels use: tir, target.Target, ir, IRModule, DataType, arith, "
            "transform.PassContext; TVM's passes and runtime are not part of this compiler"
        ],
    )


__all__ = [
    "DataType",
    "IRModule",
    "TVMError",
    "arith",
    "error",
    "ir",
    "runtime",
    "target",
    "tir",
    "tirx",
    "transform",
    "tvm_ffi",
]
