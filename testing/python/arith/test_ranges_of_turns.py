"""Ranges of two turns of a loop that are said not to meet do not: brute force over rings."""

from __future__ import annotations

import random

import pytest
from arith.exprs import binary, imm, var

from tilelang import _ffi

_MAY_MEET = _ffi.get("arith.MayMeet")
MOST = 4
UNKNOWN = 2**31 - 1


class Place:
    """A random first element: IR, and a function of the turn."""

    def __init__(self, rng: random.Random, i) -> None:
        slots, size = rng.choice([1, 2, 3, 4, 5, 8]), rng.choice([1, 4, 6, 16])
        shift, factor = rng.randrange(4), rng.choice([1, 1, 1, 2, 3])
        kind = rng.choice(["ring", "ring", "ring", "mask", "line", "fixed", "quotient"])
        moved = binary("+", binary("*", i, imm(factor, "int32")), imm(shift, "int32"))
        if kind == "mask":
            slots = 4
            slot, self.slot = (
                binary("&", moved, imm(3, "int32")),
                lambda t: (t * factor + shift) & 3,
            )
        elif kind == "line":
            slot, self.slot = moved, lambda t: t * factor + shift
        elif kind == "fixed":
            slot, self.slot = imm(shift, "int32"), lambda t: shift
        elif kind == "quotient":
            half = binary("//", moved, imm(2, "int32"))
            slot = binary("%", half, imm(slots, "int32"))
            self.slot = lambda t: (t * factor + shift) // 2 % slots
        else:
            slot = binary("%", moved, imm(slots, "int32"))
            self.slot = lambda t: (t * factor + shift) % slots
        self.ir, self.size = binary("*", slot, imm(size, "int32")), size

    def at(self, turn: int) -> int:
        return self.slot(turn) * self.size


@pytest.mark.parametrize("seed", range(8))
def test_ranges_that_are_apart_never_meet(seed):
    rng = random.Random(seed)
    denied = 0
    for _ in range(300):
        i = var("i", "int32")
        earlier, later = Place(rng, i), Place(rng, i)
        if rng.random() < 0.5:
            later = earlier
        elements = rng.choice([1, 4, 16])
        extent = rng.choice([1, 3, 7, 40, UNKNOWN])
        distance = rng.randrange(MOST + 1)
        if _MAY_MEET(earlier.ir, later.ir, i, elements, extent, distance, MOST):
            continue
        denied += 1
        turns = range(min(extent, 60))
        for now in turns:
            for before in turns:
                apart = now - before
                if apart == distance or (distance == MOST and apart > distance):
                    gap = earlier.at(before) - later.at(now)
                    assert abs(gap) >= elements, (str(earlier.ir), str(later.ir), extent, apart)
    assert denied > 20


@pytest.mark.parametrize("extent", [6, UNKNOWN])
def test_slots_of_a_ring_meet_after_as_many_turns(extent):
    i = var("i", "int32")
    place = binary("*", binary("%", i, imm(3, "int32")), imm(16, "int32"))
    meets = [_MAY_MEET(place, place, i, 16, extent, d, 8) for d in range(6)]
    assert meets == [True, False, False, True, False, False]


def test_what_is_not_known_may_meet():
    i, x = var("i", "int32"), var("x", "int32")
    slot = binary("%", i, imm(2, "int32"))
    moved = binary("+", slot, x)
    assert _MAY_MEET(moved, moved, i, 1, 8, 1, 8)
    narrow = var("k", "uint8")
    ring = binary("%", narrow, imm(3, "uint8"))  # 256 is no multiple of 3
    assert _MAY_MEET(ring, ring, narrow, 1, UNKNOWN, 1, 8)
