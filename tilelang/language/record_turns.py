"""Turns over the results of a reduction to more records than shared memory should hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

from ..ir.buffer import Buffer, Region, make_region
from .region import significant

#: Bytes of shared memory that the records of a turn take at most.
BYTES_OF_TURN = 32 << 10
#: Neighbours that one turn has at least along a dimension that it divides: a row of a block.
_STEP = 512


class Span(NamedTuple):
    """The results that a turn has along one dimension.

    Attributes:
        begin: the first result of the first turn.
        turns: how many turns there are.
        size: the results of a turn.
        held: the elements of the tile that holds them; constant.
    """

    begin: Any
    turns: Any
    size: Any
    held: int


def _size_of_turn(extent: Any, room: int) -> int:
    """Returns how many of ``extent`` results one turn takes, at most ``room``."""
    most = 1 << (room.bit_length() - 1)
    if not isinstance(extent, int):
        return most
    if extent <= room:
        return max(1, extent)
    turns = -(-extent // most)
    equal = -(-extent // turns)
    return min(most, -(-equal // _STEP) * _STEP)


def _spans(extent: Any, size: int) -> list[Span]:
    """The whole turns along a dimension, and the rest."""
    if isinstance(extent, int):
        whole, rest = divmod(extent, size)
        spans = [Span(0, whole, size, size)] if whole else []
        return [*spans, Span(whole * size, 1, rest, rest)] if rest else spans
    whole = extent // size
    return [Span(0, whole, size, size), Span(whole * size, 1, extent - whole * size, size)]


def turns_over(shape: Sequence[Any], record_bytes: int) -> Iterator[tuple[Span, ...]]:
    """Yields the parts of results of a shape: a product of spans each, which one loop goes through.

    Args:
        shape: of the results; an extent may be known only at run time.
        record_bytes: of a record.
    """
    room = max(1, BYTES_OF_TURN // record_bytes)
    spans: list[list[Span]] = []
    for extent in reversed(shape):
        size = _size_of_turn(extent, room)
        spans.insert(0, _spans(extent, size))
        room = max(1, room // size)
    yield from product(*spans)


def is_large(shape: Sequence[Any], record_bytes: int) -> bool:
    """Returns whether results of a shape take several turns."""
    constant = all(isinstance(extent, int) for extent in shape)
    return not constant or prod(shape) * record_bytes > BYTES_OF_TURN


def begins(spans: Sequence[Span], turn: Any) -> list[Any]:
    """The first result of a turn along each dimension."""
    found: list[Any] = []
    for span in reversed(spans):
        if isinstance(span.turns, int) and span.turns == 1:
            found.insert(0, span.begin)
        else:
            found.insert(0, span.begin + turn % span.turns * span.size)
            turn = turn // span.turns
    return found


def part_of(region: Region, dims: Sequence[int], first: Sequence[Any], size: Any) -> Region:
    """The part of a region from ``first`` on, of ``size`` elements, along some dimensions."""
    mins, extents = list(region.mins), list(region.extents)
    for dim, begin, extent in zip(dims, first, size, strict=True):
        mins[dim] = mins[dim] + begin
        extents[dim] = extent
    return make_region(region.buffer, mins, extents)


class Target(NamedTuple):
    """Where results go.

    Attributes:
        buffer: the tile or tensor.
        mins: the place of the first result.
        dims: the dimensions along which there are others.
    """

    buffer: Buffer
    mins: tuple[Any, ...]
    dims: tuple[int, ...]

    def place(self, here: Sequence[Any]) -> tuple[Any, ...]:
        """The indices of the result ``here``."""
        at = list(self.mins)
        for dim, index in zip(self.dims, here, strict=False):
            at[dim] = at[dim] + index
        return tuple(at)

    def moved(self, first: Sequence[Any]) -> Target:
        """The target of the results from ``first`` on."""
        return self._replace(mins=self.place(first))


def target_of(region: Region) -> Target:
    """The target of results that go to a region."""
    dims = [d for d, extent in enumerate(region.shape) if significant([extent])]
    return Target(region.buffer, tuple(region.mins), tuple(dims))
