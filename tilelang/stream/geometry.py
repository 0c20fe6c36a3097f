"""Geometry of a stream: the tile of each element, and the number of live tiles.

An array of extents ``s`` arrives in row-major order, axis 0 slowest; axis ``d`` has the stride
``S[d] = s[d + 1] * s[d + 2] * ...``. Tile ``T`` covers ``i[d] = T[d] * n[d] + ...``, clipped to the
array, so its elements arrive within

    first(T) = sum of T[d] * n[d] * S[d]
    last(T)  = sum of (min((T[d] + 1) * n[d], s[d]) - 1) * S[d]

Both grow with ``T`` in lexicographic order: tiles end in the order in which they begin. Their
difference is the same for all tiles only if ``n`` divides ``s``.

Let ``lead`` be the first axis along which a tile has more than one element,
``min(n[d], s[d]) > 1``. The tiles that share the coordinates up to ``lead`` are an **epoch**. All
of them begin within the first row of the epoch along ``lead`` and none ends before its second one,
so they live at once; the next epoch begins after the last of them. The most tiles that ever live:

    live = product of ceil(s[d] / n[d]) over d > lead

and not over ``d > 0``: with one frame a tile (``n[0] = 1``), for instance, a row of tiles lives
instead of all tiles of a frame.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..math import cdiv

MAX_RANK = 16


@dataclass(frozen=True)
class Geometry:
    """The division of a stream into tiles.

    Attributes:
        shape: extents in the order of arrival, slowest first; the first one may be None: unbounded.
        tile: extents of a tile, of the same rank.
    """

    shape: tuple[int | None, ...]
    tile: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.shape) <= MAX_RANK:
            raise ArgumentError(f"shape={self.shape} has rank {len(self.shape)}, not 1 to 16")
        if len(self.tile) != len(self.shape):
            raise ArgumentError(
                f"tile={self.tile} has rank {len(self.tile)}, shape={self.shape} has rank "
                f"{len(self.shape)}",
                notes=["a tile has an extent for each axis; 1 where it shall not reach"],
            )
        object.__setattr__(self, "shape", _extents("shape", self.shape, unbounded=True))
        object.__setattr__(self, "tile", _extents("tile", self.tile, unbounded=False))

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @cached_property
    def inner(self) -> tuple[int, ...]:
        """Extents of all axes but the first."""
        return tuple(extent for extent in self.shape[1:] if extent is not None)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index of an axis to the next, in the order of arrival."""
        return tuple(math.prod(self.inner[d:]) for d in range(self.rank))

    @cached_property
    def counts(self) -> tuple[int | None, ...]:
        """Tiles along each axis; None along an unbounded one."""
        pairs = zip(self.shape, self.tile, strict=True)
        return tuple(None if s is None else cdiv(s, n) for s, n in pairs)

    @cached_property
    def total(self) -> int | None:
        """Elements of the whole array; None if it is unbounded."""
        return None if self.shape[0] is None else self.shape[0] * self.strides[0]

    @cached_property
    def tile_elements(self) -> int:
        """Elements of a tile, those of its padding included."""
        return math.prod(self.tile)

    @cached_property
    def lead(self) -> int:
        """The first axis along which a tile has more than one element; the last if none has."""
        for axis, (extent, tile) in enumerate(zip(self.shape, self.tile, strict=True)):
            if tile > 1 and (extent is None or extent > 1):
                return axis
        return self.rank - 1

    @cached_property
    def live(self) -> int:
        """Tiles of an epoch: the most that are begun and not ended at any time."""
        return math.prod(count for count in self.counts[self.lead + 1 :] if count is not None)

    @cached_property
    def epochs(self) -> int | None:
        """Epochs of the whole array; None if it is unbounded."""
        return None if self.total is None else self.epoch_of(self.total - 1) + 1

    def first(self, tile: Sequence[int]) -> int:
        """Returns the position in the stream of a tile's first element."""
        return sum(t * n * s for t, n, s in zip(tile, self.tile, self.strides, strict=True))

    def last(self, tile: Sequence[int]) -> int:
        """Returns the position in the stream of a tile's last element."""
        ends = [
            (t + 1) * n if extent is None else min((t + 1) * n, extent)
            for t, n, extent in zip(tile, self.tile, self.shape, strict=True)
        ]
        return sum((end - 1) * stride for end, stride in zip(ends, self.strides, strict=True))

    def epoch_of(self, position: int) -> int:
        """Returns the epoch that the element at ``position`` belongs to."""
        row = position // self.strides[self.lead]
        extent, tile = self.shape[self.lead], self.tile[self.lead]
        if extent is None:
            return row // tile
        return row // extent * cdiv(extent, tile) + row % extent // tile

    def start(self, epoch: int) -> int:
        """Returns the position in the stream at which an epoch begins; one before it has ended."""
        extent, tile = self.shape[self.lead], self.tile[self.lead]
        stride = self.strides[self.lead]
        if extent is None:
            return epoch * tile * stride
        period, part = divmod(epoch, cdiv(extent, tile))
        return (period * extent + part * tile) * stride

    @cached_property
    def uneven(self) -> bool:
        """Whether some epochs have fewer rows than others: the tile does not divide ``lead``."""
        extent = self.shape[self.lead]
        return extent is not None and extent % self.tile[self.lead] != 0

    def tiles(self, begin: int, end: int) -> np.ndarray:
        """Returns the coordinates of the tiles of epochs ``begin`` to ``end``, exclusive.

        Returns:
            int64, ``((end - begin) * live, rank)``, in the order in which the tiles end.
        """
        ranks = np.arange(begin * self.live, end * self.live, dtype=np.int64)
        columns = []
        for extent, tile in zip(reversed(self.inner), reversed(self.tile), strict=False):
            ranks, column = np.divmod(ranks, cdiv(extent, tile))
            columns.append(column)
        return np.stack([ranks, *reversed(columns)], axis=1)

    def extents(self, tiles: np.ndarray) -> np.ndarray:
        """Returns how much of each tile lies in the array.

        Args:
            tiles: coordinates, ``(count, rank)``.

        Returns:
            int64, of the same shape; less than the tile at the array's edges.
        """
        n = np.array(self.tile, dtype=np.int64)
        s = np.array([2**62 if e is None else e for e in self.shape], dtype=np.int64)
        return np.minimum(n, s - tiles * n)


def _extents(name: str, values: Sequence[Any], unbounded: bool) -> tuple[int | None, ...]:
    result: list[int | None] = []
    for axis, value in enumerate(values):
        if value is None and unbounded and axis == 0:
            result.append(None)
            continue
        try:
            extent = operator.index(value)
        except TypeError:
            extent = 0
        if extent < 1:
            hint = " or None" if unbounded and axis == 0 else ""
            raise ArgumentError(
                f"{name}[{axis}] is {value!r}, not a positive integer{hint}",
                notes=["only the first axis, the slowest, can be unbounded"] if unbounded else [],
            )
        result.append(extent)
    return tuple(result)
