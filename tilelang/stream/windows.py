"""A level of a pyramid: the windows of a stream's array.

Axis ``d`` of the coarse array has ``ceil(s[d] / f[d])`` elements; each is made of a window of
``f[d]`` elements along every axis, clipped to the array. The first element of a window is the first
one of it to arrive, and windows in row-major order have their first elements in the order of
arrival: those that have begun by a position of the stream are always the first ones of the coarse
array, which is why it is a stream itself.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ArgumentError
from ..math import cdiv
from .geometry import Geometry

if TYPE_CHECKING:
    from .plan import Plan
    from .pools import Part

#: Elements of a window: so many of 16 bits have a sum of 32 bits, doubled for rounding.
_LARGEST_WINDOW = 1 << 14


@dataclass(frozen=True)
class Span:
    """The windows of a batch, counted from a row of windows in which it begins.

    Attributes:
        origin: the element of the pools where the row's first tile lies, or would lie.
        first, count: windows.
        end: the position at which the stream ends so far, from the row's first element on.
    """

    origin: int
    first: int
    count: int
    end: int


@dataclass(frozen=True)
class Windows:
    """The windows of a stream.

    Attributes:
        geometry: of the stream.
        factors: extents of a window.
    """

    geometry: Geometry
    factors: tuple[int, ...]

    @classmethod
    def of(cls, geometry: Geometry, factors: int | Sequence[int]) -> Windows:
        """Checks the factors of a pyramid; one number is that of all axes but the first.

        Raises:
            ArgumentError: they are no positive integers, or windows are too large.
        """
        if not isinstance(factors, Sequence):
            factors = (1, *[factors] * (geometry.rank - 1))
        try:
            found = tuple(operator.index(factor) for factor in factors)
        except TypeError:
            found = ()
        if len(found) != geometry.rank or min(found) < 1:
            raise ArgumentError(
                f"factors={factors!r} are no {geometry.rank} positive integers, one for each axis"
            )
        if math.prod(found) > _LARGEST_WINDOW:
            raise ArgumentError(
                f"factors={factors!r} make windows of {math.prod(found)} elements, more than "
                f"{_LARGEST_WINDOW}",
                notes=["make a pyramid of the pyramid"],
            )
        return cls(geometry, found)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Extents of the coarse array."""
        pairs = zip(self.geometry.shape, self.factors, strict=True)
        return tuple(None if s is None else cdiv(s, f) for s, f in pairs)

    @property
    def size(self) -> int:
        """Elements of a window."""
        return math.prod(self.factors)

    @functools.cached_property
    def epochs(self) -> int:
        """Epochs after which no window is begun and not ended; of an array without end."""
        geometry, lead = self.geometry, self.geometry.lead
        count, tile = geometry.counts[lead], geometry.tile[lead]
        extent, factor = geometry.shape[lead], self.factors[lead]
        split = extent is None or tile < extent
        unit = factor // math.gcd(factor, tile) if split else 1
        for axis in range(lead, 0, -1):
            # ``count``: epochs of all indices of this axis, for one index of the axis before it.
            assert count is not None
            if count % unit:
                unit = count
            slower = geometry.shape[axis - 1]
            if self.factors[axis - 1] > 1 and slower != 1:
                unit = self.factors[axis - 1] * count
            count = None if slower is None else count * slower
        return unit

    @property
    def rows(self) -> int:
        """Indices of the first axis after which both windows and tiles begin anew."""
        return math.lcm(self.factors[0], self.geometry.tile[0])

    def most(self, batch: int) -> int:
        """Returns how many windows ``batch`` epochs have at most."""
        lead, factor = self.geometry.lead, self.factors[self.geometry.lead]
        extent, tile = self.geometry.shape[lead], self.geometry.tile[lead]
        rows = tile if extent is None else min(tile, extent)
        inner = [extent or 1 for extent in self.shape[lead + 1 :]]
        if tile % factor == 0 or tile == rows == extent:
            return batch * cdiv(rows, factor) * math.prod(inner)
        # Each period of the axis may end with a short window.
        return (cdiv(batch * rows, factor) + batch) * math.prod(inner)

    def span(self, plan: Plan, part: Part) -> Span:
        """Returns the windows of a batch."""
        geometry = self.geometry
        stride = geometry.strides[0]
        row = part.begin // stride // self.rows * self.rows
        skipped = part.epoch - geometry.epoch_of(row * stride)
        begun = self.begun(row * stride)
        first, last = self.begun(part.begin), self.begun(part.end)
        slot = part.pool * plan.pool_slots - skipped * geometry.live
        return Span(
            slot * geometry.tile_elements, first - begun, last - first, part.end - row * stride
        )

    def begun(self, position: int) -> int:
        """Returns how many windows have elements before a position of the stream."""
        if position <= 0:
            return 0
        rest, whole, window = position - 1, False, 0
        for axis, stride in enumerate(self.geometry.strides):
            index, rest = divmod(rest, stride)
            extent, factor = self.shape[axis], self.factors[axis]
            # Behind an index that is within a window, all later ones of the faster axes have begun.
            coarse = (extent or 1) - 1 if whole else index // factor
            whole = whole or index % factor > 0
            window = window * (extent or 1) + coarse if axis else coarse
        return window + 1
