"""Float formats by exact rational arithmetic: decoding, and rounding in every mode."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Format(NamedTuple):
    """Exponent and mantissa bits, bias, and whether the top exponent holds infinity and NaN."""

    exponent: int
    mantissa: int
    bias: int
    ieee: bool = True
    nan_only: bool = False

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa


F64 = Format(11, 52, 1023)
F32 = Format(8, 23, 127)
TF32 = Format(8, 10, 127)
F16 = Format(5, 10, 15)
BF16 = Format(8, 7, 127)
E5M2 = Format(5, 2, 15)
E4M3 = Format(4, 3, 7, ieee=False, nan_only=True)
E3M2 = Format(3, 2, 3, ieee=False)
E2M3 = Format(2, 3, 1, ieee=False)
E2M1 = Format(2, 1, 1, ieee=False)

Value = Fraction | str  # exact number, or "inf", "-inf", "nan", "-0"


def decode(f: Format, code: int) -> Value:
    negative = code >> (f.bits - 1) & 1
    magnitude = code & ((1 << (f.bits - 1)) - 1)
    exponent, mantissa = magnitude >> f.mantissa, magnitude & ((1 << f.mantissa) - 1)
    if f.ieee and exponent == (1 << f.exponent) - 1:
        return "nan" if mantissa else ("-inf" if negative else "inf")
    if f.nan_only and magnitude == (1 << (f.bits - 1)) - 1:
        return "nan"
    if exponent == 0:
        value = Fraction(mantissa) * Fraction(2) ** (1 - f.bias - f.mantissa)
    else:
        value = Fraction((1 << f.mantissa) + mantissa) * Fraction(2) ** (
            exponent - f.bias - f.mantissa
        )
    if negative and value == 0:
        return "-0"
    return -value if negative else value


def number(value: Value) -> Fraction:
    return Fraction(0) if value == "-0" else value


def largest(f: Format) -> Fraction:
    top = (1 << f.exponent) - (2 if f.ieee else 1)
    mantissa = (1 << f.mantissa) - (2 if f.nan_only else 1)
    return Fraction((1 << f.mantissa) + mantissa) * Fraction(2) ** (top - f.bias - f.mantissa)


def _step_down(value: Fraction, step: Fraction, mode: str, negative: bool) -> Fraction:
    units, rest = divmod(value / step, 1)
    up = {
        "rz": False,
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and units % 2 == 1),
        "rna": rest >= Fraction(1, 2),
        "rp": rest > 0 and not negative,
        "rm": rest > 0 and negative,
    }[mode]
    return (units + up) * step


def _exponent(f: Format, magnitude: Fraction) -> int:
    """The exponent of a number not below 0: that of subnormals at least."""
    bits = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    floor = bits if magnitude >= Fraction(2) ** bits else bits - 1
    return max(floor, 1 - f.bias)


def encode(f: Format, value: Value, mode: str = "rn", satfinite: bool = False) -> int:
    """Returns the code of the rounded value; NaN becomes the canonical one."""
    all_ones = (1 << (f.bits - 1)) - 1
    finite_only = not f.ieee and not f.nan_only
    if value == "nan":
        return all_ones
    negative = value in ("-0", "-inf") or (not isinstance(value, str) and value < 0)
    sign = int(negative) << (f.bits - 1)
    top = largest(f)
    if value in ("inf", "-inf"):
        overflow, rounded = True, top + 1
    else:
        magnitude = abs(number(value))
        exponent = _exponent(f, magnitude)
        rounded = _step_down(magnitude, Fraction(2) ** (exponent - f.mantissa), mode, negative)
        overflow = rounded > top
    if overflow:
        to_max = mode == "rz" or mode == ("rm" if not negative else "rp")
        if satfinite or finite_only or (to_max and value not in ("inf", "-inf")):
            return sign | encode(f, top)
        if not f.ieee:
            return all_ones
        return sign | ((1 << f.exponent) - 1) << f.mantissa
    exponent = _exponent(f, rounded)
    units = rounded / Fraction(2) ** (exponent - f.mantissa)
    if units < 1 << f.mantissa:
        return sign | int(units)
    return sign | (exponent + f.bias) << f.mantissa | (int(units) - (1 << f.mantissa))
