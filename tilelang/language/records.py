"""The records of the language: argmax, argmin, Welford's, log-sum-exp, top-k."""

from __future__ import annotations

import math
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import plain
from ..ir.dtype import dtype_of
from .math import FUNCTIONS
from .record import Fields, Record
from .reduce_axes import running_type
from .scalar import AND, OR, abs_value, highest, if_then_else, logical, logical_not, lowest
from .scalar import max as maximum

exp, isnan, log = (FUNCTIONS[name] for name in ("exp", "isnan", "log"))
#: The index of no element.
NO_INDEX = 2**31 - 1
MOST_OF_TOPK = 16


def _wins(value: Any, index: Any, over: Any, over_index: Any, sign: int) -> Any:
    """Whether an element comes before another: NaN first, then by value, then the lower index."""
    beyond = value > over if sign > 0 else value < over
    equal = value == over
    if value.dtype.is_float:
        is_nan, over_nan = isnan(value), isnan(over)
        beyond = logical(OR, beyond, logical(AND, is_nan, logical_not(over_nan)))
        equal = logical(OR, equal, logical(AND, is_nan, over_nan))
    return logical(OR, beyond, logical(AND, equal, index < over_index))


def _extreme(dtype: Any, sign: int) -> Record:
    kind = running_type(dtype_of(dtype))

    def combine(a: Any, b: Any) -> Any:
        wins = _wins(b.value, b.index, a.value, a.index, sign)
        return if_then_else(wins, b.value, a.value), if_then_else(wins, b.index, a.index)

    return Record(
        {"value": kind, "index": "int32"},
        (lowest(kind) if sign > 0 else highest(kind), NO_INDEX),
        combine,
        name="argmax" if sign > 0 else "argmin",
    )


def argmax(dtype: Any) -> Record:
    """The record of the greatest value and its index; a contribution gives both.

    Of equal values the lowest index wins, and NaN wins over numbers, as in torch. Without any
    contribution the index is 2^31 - 1.
    """
    return _extreme(dtype, 1)


def argmin(dtype: Any) -> Record:
    """The record of the least value and its index; see :func:`argmax`."""
    return _extreme(dtype, -1)


def _divided(a: Any, b: Any) -> Any:
    return a / if_then_else(b > 0, b, 1)


def welford(dtype: Any = "float32", correction: float = 0) -> Record:
    """The record of mean and variance in one pass; a contribution gives a value.

    Values are taken relative to the first one that the record sees, and what comes is added by
    Welford's update (Technometrics 4, 1962), of two records by that of Chan, Golub and LeVeque
    (1979): variances are exact to 1e-6 also where the mean is 1e4 times the deviation. With
    infinities among the values the mean is that of their sum, as in torch: the infinity, or NaN for
    both of them; the variance is NaN.

    Args:
        dtype: float32 or float64.
        correction: the variance is divided by the number of values less this.

    Results: ``mean``, ``variance``, ``m2`` (sum of squared deviations), ``count``.
    """
    kind = running_type(dtype_of(dtype))
    if not kind.is_float:
        raise errors.DTypeError(f"T.welford takes floats, got {kind}", span=span.here())

    def insert(r: Any, x: Any) -> Any:
        origin = if_then_else(r.count == 0, if_then_else(_is_infinite(x), 0, x), r.origin)
        count = r.count + 1
        value = x - origin
        delta = value - r.offset
        offset = r.offset + if_then_else(_is_infinite(r.offset), value, delta / count)
        return count, origin, offset, r.m2 + delta * (value - offset)

    def combine(a: Any, b: Any) -> Any:
        count = a.count + b.count
        origin = if_then_else(a.count == 0, b.origin, a.origin)
        moved = if_then_else(b.count == 0, 0, b.origin - origin)
        delta = b.offset + moved - a.offset
        share = _divided(b.count, count)
        infinite = _is_infinite(a.offset) | _is_infinite(b.offset)
        offset = a.offset + if_then_else(infinite, b.offset, delta * share)
        return count, origin, offset, a.m2 + b.m2 + delta * delta * a.count * share

    return Record(
        {"count": kind, "origin": kind, "offset": kind, "m2": kind},
        (0, 0, 0, 0),
        combine,
        insert,
        {"value": kind},
        {
            "mean": lambda r: r.origin + r.offset,
            "variance": lambda r: r.m2 / (r.count - correction),
            "m2": lambda r: r.m2,
            "count": lambda r: r.count,
        },
        "welford",
    )


def _is_infinite(x: Any) -> Any:
    return abs_value(x) == math.inf


def logsumexp(dtype: Any = "float32") -> Record:
    """The record of log(sum(exp(x))), computed relative to the greatest value.

    Results: ``value``, ``max`` and ``sum``, that of exp(x - max).
    """
    kind = running_type(dtype_of(dtype))
    if not kind.is_float:
        raise errors.DTypeError(f"T.logsumexp takes floats, got {kind}", span=span.here())

    def insert(r: Any, x: Any) -> Any:
        # One of the two factors is 1.
        factor = if_then_else(r.max == x, 1, exp(-abs_value(r.max - x)))
        total = if_then_else(x > r.max, r.sum * factor + 1, r.sum + factor)
        return maximum(r.max, x), total

    def combine(a: Any, b: Any) -> Any:
        most = maximum(a.max, b.max)
        parts = [
            each.sum * if_then_else(each.max == most, 1, exp(each.max - most)) for each in (a, b)
        ]
        return most, parts[0] + parts[1]

    return Record(
        {"max": kind, "sum": kind},
        (-math.inf, 0),
        combine,
        insert,
        {"value": kind},
        {"value": lambda r: r.max + log(r.sum), "max": lambda r: r.max, "sum": lambda r: r.sum},
        "logsumexp",
    )


def topk(k: int, dtype: Any) -> Record:
    """The record of the ``k`` greatest values, in order, and their indices.

    Ties and NaN are as in :func:`argmax`. A contribution gives a value and its index.

    Results: ``value0``, ``index0``, ``value1``, ... ; of missing ones the index is 2^31 - 1.

    Raises:
        SemanticsError: k is not from 1 to 16: the values lie in registers.
    """
    number = plain(k)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_OF_TOPK:
        raise errors.SemanticsError(
            f"T.topk: k must be from 1 to {MOST_OF_TOPK}, which registers can hold, got {k}",
            span=span.here(),
        )
    kind = running_type(dtype_of(dtype))

    def insert(r: Any, *new: Any) -> Any:
        fields: list[Any] = []
        for place in range(number):
            held = getattr(r, f"value{place}"), getattr(r, f"index{place}")
            wins = _wins(new[0], new[1], held[0], held[1], 1)
            fields += [if_then_else(wins, a, b) for a, b in zip(new, held, strict=True)]
            new = tuple(if_then_else(wins, b, a) for a, b in zip(new, held, strict=True))
        return tuple(fields)

    names = [f"{what}{place}" for place in range(number) for what in ("value", "index")]

    def combine(a: Any, b: Any) -> Any:
        for place in range(number):
            new = getattr(b, f"value{place}"), getattr(b, f"index{place}")
            a = Fields(names, insert(a, *new))
        return tuple(getattr(a, name) for name in names)

    return Record(
        {name: kind if name.startswith("value") else "int32" for name in names},
        (lowest(kind), NO_INDEX) * number,
        combine,
        insert,
        {"value": kind, "index": "int32"},
        name="topk",
    )
