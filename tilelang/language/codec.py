"""Encodings of types that nothing computes with: 4 and 6 bits, and some of 8 bits.

An element becomes a value of a type that holds all of them exactly, and back.
"""

from __future__ import annotations

from collections.abc import Callable
from math import lcm
from typing import Any, NamedTuple

from ..ir.dtype import FLOAT32, UINT32, dtype_of
from ..ir.expr import Expr, as_expr, call, cast, const, select
from ..ir.extensions import extensions

_INT8, _UINT8, _UINT16 = dtype_of("int8"), dtype_of("uint8"), dtype_of("uint16")
_FLOAT16 = dtype_of("float16")


class Codec(NamedTuple):
    """A type of elements.

    Attributes:
        bits: of an element in a tensor.
        value: the type of what an element is read as, which tiles hold, too.
        decode: from the bits (uint8) to a value.
        encode: from an expression of any type to the bits (uint8).
        rounded: an expression of any type as the nearest value.
    """

    bits: int
    value: Any
    decode: Callable[[Expr], Expr]
    encode: Callable[[Expr], Expr]

    def rounded(self, value: Expr) -> Expr:
        """Returns the value that ``value`` becomes when it is stored."""
        return self.decode(self.encode(value))


def reinterpreted(value: Expr, dtype: Any) -> Expr:
    """The bits of ``value`` as another type of the same size."""
    return value if value.dtype == dtype else call(dtype, "reinterpret", [value])


def _low_bits(value: Expr) -> Expr:
    if value.dtype.is_float:
        value = cast(value, "int32")
    return cast(value, _UINT8) & 15


def _signed(bits: Expr) -> Expr:
    return (cast(bits << 4, _INT8)) >> 4


def _e2m1_value(bits: Expr) -> Expr:
    """Exponent and mantissa at their places in float16, whose bias is greater by 14."""
    wide = cast(bits, _UINT16)
    scaled = reinterpreted((wide & 7) << 9 | (wide & 8) << 12, _FLOAT16)
    return scaled * const(16384.0, _FLOAT16)


# |x| is rounded up at these: to the next of 0, 0.5, 1, 1.5, 2, 3, 4, 6; ties go to even codes.
_E2M1_STEPS = ((0.25, False), (0.75, True), (1.25, False), (1.75, True), (2.5, False), (3.5, True))
_E2M1_LAST = 5.0


def _e2m1_bits(value: Expr) -> Expr:
    """Encodes as ``cvt.rn.satfinite.e2m1x2.f32`` does: NaN becomes the greatest value."""
    x = cast(value, FLOAT32)
    size = call(FLOAT32, "fabs", [x])
    code: Any = cast(size > _E2M1_LAST, _UINT8)
    for step, tie_up in _E2M1_STEPS:
        code = code + cast(size >= step if tie_up else size > step, _UINT8)
    sign = cast((reinterpreted(x, UINT32) >> 28) & 8, _UINT8)
    return select(x != x, const(7, _UINT8), code | sign)


def _nearest_code(x: Expr, fraction: int, bias: int, most: int) -> Expr:
    """The code of |x| (float32), halves to even, as uint32; not more than ``most``, nor of NaN."""
    size = reinterpreted(x, UINT32) & 0x7FFFFFFF
    dropped = 23 - fraction
    odd = size >> dropped & 1
    rounded = (size + odd + ((1 << (dropped - 1)) - 1)) >> dropped
    normal = rounded - ((127 - bias) << fraction)
    steps = call(FLOAT32, "fabs", [x]) * const(2.0 ** (bias + fraction - 1), FLOAT32)
    small = cast(call(FLOAT32, "nearbyint", [steps]), UINT32)
    code = select(size >= (128 - bias) << 23, normal, small)
    return select(code > most, const(most, UINT32), code)


class _Small(NamedTuple):
    """A 6-bit float of OCP's MX formats, without infinity and NaN; float16 holds all values."""

    fraction: int
    bias: int

    def decode(self, bits: Expr) -> Expr:
        """Exponent and fraction at their places in float16, whose bias is 15."""
        wide = cast(bits, _UINT16)
        placed = (wide & 0x1F) << (10 - self.fraction) | (wide & 0x20) << 10
        return reinterpreted(placed, _FLOAT16) * const(2.0 ** (15 - self.bias), _FLOAT16)

    def encode(self, value: Expr) -> Expr:
        """Encodes as ``cvt.rn.satfinite`` does: ties to even, NaN becomes the greatest value."""
        x = cast(value, FLOAT32)
        code = _nearest_code(x, self.fraction, self.bias, 0x1F)
        sign = select(x != x, const(0, UINT32), reinterpreted(x, UINT32) >> 26 & 0x20)
        return cast(code | sign, _UINT8)


_E2M3, _E3M2 = _Small(3, 1), _Small(2, 3)


def _e8m0_value(bits: Expr) -> Expr:
    """2 ** (bits - 127); 255 is NaN. float32 holds 2 ** -127 as a subnormal number."""
    wide = cast(bits, UINT32)
    smallest = select(wide == 0, const(0x00400000, UINT32), wide << 23)
    return reinterpreted(select(wide == 255, const(0x7FC00000, UINT32), smallest), FLOAT32)


def _e8m0_bits(value: Expr) -> Expr:
    """The nearest power of two, as torch rounds: halves up, but for those of subnormal numbers."""
    word = reinterpreted(cast(value, FLOAT32), UINT32)
    exponent, rest = word >> 23 & 255, word & 0x7FFFFF
    up = (rest > 0x400000) | ((rest == 0x400000) & (exponent > 0))
    return cast(select(exponent == 255, exponent, exponent + cast(up, UINT32)), _UINT8)


class _Fnuz(NamedTuple):
    """An 8-bit float with one zero and one NaN, 0x80, and no infinity: those of AMD's CDNA 3."""

    fraction: int
    bias: int

    def decode(self, bits: Expr) -> Expr:
        """The value, as float16, which holds all of them."""
        wide = cast(bits, UINT32)
        size = wide & 0x7F
        normal = (size << (23 - self.fraction)) + ((127 - self.bias) << 23)
        least = const(2.0 ** (1 - self.bias - self.fraction), FLOAT32)
        is_normal = size >= 1 << self.fraction
        value = select(is_normal, reinterpreted(normal, FLOAT32), cast(size, FLOAT32) * least)
        signed = reinterpreted(reinterpreted(value, UINT32) | (wide & 0x80) << 24, FLOAT32)
        return cast(select(wide == 0x80, const(float("nan"), FLOAT32), signed), _FLOAT16)

    def encode(self, value: Expr) -> Expr:
        """The nearest value, halves to even; what is greater than all becomes the greatest."""
        x = cast(value, FLOAT32)
        code = _nearest_code(x, self.fraction, self.bias, 0x7F)
        signed = reinterpreted(x, UINT32) >> 24 & 0x80
        sign = select(code == 0, const(0, UINT32), signed)
        return cast(select(x != x, const(0x80, UINT32), code | sign), _UINT8)


_E4M3FNUZ, _E5M2FNUZ = _Fnuz(3, 8), _Fnuz(2, 16)


class NarrowType(str):
    """A type that tensors and tiles hold, and arithmetic does on a wider one: ``T.int4``.

    ``T.int4(x)`` is the value that ``x`` becomes when it is stored.

    Attributes:
        codec: how it lies in memory.
        bits: of an element in a tensor.
    """

    __slots__ = ()

    @property
    def codec(self) -> Codec:
        return CODECS[str(self)]

    @property
    def bits(self) -> int:
        return self.codec.bits

    @property
    def bytes(self) -> int:
        """The bytes of an element, rounded up."""
        return (self.bits + 7) // 8

    @property
    def greatest(self) -> int | float:
        """The greatest finite value."""
        return _GREATEST[str(self)]

    @property
    def least(self) -> int | float:
        """The least finite value; of exponents, which have no sign, the least power of two."""
        by_sign = {"int4": -8, "uint4": 0, "float8_e8m0fnu": 2.0**-127}
        return by_sign.get(str(self), -self.greatest)

    @property
    def packing(self) -> tuple[int, int]:
        """The least number of elements that fill bytes, and how many: (2, 1) of 4 bits."""
        elements = lcm(self.bits, 8) // self.bits
        return elements, elements * self.bits // 8

    def __call__(self, value: Any) -> Expr:
        """Returns the nearest value of this type."""
        return self.codec.rounded(as_expr(value))

    def __repr__(self) -> str:
        return f"T.{self!s}"


def narrow_type(dtype: Any) -> NarrowType | None:
    """Returns the type if it is one of :data:`CODECS`, by name or as torch's; else None."""
    name = str(dtype).removeprefix("torch.").removesuffix("_x2")
    return NarrowType(name) if name in CODECS else None


extensions.narrow_type = narrow_type

#: Name of a type of elements -> how it lies in memory.
CODECS: dict[str, Codec] = {
    "int4": Codec(4, _INT8, _signed, _low_bits),
    "uint4": Codec(4, _UINT8, lambda bits: bits, _low_bits),
    "float4_e2m1fn": Codec(4, _FLOAT16, _e2m1_value, _e2m1_bits),
    "float4_e2m1_unpacked": Codec(8, _FLOAT16, lambda bits: _e2m1_value(bits & 15), _e2m1_bits),
    "float6_e2m3fn": Codec(6, _FLOAT16, _E2M3.decode, _E2M3.encode),
    "float6_e3m2fn": Codec(6, _FLOAT16, _E3M2.decode, _E3M2.encode),
    "float8_e8m0fnu": Codec(8, dtype_of("float32"), _e8m0_value, _e8m0_bits),
    "float8_e4m3fnuz": Codec(8, _FLOAT16, _E4M3FNUZ.decode, _E4M3FNUZ.encode),
    "float8_e5m2fnuz": Codec(8, _FLOAT16, _E5M2FNUZ.decode, _E5M2FNUZ.encode),
}
_GREATEST: dict[str, int | float] = {
    "int4": 7,
    "uint4": 15,
    "float4_e2m1fn": 6.0,
    "float4_e2m1_unpacked": 6.0,
    "float6_e2m3fn": 7.5,
    "float6_e3m2fn": 28.0,
    "float8_e8m0fnu": 2.0**127,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2fnuz": 57344.0,
}
