"""``tvm.tir``: expressions, buffers and functions of the IR, by the names of TVM."""

from __future__ import annotations

from functools import reduce
from typing import Any

from .. import errors
from ..ir import expr as _expr
from ..ir.buffer import Buffer, make_buffer
from ..ir.buffer import Region as BufferRegion
from ..ir.dtype import dtype_of
from ..ir.expr import Expr as PrimExpr
from ..ir.stmt import Stmt
from ..language import math as _math
from ..language.codec import narrow_type
from ..language.narrow_view import tensor_of
from ..language.raw.expressions import SizeVar, Var
from ..language.scalar import (
    ceildiv,
    floordiv,
    floormod,
    if_then_else,
    max,
    max_value,
    min,
    min_value,
    reinterpret,
    truncdiv,
    truncmod,
)
from ..language.view import View
from . import stmt_functor
from .nodes import CLASSES
from .stmt_functor import post_order_visit

exp, exp2, log, log2, sqrt, rsqrt, sigmoid, tanh, floor, ceil, trunc = (
    _math.FUNCTIONS[name]
    for name in (
        *("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "tanh", "floor", "ceil"),
        "trunc",
    )
)


globals().update(CLASSES)


def const(value: Any, dtype: Any = None) -> PrimExpr:
    """Returns a number as an expression of that type; by default int32, float32 or bool."""
    return _expr.as_expr(value) if dtype is None else _expr.cast(value, dtype)


def convert(value: Any) -> Any:
    """Returns a number as an expression; lists and tuples element by element."""
    if isinstance(value, (list, tuple)):
        return [convert(each) for each in value]
    return _expr.as_expr(value)


def decl_buffer(
    shape: Any, dtype: Any = "float32", name: str = "buffer", scope: str = ""
) -> Buffer | View:
    """Returns a buffer that nothing allocates, for annotations and layouts.

    One of a narrow type, ``"float4_e2m1fn"``, is a view of the bytes that the elements share.
    """
    narrow = narrow_type(dtype)
    if narrow:
        return tensor_of(name, shape, narrow)
    return make_buffer(name, dtype_of(dtype), shape, scope or "global")


def all(*conditions: Any) -> PrimExpr:
    """Returns whether all of the conditions hold."""
    from ..language.scalar import AND, logical

    return reduce(lambda a, b: logical(AND, a, b), conditions)


def any(*conditions: Any) -> PrimExpr:
    """Returns whether one of the conditions holds."""
    from ..language.scalar import OR, logical

    return reduce(lambda a, b: logical(OR, a, b), conditions)


def call_extern(dtype: Any, func_name: str, *args: Any) -> Any:
    """Calls an external function, as ``T.call_extern`` does."""
    return _expr.call(dtype_of(dtype), "call_extern", [func_name, *args])


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .. import language

    try:
        return getattr(language, name)
    except errors.TileLangError as error:
        raise errors.UnknownNameError(
            f"tilelang.tvm.tir has no name {name!r}", notes=error.notes
        ) from None


__all__ = [
    *CLASSES,
    "Buffer",
    "BufferRegion",
    "PrimExpr",
    "SizeVar",
    "Stmt",
    "Var",
    "all",
    "any",
    "call_extern",
    "ceildiv",
    "const",
    "convert",
    "decl_buffer",
    "floordiv",
    "floormod",
    "if_then_else",
    "max",
    "max_value",
    "min",
    "min_value",
    "post_order_visit",
    "reinterpret",
    "stmt_functor",
    "truncdiv",
    "truncmod",
]
