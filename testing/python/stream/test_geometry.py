"""Tiles of a stream against counting: every element of small arrays of ranks 1 to 6."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from tilelang.errors import ArgumentError
from tilelang.stream import Geometry


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A shape of rank 1 to 6 of at most some thousand elements, and any tile."""
    rank = draw(st.integers(1, 6))
    limit = (30, 16, 8, 6, 4, 3)[rank - 1]
    extents = st.integers(1, limit)
    shape = draw(st.tuples(*[extents] * rank))
    tile = draw(st.tuples(*[st.integers(1, limit + 1)] * rank))
    return shape, tile


def arrivals(shape: tuple[int, ...], tile: tuple[int, ...]) -> dict[tuple[int, ...], list[int]]:
    """Positions of the elements of each tile, by walking through the array."""
    found: dict[tuple[int, ...], list[int]] = {}
    for position, index in enumerate(np.ndindex(*shape)):
        found.setdefault(tuple(i // n for i, n in zip(index, tile, strict=True)), []).append(
            position
        )
    return found


@given(shapes())
@settings(max_examples=examples(150), deadline=None)
def test_tiles_begin_and_end_where_counting_says(case):
    geometry = Geometry(*case)
    expected = arrivals(*case)
    for index, positions in expected.items():
        assert geometry.first(index) == positions[0]
        assert geometry.last(index) == positions[-1]
    begun = sorted(expected, key=lambda index: expected[index][0])
    ended = sorted(expected, key=lambda index: expected[index][-1])
    assert begun == ended
    tiles = geometry.tiles(0, geometry.epochs)
    assert [tuple(row) for row in tiles] == ended
    sizes = np.prod(geometry.extents(tiles), axis=1)
    assert [len(expected[index]) for index in ended] == sizes.tolist()


@given(shapes())
@settings(max_examples=examples(150), deadline=None)
def test_live_tiles_are_those_that_counting_finds(case):
    geometry = Geometry(*case)
    changes = np.zeros(geometry.total + 1, np.int64)
    for positions in arrivals(*case).values():
        changes[positions[0]] += 1
        changes[positions[-1] + 1] -= 1
    assert np.cumsum(changes).max() == geometry.live


@given(shapes())
@settings(max_examples=examples(150), deadline=None)
def test_epochs_hold_their_tiles_and_no_other(case):
    geometry = Geometry(*case)
    of_tile = {tuple(row): e for e in range(geometry.epochs) for row in geometry.tiles(e, e + 1)}
    for index, positions in arrivals(*case).items():
        assert {geometry.epoch_of(position) for position in positions} == {of_tile[index]}
    starts = [geometry.start(e) for e in range(geometry.epochs + 1)]
    epochs = [geometry.epoch_of(position) for position in range(geometry.total)]
    for e, (begin, end) in enumerate(itertools.pairwise(starts)):
        assert epochs[begin : min(end, geometry.total)].count(e) == epochs.count(e)


def test_an_unbounded_axis_goes_on():
    geometry = Geometry((None, 5, 7), (2, 2, 3))
    assert geometry.total is None and geometry.epochs is None
    assert geometry.live == 9
    assert geometry.start(10**9) == 2 * 10**9 * 35
    assert geometry.epoch_of(geometry.start(10**9) - 1) == 10**9 - 1
    assert geometry.tiles(10**9, 10**9 + 1)[-1].tolist() == [10**9, 2, 2]


def test_one_frame_a_tile_needs_a_row_of_tiles():
    # All 8 * 8 tiles of a frame is what the product over all inner axes would say.
    assert Geometry((None, 512, 512), (1, 64, 64)).live == 8
    assert Geometry((None, 512, 512), (2, 64, 64)).live == 64
    assert Geometry((1, 512, 512), (16, 64, 64)).live == 8


def test_example(golden):
    geometry = Geometry((4, 4, 6), (2, 2, 3))
    lines = [f"strides {geometry.strides}, live {geometry.live}, epochs {geometry.epochs}"]
    for index in geometry.tiles(0, geometry.epochs).tolist():
        lines.append(f"{tuple(index)}: {geometry.first(index)} to {geometry.last(index)}")
    spans = [(geometry.first(tile), geometry.last(tile)) for tile in geometry.tiles(0, 2)]
    peak = [i for i in range(48) if sum(a <= i <= b for a, b in spans) == geometry.live]
    lines.append(f"in the first epoch {geometry.live} live from {peak[0]} to {peak[-1]}")
    ragged = Geometry((4, 3, 5), (2, 2, 3))
    lines.append("where the tile divides no inner axis, last - first differs:")
    for index in ragged.tiles(0, 1).tolist():
        lines.append(f"{tuple(index)}: {ragged.last(index) - ragged.first(index)}")
    golden("example", "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("shape", "tile", "message"),
    [
        ((4, 4), (2,), "has rank 1"),
        ((), (), "has rank 0"),
        ((4, None), (2, 2), r"shape\[1\] is None"),
        ((4, 0), (2, 2), r"shape\[1\] is 0"),
        ((4, 4), (2, -1), r"tile\[1\] is -1"),
        ((4, 4), (None, 1), r"tile\[0\] is None"),
        ((4, 2.5), (2, 1), r"shape\[1\] is 2.5"),
    ],
)
def test_what_is_no_geometry(shape, tile, message):
    with pytest.raises(ArgumentError, match=message):
        Geometry(shape, tile)
