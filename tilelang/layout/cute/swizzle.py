"""XOR swizzles over layouts in CuTe's order of axes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...errors import LayoutError
from ..layout import Layout as MemoryLayout
from ..swizzle_mode import SwizzleMode
from . import int_tuple as ints
from .int_tuple import ScaledBasis, is_int, mul
from .layout import Layout
from .recovery import digits, pitches, recovered

#: Bytes that swizzles of the hardware move together.
_CHUNK = 16
#: Values that tell most wrong swizzles from the right one.
_SAMPLES = 64


class Swizzle:
    """XORs bits of a number from ``m_base + s_shift`` on into as many bits from ``m_base`` on.

    Attributes:
        b_bits: how many bits; 0 for none.
        m_base: the lowest bit that changes.
        s_shift: how much higher the bits are that change it.
    """

    __slots__ = ("b_bits", "m_base", "s_shift")

    def __init__(self, b_bits: int, m_base: int, s_shift: int) -> None:
        if min(b_bits, m_base) < 0 or (b_bits and s_shift < b_bits):
            raise LayoutError(
                f"Sw<{b_bits},{m_base},{s_shift}> is no swizzle: the shift is at least the number "
                "of bits"
            )
        self.b_bits, self.m_base, self.s_shift = b_bits, m_base, s_shift

    @property
    def is_swizzled(self) -> bool:
        """Whether it changes any number."""
        return self.b_bits > 0

    def __call__(self, value: Any) -> Any:
        if not self.is_swizzled:
            return value
        mask = ((1 << self.b_bits) - 1) << (self.m_base + self.s_shift)
        return value ^ ((value & mask) >> self.s_shift)

    def recast(self, old_bits: int, new_bits: int) -> Swizzle:
        """Returns the swizzle of numbers of elements of another width.

        Raises:
            LayoutError: it would move parts of the new elements.
        """
        if not self.is_swizzled:
            return self
        base = self.m_base + _log2(old_bits) - _log2(new_bits)
        if base < 0:
            raise LayoutError(f"{self} of {old_bits} bits moves parts of {new_bits} bits")
        return Swizzle(self.b_bits, base, self.s_shift)

    def to_swizzle_mode(self) -> SwizzleMode:
        """Returns the mode of TMA and descriptors; of numbers that count bytes.

        Raises:
            LayoutError: the hardware has no such swizzle.
        """
        if self.is_swizzled and (self.m_base, self.s_shift) != (4, 3):
            raise LayoutError(f"TMA has no swizzle {self}: it permutes chunks of 16 bytes by rows")
        return SwizzleMode.of_bytes(_CHUNK << self.b_bits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Swizzle) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"Sw<{self.b_bits},{self.m_base},{self.s_shift}>"

    __repr__ = __str__

    @staticmethod
    def parse(text: str) -> Swizzle:
        """Reads what ``str`` gives.

        Raises:
            LayoutError: the text is no swizzle.
        """
        found = re.fullmatch(r"Sw<(\d+),(\d+),(\d+)>", text.replace(" ", ""))
        if found is None:
            raise LayoutError(f"{text!r} is no swizzle, such as Sw<3,4,3>")
        return Swizzle(*map(int, found.groups()))


def _log2(bits: int) -> int:
    if bits < 1 or bits & (bits - 1):
        raise LayoutError(f"elements of {bits} bits: a swizzle moves powers of two")
    return bits.bit_length() - 1


class ComposedLayout:
    """A layout whose values a swizzle permutes: ``swizzle(layout(c)) + offset``.

    Attributes:
        swizzle: the permutation.
        offset: the value at the origin; a multiple of what the swizzle permutes.
        layout: before the swizzle.
    """

    __slots__ = ("layout", "offset", "swizzle")

    def __init__(self, swizzle: Swizzle, offset: int, layout: Layout) -> None:
        self.swizzle, self.offset, self.layout = swizzle, offset, layout

    def __call__(self, coord: ints.IntTupleLike) -> Any:
        return ints.add(self.swizzle(self.layout(coord)), self.offset)

    def recast(self, old_bits: int, new_bits: int) -> ComposedLayout:
        """Returns the layout of elements of another width: the contiguous axis has more or fewer.

        Raises:
            LayoutError: no leaf is contiguous, or the new elements do not divide the strides.
        """
        if old_bits == new_bits:
            return self
        swizzle = self.swizzle.recast(old_bits, new_bits)
        old, new = _ratio(old_bits, new_bits)
        shape, stride = _recast(self.layout.shape, self.layout.stride, old, new)
        return ComposedLayout(swizzle, _whole(self.offset * old, new), Layout(shape, stride))

    def __str__(self) -> str:
        return f"{self.swizzle} o {self.offset} o {self.layout}"

    __repr__ = __str__

    @staticmethod
    def from_tilelang(layout: MemoryLayout, buffer: Any = None) -> ComposedLayout | None:
        """Returns a layout of shared memory as a swizzle over strides; None if it is no such.

        Args:
            layout: the map of elements.
            buffer: whose elements they are. Given, the result counts bytes.
        """
        found = _decoded(layout)
        if found is None or buffer is None:
            return found
        bits = int(buffer.dtype.bits)
        return found.recast(bits, 8)


def _ratio(old_bits: int, new_bits: int) -> tuple[int, int]:
    common = min(old_bits, new_bits)
    if old_bits % common or new_bits % common:
        raise LayoutError(f"elements of {old_bits} bits are no elements of {new_bits} bits")
    return old_bits // common, new_bits // common


def _whole(value: int, divisor: int) -> int:
    if value % divisor:
        raise LayoutError(f"{value} is no multiple of {divisor}: elements would be divided")
    return value // divisor


def _recast(shape: Any, stride: Any, old: int, new: int) -> tuple[Any, Any]:
    if isinstance(shape, tuple):
        pairs = [_recast(*each, old, new) for each in zip(shape, stride, strict=True)]
        return tuple([pair[0] for pair in pairs]), tuple([pair[1] for pair in pairs])
    if isinstance(stride, ScaledBasis) or not is_int(stride):
        raise LayoutError(f"the stride {stride} is not known in elements of another width")
    if stride == 1 and shape > 1:
        return _whole(mul(shape, old), new), 1
    return shape, _whole(stride * old, new)


def _decoded(layout: MemoryLayout) -> ComposedLayout | None:
    """The swizzle of the fewest bits whose inverse gives strides."""
    shape, values = layout.input_shape, layout.values()
    period = max(values).bit_length()
    for swizzle in _swizzles(period):
        offset = values[0] if not swizzle.is_swizzled else swizzle(values[0])
        if not _is_plausible(shape, values, swizzle):
            continue
        found = recovered(shape, [(swizzle(value) - offset,) for value in values])
        if found is None or not _commutes(swizzle, offset):
            continue
        stride = _numbers(found[2])
        return ComposedLayout(swizzle, values[0], Layout(found[1], stride))
    return None


def _swizzles(period: int) -> Iterator[Swizzle]:
    yield Swizzle(0, 0, 0)
    for bits in range(1, period // 2 + 1):
        for shift in range(bits, period - bits + 1):
            for base in range(period - bits - shift + 1):
                yield Swizzle(bits, base, shift)


def _commutes(swizzle: Swizzle, offset: int) -> bool:
    """Returns whether the offset lies above all bits of the swizzle, or there is no swizzle."""
    top = swizzle.m_base + swizzle.s_shift + swizzle.b_bits
    return not swizzle.is_swizzled or offset % (1 << top) == 0


def _is_plausible(shape: Any, values: Any, swizzle: Swizzle) -> bool:
    """Returns whether coordinates consist of digits, and add up: what few values tell."""
    steps, origin = pitches(shape), swizzle(values[0])
    for number in range(0, len(values), max(len(values) // _SAMPLES, 1) | 1):
        corners = [
            number // step % extent * step for extent, step in zip(shape, steps, strict=True)
        ]
        parts = [swizzle(values[corner]) - origin for corner in corners]
        if swizzle(values[number]) - origin != sum(parts):
            return False
    return all(
        digits([(swizzle(values[index * step]) - origin,) for index in range(extent)]) is not None
        for extent, step in zip(shape, steps, strict=True)
    )


def _numbers(stride: Any) -> Any:
    if isinstance(stride, list):
        return tuple(map(_numbers, stride))
    return stride[0]


__all__ = ["ComposedLayout", "Swizzle"]
