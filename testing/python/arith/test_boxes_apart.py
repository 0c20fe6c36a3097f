"""Boxes of turns that are said to be apart are, and others are not: against sets of elements."""

from __future__ import annotations

import itertools
import random

import pytest
from arith.exprs import binary, imm, var

from tilelang import _ffi

_APART = _ffi.get("arith.AreBoxesApart")


def meet(corners: list[tuple[int, ...]], extents: list[int]) -> bool:
    """Whether two of the boxes have an element in common."""
    seen: set[tuple[int, ...]] = set()
    for corner in corners:
        ranges = [range(at, at + n) for at, n in zip(corner, extents, strict=True)]
        for element in itertools.product(*ranges):
            if element in seen:
                return True
        seen.update(itertools.product(*ranges))
    return False


class Tiles:
    """Tile ``block + turn * wave`` of ``rows`` x ``columns``, in groups of rows."""

    def __init__(self, rng: random.Random) -> None:
        self.rows, self.columns = rng.randrange(1, 7), rng.randrange(1, 6)
        self.wave, self.group = rng.randrange(1, 6), rng.randrange(1, 4)
        self.height, self.width = rng.choice([(4, 4), (4, 3), (3, 5)])
        self.extents = [rng.choice([3, 4]), rng.choice([3, 4])]
        self.turns = -(-self.rows * self.columns // self.wave)
        self.guarded = rng.random() < 0.7
        self.shrunk = rng.random() < 0.2  # a column less than there are: some tiles come twice

    def corner(self, tile, of):
        """By ``of(op, a, b)`` of expressions or of numbers."""
        columns = max(self.columns - self.shrunk, 1)
        group = of("//", tile, columns * self.group)
        first = of("*", group, self.group)
        rows = of("min", of("-", self.rows, first), self.group)
        rest = of("%", tile, columns * self.group)
        row = of("+", first, of("%", rest, rows))
        return [of("*", row, self.height), of("*", of("//", rest, rows), self.width)]

    def truth(self) -> bool:
        numbers = {
            "//": lambda a, b: a // b, "%": lambda a, b: a % b, "min": min,
            "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
        }  # fmt: skip
        for block in range(self.wave):
            tiles = [block + turn * self.wave for turn in range(self.turns)]
            if self.guarded:
                tiles = [tile for tile in tiles if tile < self.rows * self.columns]
            corners = [tuple(self.corner(t, lambda op, a, b: numbers[op](a, b))) for t in tiles]
            if meet(corners, self.extents):
                return False
        return True

    def told(self) -> bool:
        def of(op, a, b):
            return binary(op, *(imm(e) if isinstance(e, int) else e for e in (a, b)))

        turn, block = var("turn"), var("block")
        tile = of("+", block, of("*", turn, self.wave))
        conditions = [of("<", tile, self.rows * self.columns)] if self.guarded else []
        corner = self.corner(tile, of)
        return _APART(corner, self.extents, turn, self.turns, block, self.wave, conditions)


def test_tiles_of_persistent_blocks():
    rng, found = random.Random(1), {True: 0, False: 0, None: 0}
    for _ in range(400):
        tiles = Tiles(rng)
        try:
            expected = tiles.truth()
        except ZeroDivisionError:
            tiles.told()  # whatever that is, it returns
            found[None] += 1
            continue
        assert tiles.told() == expected, vars(tiles)
        found[expected] += 1
    assert min(found.values()) > 5, found


@pytest.mark.parametrize("of_more", [True, False])
def test_a_dimension_that_depends_on_more_tells_nothing(of_more):
    turn, block, n = var("turn"), var("block"), var("n")
    row = binary("*", binary("//", turn, imm(2)), imm(8))
    column = binary("*", binary("%", turn, imm(2)), n if of_more else imm(8))
    assert _APART([row, column], [8, 8], turn, 6, block, 1, []) != of_more


def test_too_many_turns_are_not_tried():
    turn, block = var("turn"), var("block")
    corner = [binary("//", turn, imm(2)), binary("%", turn, imm(2))]
    assert _APART(corner, [1, 1], turn, 1000, block, 1, [])
    assert not _APART(corner, [1, 1], turn, 100000, block, 1, [])
