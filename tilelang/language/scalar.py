"""Arithmetic on scalars beside Python's operators: min, max, division, selection, bits."""

from __future__ import annotations

import builtins
import math
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.dtype import FLOAT32, GREATEST, DType, dtype_of
from ..ir.expr import (
    BinaryOp,
    Expr,
    IntImm,
    Operand,
    as_expr,
    binary,
    call,
    cast,
    condition,
    const,
    promote,
    select,
    unary,
)
from .codec import narrow_type

_arithmetic = _ffi.get("ir.Arithmetic")
AND, OR = BinaryOp.AND, BinaryOp.OR
#: Roundings of conversions other than to the nearest value.
_ROUNDINGS = {"float16": ("rz", "ru", "rd"), "bfloat16": ("rz",)}


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
    """The lesser of two values; of a number and NaN the number, as CUDA's ``fminf``."""
    return _both(BinaryOp.MIN, a, b, builtins.min)


def max(a: Any, b: Any) -> Any:
    """The greater of two values; of a number and NaN the number, as CUDA's ``fmaxf``."""
    return _both(BinaryOp.MAX, a, b, builtins.max)


def clamp(dst: Any, min_val: Any, max_val: Any) -> Any:
    """``dst`` limited to ``[min_val, max_val]``; NaN if one of them is, as ``torch.clamp``.

    Where the bounds cross, the result is ``max_val``.
    """
    known = [value for value in (dst, min_val, max_val) if isinstance(value, Operand)]
    if not known:
        number = next((value for value in (dst, min_val, max_val) if value != value), None)
        return min(max(dst, min_val), max_val) if number is None else number
    beside = as_expr(known[0]).dtype
    values = [as_expr(value, beside) for value in (dst, min_val, max_val)]
    dtype = promote(promote(values[0].dtype, values[1].dtype), values[2].dtype)
    if not dtype.is_float:
        return min(max(*values[:2]), values[2])
    value, low, high = (cast(each, dtype) for each in values)
    return call(dtype, "min_nan", [call(dtype, "max_nan", [value, low]), high])


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
    """``a / b`` of integers rounded toward zero, as in C.

    Raises:
        DTypeError: an operand is no integer.
    """
    if not (isinstance(a, Operand) or isinstance(b, Operand)):
        quotient = builtins.abs(a) // builtins.abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    x, y = _integers("T.truncdiv", a, b)
    quotient = x // y
    return quotient if not x.dtype.is_signed else quotient + cast(_rounded_down(x, y), x.dtype)


def truncmod(a: Any, b: Any) -> Any:
    """The remainder of :func:`truncdiv`, with the sign of ``a``."""
    if not (isinstance(a, Operand) or isinstance(b, Operand)):
        return a - truncdiv(a, b) * b
    x, y = _integers("T.truncmod", a, b)
    remainder = x % y
    return (
        remainder
        if not x.dtype.is_signed
        else select(_rounded_down(x, y), remainder - y, remainder)
    )


def _integers(what: str, a: Any, b: Any) -> tuple[Expr, Expr]:
    """Two integers, promoted to one type."""
    beside = next(as_expr(each).dtype for each in (a, b) if isinstance(each, Operand))
    exprs = as_expr(a, beside), as_expr(b, beside)
    dtype = promote(exprs[0].dtype, exprs[1].dtype)
    if not dtype.is_integer:
        raise errors.DTypeError(
            f"{what} divides integers, but `{exprs[0]}` and `{exprs[1]}` have the types "
            f"{exprs[0].dtype} and {exprs[1].dtype}",
            span=span.here(),
            notes=["T.trunc(a / b) is the quotient of floating-point numbers rounded toward zero"],
        )
    return cast(exprs[0], dtype), cast(exprs[1], dtype)


def _rounded_down(x: Expr, y: Expr) -> Expr:
    """Returns whether ``x // y`` is less than the quotient of these signed integers toward zero.

    No intermediate result overflows, as the absolute value of the least integer would.
    """
    if not isinstance(y, IntImm):
        return logical(AND, (x < 0) != (y < 0), x % y != 0)
    return logical(AND, x < 0 if y.value > 0 else x > 0, x % y != 0)


def abs_value(x: Any) -> Any:
    """The absolute value."""
    return builtins.abs(x)


def align_up(value: Any, factor: Any) -> Any:
    """The least multiple of ``factor`` that is at least ``value``."""
    return ceildiv(value, factor) * factor


def if_then_else(cond: Any, t: Any, f: Any) -> Any:
    """``t`` where ``cond`` holds, else ``f``; only the one taken is evaluated.

    Of vectors lane by lane.
    """
    from .lanes import Lanes, lanewise  # which imports this module

    if builtins.any(isinstance(each, Lanes) for each in (cond, t, f)):
        return lanewise(if_then_else, cond, t, f)
    if not isinstance(cond, Operand):
        return t if cond else f
    return select(cond, t, f)


def Select(condition: Any, true_value: Any, false_value: Any) -> Any:
    """Chooses between two values, as :func:`if_then_else` does."""
    return if_then_else(condition, true_value, false_value)


where = if_then_else


def reinterpret(value: Any, dtype: Any) -> Any:
    """The bits of ``value`` as a value of ``dtype``, a type of the same size.

    As a vector, ``T.float16x2`` of a word, its lanes begin with the lowest bits.

    Raises:
        DTypeError: the sizes differ.
    """
    if isinstance(value, (str, DType)) or type(value).__name__ == "dtype":
        value, dtype = dtype, value  # T.reinterpret("float32", x), the older order
    from .lanes import Lanes, VectorType, bitcast

    if isinstance(value, Lanes) or isinstance(dtype, VectorType):
        return bitcast(value if isinstance(value, Lanes) else Lanes([value]), dtype)
    target, source = dtype_of(dtype), as_expr(value)
    if target.bits != source.dtype.bits:
        raise errors.DTypeError(
            f"T.reinterpret cannot read {source.dtype} ({source.dtype.bits} bits) as {target} "
            f"({target.bits} bits)",
            span=span.here(),
            notes=["the sizes must be equal; T.cast converts values"],
        )
    return source if target == source.dtype else call(target, "reinterpret", [source])


def convert(value: Any, dtype: Any, round: str = "", sat: bool = True, rbits: Any = None) -> Expr:
    """``value`` converted to ``dtype``.

    Args:
        value: a number or an expression.
        dtype: a type; of a narrow one (int4, float4_e2m1fn, float8_e8m0fnu) the result is the
            nearest value, in the type that holds it.
        round: "" or "rn", to the nearest value, ties to even; "rz", toward zero, to float16 and
            bfloat16; "ru", up, and "rd", down, to float16.
        sat: values beyond the range of 8-bit floats become the greatest.
        rbits: random bits of stochastic rounding; not supported.

    Raises:
        UnsupportedError: another rounding.
    """
    if round in _ROUNDINGS.get(str(dtype), ()) and sat and rbits is None:
        target = dtype_of(dtype)
        return call(target, f"to_{target}", [cast(as_expr(value), FLOAT32), round])
    if round not in ("", "rn") or not sat or rbits is not None:
        raise errors.UnsupportedError(
            f"T.cast does not support round={round!r}, sat={sat}, rbits={rbits}",
            span=span.here(),
            notes=[
                'values are rounded to the nearest ("rn") and saturated; float16 has "rz", "ru" '
                'and "rd" too, bfloat16 has "rz"'
            ],
        )
    from .lanes import Lanes

    narrow = narrow_type(dtype)
    if isinstance(value, Lanes):
        return value.astype(getattr(dtype, "base", dtype))  # type: ignore[return-value]
    return cast(value, dtype) if narrow is None else narrow(value)


def Cast(dtype: Any, value: Any) -> Expr:
    """``value`` converted to ``dtype``; as ``T.cast(value, dtype)``."""
    return convert(value, dtype)


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
    """Infinity of a floating-point type.

    Raises:
        DTypeError: the type has none (integers, float8_e4m3fn).
    """
    target = _float_type(dtype, "T.infinity")
    if target == "float8_e4m3fn":
        raise errors.DTypeError(
            "float8_e4m3fn has no infinity", span=span.here(), notes=["use T.max_value(dtype)"]
        )
    return const(math.inf, target)


def _float_type(dtype: Any, what: str) -> DType:
    target = dtype_of(dtype)
    if not target.is_float:
        raise errors.DTypeError(
            f"{what} takes a floating-point type, got {target}",
            span=span.here(),
            notes=["use T.max_value(dtype) or T.min_value(dtype)"],
        )
    return target


def max_value(dtype: Any) -> Expr:
    """The greatest finite value of a type; of a narrow type a Python number."""
    narrow = narrow_type(dtype)
    if narrow is not None:
        return narrow.greatest  # type: ignore[return-value]
    target = dtype_of(dtype)
    if target.is_float:
        return cast(GREATEST[target], target)
    return cast(1 if target.is_bool else target.integer_range[1], target)


def min_value(dtype: Any) -> Expr:
    """The least finite value of a type; of a narrow type a Python number."""
    narrow = narrow_type(dtype)
    if narrow is not None:
        return narrow.least  # type: ignore[return-value]
    target = dtype_of(dtype)
    if target.is_float:
        return cast(-GREATEST[target], target)
    return cast(0 if target.is_bool else target.integer_range[0], target)


def lowest(dtype: Any) -> Expr:
    """The least value of a type: minus infinity, if the type has it."""
    target = dtype_of(dtype)
    return const(-math.inf, target) if _has_infinity(target) else min_value(target)


def highest(dtype: Any) -> Expr:
    """The greatest value of a type: infinity, if the type has it."""
    target = dtype_of(dtype)
    return const(math.inf, target) if _has_infinity(target) else max_value(target)


def _has_infinity(target: DType) -> bool:
    return target.is_float and (target.bits >= 16 or target == "float8_e5m2")
