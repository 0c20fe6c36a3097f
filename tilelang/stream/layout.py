"""The map from positions in a stream to places in a pool of tiles, as numbers of a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import ArgumentError
from ..math import cdiv
from .geometry import Geometry

VECTOR_BYTES = 16


class Axis(NamedTuple):
    """An axis of a stream: its extent, that of a tile, and the distance of neighbours in a tile."""

    extent: int
    tile: int
    weight: int


@dataclass(frozen=True)
class Layout:
    """The key of the kernels of a stream: the axes from ``lead`` on, in order of arrival.

    An element is found from its position relative to the base of a batch. Its row is the index
    along ``lead`` with all slower axes; rows of a ``period`` begin a new epoch each, where tiles do
    not divide ``lead`` and there are slower axes.

    Attributes:
        axes: with axes merged that tiles cover whole; counted in vectors of ``lanes`` elements.
        live: tiles of an epoch.
        tile: vectors of a tile.
        period: rows after which epochs begin anew; 0: never.
        lanes: elements of a vector.
    """

    axes: tuple[Axis, ...]
    live: int
    tile: int
    period: int
    lanes: int

    @classmethod
    def of(cls, geometry: Geometry, order: Sequence[int], itemsize: int, most: int) -> Layout:
        """Returns the layout of a stream for elements of ``itemsize`` bytes.

        Args:
            geometry: of the stream.
            order: the axis of the stream that is axis 0 of a stored tile, axis 1 and so on.
            itemsize: of an element.
            most: the most bytes of a vector; it divides positions, counts and addresses.
        """
        weights = dict(zip(order, stored_weights(geometry, order), strict=True))
        lead, rank = geometry.lead, geometry.rank
        periodic = geometry.uneven and lead > 0
        # Where epochs follow one another without a period, no number depends on where they end.
        extents = [geometry.shape[lead] if periodic else 0, *geometry.inner[lead:]]
        axes = [
            Axis(extents[d - lead] or 0, geometry.tile[d], weights[d]) for d in range(lead, rank)
        ]
        axes = _merged(axes)
        lanes = _lanes(axes, itemsize, most)
        inner = axes[-1]
        axes = [axis._replace(weight=axis.weight // lanes) for axis in axes[:-1]]
        axes.append(Axis(inner.extent // lanes, inner.tile // lanes, inner.weight))
        return cls(
            axes=tuple(axes),
            live=geometry.live,
            tile=geometry.tile_elements // lanes,
            period=axes[0].extent if periodic else 0,
            lanes=lanes,
        )

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles along the axes but the first."""
        return tuple(cdiv(axis.extent, axis.tile) for axis in self.axes[1:])

    @property
    def epochs_of_period(self) -> int:
        """Epochs of a period."""
        return cdiv(self.period, self.axes[0].tile)


def stored_weights(geometry: Geometry, order: Sequence[int]) -> tuple[int, ...]:
    """Returns, for each axis of a stored tile, the distance of neighbours along it."""
    extents = [geometry.tile[axis] for axis in order]
    return tuple(math.prod(extents[d + 1 :]) for d in range(len(extents)))


def stored_order(order: str | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Returns the axes of a stream in the order in which tiles hold them.

    Args:
        order: None; a permutation; names of the axes as ``"tcyx"``, or as they arrive and as they
            are stored: ``"tcyx->ctyx"``.
        rank: of the stream.

    Raises:
        ArgumentError: it names other axes than there are.
    """
    if order is None:
        return tuple(range(rank))
    if isinstance(order, str):
        arriving, _, stored = order.replace(" ", "").partition("->")
        if len(set(arriving)) != len(arriving) or len(arriving) != rank:
            raise ArgumentError(
                f"order={order!r} does not name {rank} axes by a letter each",
                notes=["as in order='tzyx', or 'tzyx->ztyx' where tiles are stored otherwise"],
            )
        order = [arriving.find(letter) for letter in stored or arriving]
    axes = tuple(order)
    if sorted(axes) != list(range(rank)):
        raise ArgumentError(f"order={order!r} is no permutation of the {rank} axes")
    return axes


def _merged(axes: Sequence[Axis]) -> list[Axis]:
    """Takes two axes for one where tiles cover the faster one whole and hold both in that order."""
    result = [axes[0]]
    for axis in axes[1:]:
        slower = result[-1]
        if axis.tile == axis.extent and slower.weight == axis.weight * axis.tile:
            slower = Axis(slower.extent * axis.extent, slower.tile * axis.tile, axis.weight)
            result[-1] = slower
        else:
            result.append(axis)
    return result


def _lanes(axes: Sequence[Axis], itemsize: int, most: int) -> int:
    """Returns the elements that lie side by side in the stream and in every tile."""
    inner = axes[-1]
    if inner.weight != 1:
        return 1
    return max(1, math.gcd(most // itemsize, inner.extent, inner.tile))
