"""Mathematical functions of scalars.

They keep the type of a floating-point argument; integers are converted to float32. Names that
start with two underscores are the fast, less exact forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import errors
from ..ir import span
from ..ir.dtype import BOOL, FLOAT32, INT32, DType
from ..ir.expr import Expr, Operand, as_expr, call, cast, power, promote

_UNARY = (
    *("exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "cbrt"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh"),
    *("atanh", "erf", "erfc", "sigmoid"),
)
_FAST = (
    *("__exp", "__exp2", "__exp10", "__log", "__log2", "__log10", "__sin", "__cos", "__tan"),
    *("__tanh", "__sqrt", "__rsqrt"),
)
_BINARY = ("atan2", "hypot", "copysign", "nextafter", "fmod")
_PREDICATES = ("isnan", "isinf", "isfinite")
_ROUNDED = {"ieee_add": 2, "ieee_sub": 2, "ieee_mul": 2, "ieee_fdiv": 2, "ieee_fmaf": 3} | {
    "ieee_frcp": 1,
    "ieee_fsqrt": 1,
    "ieee_frsqrt": 1,
}
_MODES = ("rn", "rz", "ru", "rd")


def _floating(value: Any, beside: DType | None = None) -> Expr:
    """``value`` as a floating-point expression."""
    result = as_expr(value, beside)
    if result.dtype.is_float:
        return result
    if result.dtype == "handle":
        raise errors.DTypeError(f"`{result}` is an address, not a number", span=span.here())
    return cast(result, FLOAT32)


def _same_type(*values: Any) -> list[Expr]:
    """Values promoted to one floating-point type."""
    beside = next((v.dtype for v in values if isinstance(v, Operand)), None)  # type: ignore[attr-defined]
    exprs = [_floating(value, beside) for value in values]
    dtype = exprs[0].dtype
    for expr in exprs[1:]:
        dtype = promote(dtype, expr.dtype)
    return [cast(expr, dtype) for expr in exprs]


def _unary(name: str, spelling: str | None = None) -> Callable[[Any], Expr]:
    def function(x: Any) -> Expr:
        value = _floating(x)
        return call(value.dtype, name, [value])

    return _named(function, spelling or name, f"``{name}(x)``, of the type of ``x``.")


def _fast(name: str) -> Callable[[Any], Expr]:
    def function(x: Any) -> Expr:
        kind = x.dtype if isinstance(x, Operand) else FLOAT32  # type: ignore[attr-defined]
        if not kind.is_float or kind.bits < 16:
            raise errors.DTypeError(
                f"T.{name} only supports floating-point inputs, but got {kind}",
                span=span.here(),
                notes=[f'convert it: T.{name}(T.cast(x, "float32"))'],
            )
        value = _floating(x)
        return call(value.dtype, name, [value])

    return _named(function, name, f"``{name}(x)``, fast and less exact, of the type of ``x``.")


def _binary(name: str) -> Callable[[Any, Any], Expr]:
    def function(x: Any, y: Any) -> Expr:
        a, b = _same_type(x, y)
        return call(a.dtype, name, [a, b])

    return _named(function, name, f"``{name}(x, y)``, of the promoted type.")


def _predicate(name: str) -> Callable[[Any], Expr]:
    def function(x: Any) -> Expr:
        return call(BOOL, name, [_floating(x)])

    return _named(function, name, f"``{name}(x)``, a bool.")


def _bit_count(name: str) -> Callable[[Any], Expr]:
    def function(x: Any) -> Expr:
        value = as_expr(x)
        if not value.dtype.is_integer:
            raise errors.DTypeError(
                f"T.{name} takes integers, but `{value}` has type {value.dtype}", span=span.here()
            )
        if value.dtype.bits < 32:
            value = cast(value, "int32" if value.dtype.is_signed else "uint32")
        return call(INT32, name, [value])

    return _named(function, name, f"``{name}(x)`` of the bits of an integer, an int32.")


def _rounded(name: str, count: int) -> Callable[..., Expr]:
    def function(*args: Any, rounding_mode: str = "rn") -> Expr:
        operands = args
        if len(args) == count + 1 and isinstance(args[-1], str):
            operands, rounding_mode = args[:-1], args[-1]
        if rounding_mode not in _MODES:
            raise errors.SemanticsError(
                f"Invalid rounding mode {rounding_mode!r} of T.{name}",
                span=span.here(),
                notes=[f"known: {', '.join(_MODES)}"],
            )
        if len(operands) != count:
            raise errors.SemanticsError(
                f"T.{name} takes {count} operands and a rounding mode ({', '.join(_MODES)})",
                span=span.here(),
            )
        values = _same_type(*operands)
        dtype = values[0].dtype
        _check_rounding(name, dtype, rounding_mode)
        if dtype.bits == 16 and name == "ieee_fmaf":
            return call(dtype, "fma", values)  # a float32 result would be rounded twice
        return call(dtype, name, [*values, rounding_mode])

    return _named(
        function,
        name,
        f"""``{name}`` of {count} operands, correctly rounded.

        Args:
            args: numbers, promoted to one type; integers are converted to float32.
            rounding_mode: "rn" (to nearest, ties to even), "rz" (toward zero), "ru" (up) or
                "rd" (down). Types of 16 bits have "rn" only.

        Raises:
            UnsupportedError: the type does not have the function, or not in this mode.
        """,
    )


def _check_rounding(name: str, dtype: DType, mode: str) -> None:
    """Refuses what no instruction of a GPU rounds so."""
    reason = None
    if dtype.bits == 8:
        reason = "no arithmetic on 8 bits", "cast the operands to float32"
    elif name == "ieee_frsqrt" and dtype.bits == 64:
        reason = "it does not exist for float64", "use T.ieee_frcp(T.ieee_fsqrt(x)), rounded twice"
    elif name == "ieee_frsqrt" and mode != "rn":
        reason = "it rounds to nearest only", 'use "rn"'
    elif dtype.bits == 16 and mode != "rn":
        reason = 'types of 16 bits are rounded to nearest ("rn") only', "cast to float32 and back"
    if reason:
        raise errors.UnsupportedError(
            f"T.{name} of {dtype} with rounding mode {mode!r}: {reason[0]}",
            span=span.here(),
            notes=[reason[1]],
        )


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _to_integer(name: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        value = as_expr(x)
        return call(value.dtype, name, [value]) if value.dtype.is_float else value

    return _named(function, name, f"``{name}(x)``, of the type of ``x``; integers stay themselves.")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _unary(name) for name in _UNARY},
    **{name: _fast(name) for name in _FAST},
    **{name: _binary(name) for name in _BINARY},
    **{name: _predicate(name) for name in _PREDICATES},
    **{name: _bit_count(name) for name in ("popcount", "clz")},
    **{name: _rounded(name, count) for name, count in _ROUNDED.items()},
    **{name: _to_integer(name) for name in ("floor", "ceil", "trunc", "nearbyint")},
    "__ffs": _bit_count("ffs"),
    "fast_rcp": _unary("__rcp", "fast_rcp"),
}


def round(x: Any, rounding_mode: str = "ties-to-even") -> Expr:
    """The nearest integer, of the type of ``x``.

    Args:
        x: a value; integers stay themselves.
        rounding_mode: "ties-to-even", or "ties-away-from-zero" (also "ties-away").
    """
    names = {"ties-to-even": "nearbyint", "ties-away-from-zero": "round", "ties-away": "round"}
    if rounding_mode not in names:
        raise errors.SemanticsError(
            f"unknown rounding mode {rounding_mode!r} of T.round",
            span=span.here(),
            notes=[f"known: {', '.join(names)}"],
        )
    value = as_expr(x)
    return call(value.dtype, names[rounding_mode], [value]) if value.dtype.is_float else value


def pow(x: Any, y: Any) -> Expr:
    """``x`` to the power ``y``."""
    return power(x, y)


def fma(x: Any, y: Any, z: Any) -> Expr:
    """``x * y + z`` rounded once."""
    values = _same_type(x, y, z)
    return call(values[0].dtype, "fma", values)


def fabs(x: Any) -> Expr:
    """The absolute value of a floating-point number."""
    return abs(_floating(x))


def exp2_fma(x: Any, degree: int = 5) -> Expr:
    """``2 ** x`` by a polynomial: on the FMA pipe instead of the unit of special functions.

    That unit (MUFU) does an eighth of the operations a cycle. Where exponentials are what a loop
    waits for, let each do a part:
    ``T.if_then_else(j % 8 < 2, T.exp2_fma(x, degree=3), T.exp2(x))``. Of float32, the largest error
    over all operands whose result is a normal number: 2.04 units in the last place with degree 5
    (relative 1.8e-7), 42.9 with degree 4 (2.9e-6), 1345.2 with degree 3 (1.02e-4: that of a
    bfloat16 is 3.9e-3). Integers have exact results. From 127.5 on the result is infinity, below
    -126.5 zero, in between, results below 2 ** -126 are subnormal or zero. NaN gives NaN.

    Args:
        x: a number of at most 32 bits; 16-bit numbers and integers are computed in float32.
        degree: of the polynomial, 3, 4 or 5: each takes one operation more.

    Raises:
        DTypeError: ``x`` is a float64.
        SemanticsError: no polynomial of this degree.
    """
    value = _floating(x)
    if value.dtype.bits > 32 or value.dtype.bits < 16:
        raise errors.DTypeError(
            f"T.exp2_fma does not support {value.dtype}: it computes in float32",
            span=span.here(),
            notes=["use T.exp2, or cast the operand to float32"],
        )
    if degree not in (3, 4, 5):
        raise errors.SemanticsError(
            f"T.exp2_fma: degree must be 3, 4 or 5, got {degree}", span=span.here()
        )
    return call(value.dtype, f"exp2_fma{degree}", [value])


def ldexp(x: Any, exponent: Any) -> Expr:
    """``x * 2 ** exponent`` with an integer exponent."""
    value = _floating(x)
    return call(value.dtype, "ldexp", [value, cast(exponent, INT32)])
