"""Element types as sets of numbers: float64 values rounded to them, or refused as inexact.

The reference computes in float64. A program whose result could depend on the order of additions, or
on how an overflow is handled, is rejected: what is left is compared bit by bit.
"""

from __future__ import annotations

from typing import NamedTuple

import torch


class Inexact(Exception):
    """The values leave what the type holds exactly: the program has no single right result."""


class Format(NamedTuple):
    """Significand bits with the implicit one, least normal exponent, bounds."""

    significand: int
    least_exponent: int
    lowest: float
    highest: float
    is_float: bool

    @property
    def step(self) -> float:
        """The distance of neighbouring subnormal numbers; of integers, 1."""
        return 2.0 ** (self.least_exponent - self.significand + 1) if self.is_float else 1.0


def _float(significand: int, least_exponent: int, highest: float) -> Format:
    return Format(significand, least_exponent, -highest, highest, True)


def _integer(bits: int, signed: bool) -> Format:
    low = -(2 ** (bits - 1)) if signed else 0
    return Format(bits - signed, 0, low, low + 2**bits - 1, False)


FORMATS = {
    "float32": _float(24, -126, torch.finfo(torch.float32).max),
    "float16": _float(11, -14, 65504.0),
    "bfloat16": _float(8, -126, torch.finfo(torch.bfloat16).max),
    "float8_e4m3fn": _float(4, -6, 448.0),
    "float8_e5m2": _float(3, -14, 57344.0),
    "int32": _integer(32, True),
    "int16": _integer(16, True),
    "int8": _integer(8, True),
    "uint8": _integer(8, False),
}

TORCH = {name: getattr(torch, name) for name in FORMATS}
BITS = {name: TORCH[name].itemsize * 8 for name in FORMATS}


def is_float(dtype: str) -> bool:
    return FORMATS[dtype].is_float


def rounded(values: torch.Tensor, dtype: str) -> torch.Tensor:
    """Rounds float64 values to the nearest number of a float type, ties to even."""
    f = FORMATS[dtype]
    exponent = torch.frexp(values).exponent.double() - 1
    quantum = torch.exp2(exponent.clamp(min=f.least_exponent) - (f.significand - 1))
    return torch.round(values / quantum) * quantum


def exact(values: torch.Tensor, dtype: str) -> torch.Tensor:
    """Returns the values; raises Inexact if one of them is not a number of the type."""
    f = FORMATS[dtype]
    known = values[~values.isnan()]
    nearest = rounded(known, dtype) if f.is_float else known.round()
    if ((known < f.lowest) | (known > f.highest) | (nearest != known)).any():
        raise Inexact(f"a value is no {dtype}")
    return values


def exact_sum(magnitudes: torch.Tensor, terms: torch.Tensor, dtype: str) -> None:
    """Raises Inexact unless sums of the terms are exact in any order.

    Args:
        magnitudes: the sums of the absolute values.
        terms: all terms; their common step decides which sums the type holds.
    """
    step = 1.0
    while not torch.equal(torch.round(terms / step), terms / step):
        step /= 2
        if step < 2.0**-24:
            raise Inexact("terms of very different size")
    f = FORMATS[dtype]
    limit = min(f.highest, step * 2.0**f.significand) if f.is_float else f.highest
    if magnitudes.numel() and magnitudes.max() > limit:
        raise Inexact(f"a sum may not be exact in {dtype}")


def cast(values: torch.Tensor, source: str, target: str) -> torch.Tensor:
    """Converts numbers of one type to another, as C++ does: rounded, truncated or wrapped around.

    Raises:
        Inexact: a float is out of the target's range; an integer would be rounded twice by way of
            float32.
    """
    f = FORMATS[target]
    if f.is_float:
        if not is_float(source) and (values.abs() > 2**24).any():
            raise Inexact("an integer beyond 2^24 becomes a float")
        result = rounded(values, target)
        if (result.abs() > f.highest).any():
            raise Inexact(f"{target} overflows")
        return result
    if is_float(source):
        result = values.trunc()
        if ((result < f.lowest) | (result > f.highest)).any():
            raise Inexact(f"{target} overflows")
        return result + 0.0
    width = f.highest - f.lowest + 1
    return (values - f.lowest).remainder(width) + f.lowest
