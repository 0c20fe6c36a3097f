"""Arithmetic on scalars beside Python's operators: min, max, division, selection, bits."""

from __future__ import annotations

import builtins
import math
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.dtype import DType, dtype_of
from ..ir.expr import (
    BinaryOp,
    Expr,
    Operand,
    as_expr,
    binary,
    call,
    cast,
    condition,
    select,
    unary,
)

_arithmetic = _ffi.get("ir.Arithmetic")
AND, OR = BinaryOp.AND, BinaryOp.OR


def logical(op: int, a: Any, b: Any) -> Expr:
    """``a and b``, ``a or b`` of conditions, short-circuit."""
    return _arithmetic(op, condition(a), condition(b), span.current())


def logical_not(a: Any) -> Expr:
    """``not a``."""
    return unary(1, a)


def _both(op: BinaryOp, a: Any, b: Any, known: Any) -> Any:
    if isinstance(a, Operand) or isinstance(b, Operand):
        return binary(op, a, b)
    return known(a, b)


def min(a: Any, b: Any) -> Any:
    """The lesser of two values."""
    return _both(BinaryOp.MIN, a, b, builtins.min)


def max(a: Any, b: Any) -> Any:
    """The greater of two values."""
    return _both(BinaryOp.MAX, a, b, builtins.max)


def clamp(dst: Any, min_val: Any, max_val: Any) -> Any:
    """``dst`` limited to ``[min_val, max_val]``."""
    return min(max(dst, min_val), max_val)


def ceildiv(lhs: Any, rhs: Any) -> Any:
    """``lhs / rhs`` rounded up, of integers; ``rhs`` is positive."""
    return (lhs + (rhs - 1)) // rhs


cdiv = ceildiv


def floordiv(a: Any, b: Any) -> Any:
    """``a // b``, rounded toward minus infinity."""
    return a // b


def floormod(a: Any, b: Any) -> Any:
    """``a % b``, with the sign of ``b``."""
    return a % b


def truncdiv(a: Any, b: Any) -> Any:
    """``a / b`` of integers rounded toward zero, as in C."""
    if not (isinstance(a, Operand) or isinstance(b, Operand)):
        quotient = builtins.abs(a) // builtins.abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    x, y = as_expr(a, getattr(b, "dtype", None)), as_expr(b, getattr(a, "dtype", None))
    quotient = abs_value(x) // abs_value(y)
    return select((x < 0) == (y < 0), quotient, -quotient)


def truncmod(a: Any, b: Any) -> Any:
    """The remainder of :func:`truncdiv`, with the sign of ``a``."""
    return a - truncdiv(a, b) * b


def abs_value(x: Any) -> Any:
    """The absolute value."""
    return builtins.abs(x)


def align_up(value: Any, factor: Any) -> Any:
    """The least multiple of ``factor`` that is at least ``value``."""
    return ceildiv(value, factor) * factor


def if_then_else(cond: Any, t: Any, f: Any) -> Any:
    """``t`` where ``cond`` holds, else ``f``; only the one taken is evaluated."""
    if not isinstance(cond, Operand):
        return t if cond else f
    return select(cond, t, f)


def Select(condition: Any, true_value: Any, false_value: Any) -> Any:
    """As :func:`if_then_else`."""
    return if_then_else(condition, true_value, false_value)


where = if_then_else


def reinterpret(value: Any, dtype: Any) -> Expr:
    """The bits of ``value`` as a value of ``dtype``, a type of the same size.

    Raises:
        DTypeError: the sizes differ.
    """
    if isinstance(value, (str, DType)) or type(value).__name__ == "dtype":
        value, dtype = dtype, value  # T.reinterpret("float32", x), the older order
    target, source = dtype_of(dtype), as_expr(value)
    if target.bits != source.dtype.bits:
        raise errors.DTypeError(
            f"T.reinterpret of {source.dtype} ({source.dtype.bits} bits) as {target} "
            f"({target.bits} bits)",
            span=span.here(),
            notes=["the sizes must be equal; T.cast converts values"],
        )
    return source if target == source.dtype else call(target, "reinterpret", [source])


def Cast(dtype: Any, value: Any) -> Expr:
    """``value`` converted to ``dtype``; as ``T.cast(value, dtype)``."""
    return cast(value, dtype)


def bitwise_and(a: Any, b: Any) -> Any:
    """``a & b``."""
    return a & b


def bitwise_or(a: Any, b: Any) -> Any:
    """``a | b``."""
    return a | b


def bitwise_xor(a: Any, b: Any) -> Any:
    """``a ^ b``."""
    return a ^ b


def bitwise_not(a: Any) -> Any:
    """``~a``."""
    return ~a


def shift_left(a: Any, b: Any) -> Any:
    """``a << b``."""
    return a << b


def shift_right(a: Any, b: Any) -> Any:
    """``a >> b``: arithmetic for signed types, logical for unsigned ones."""
    return a >> b


def infinity(dtype: Any) -> Expr:
    """Infinity of a floating-point type."""
    target = _float_type(dtype, "T.infinity")
    if target == "float8_e4m3fn":
        raise errors.DTypeError(
            "float8_e4m3fn has no infinity", span=span.here(), notes=["use T.max_value(dtype)"]
        )
    return cast(math.inf, target)


def _float_type(dtype: Any, what: str) -> DType:
    target = dtype_of(dtype)
    if not target.is_float:
        raise errors.DTypeError(
            f"{what} of {target}, which is no floating-point type",
            span=span.here(),
            notes=["use T.max_value(dtype) or T.min_value(dtype)"],
        )
    return target


# Greatest finite values, from the formats' definitions: (2 - 2^-fraction) * 2^bias.
_GREATEST = {
    "float16": 65504.0,
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
    "float32": (2 - 2.0**-23) * 2.0**127,
    "float64": (2 - 2.0**-52) * 2.0**1023,
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
}


def max_value(dtype: Any) -> Expr:
    """The greatest finite value of a type."""
    target = dtype_of(dtype)
    if target.is_float:
        return cast(_GREATEST[target], target)
    return cast(1 if target.is_bool else target.integer_range[1], target)


def min_value(dtype: Any) -> Expr:
    """The least finite value of a type."""
    target = dtype_of(dtype)
    if target.is_float:
        return cast(-_GREATEST[target], target)
    return cast(0 if target.is_bool else target.integer_range[0], target)
