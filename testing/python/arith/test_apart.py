"""Turns of a loop that are said to be apart are: brute force over random index expressions."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from arith.exprs import binary, imm, var

from tilelang import _ffi

_APART = _ffi.get("arith.AreApart")
_CAST = _ffi.get("ir.Cast")
TYPES = [f"{sign}{bits}" for bits in range(4, 9) for sign in ("int", "uint")]


def wrapped(values: np.ndarray, dtype: str) -> np.ndarray:
    """The values as a type of 4 to 8 bits holds them."""
    bits = int(dtype.lstrip("uint"))
    values = values & ((1 << bits) - 1)
    return values if dtype[0] == "u" else values - ((values >> (bits - 1)) << bits)


class Index:
    """A random expression of ``i``, as IR and its values in all turns.

    ``other`` is a second variable, which has one value in all of them.
    """

    def __init__(self, rng: random.Random, turns: int) -> None:
        self.rng = rng
        self.loop = rng.choice(["int16", "int8"])
        first = rng.randrange(-3, 4)
        self.min, self.extent = first, turns
        self.i, self.turns = var("i", self.loop), np.arange(first, first + turns)
        self.dtype = rng.choice(TYPES)
        self.other = var("x", self.dtype)
        self.x = int(wrapped(np.array([rng.randrange(256)]), self.dtype)[0])
        self.ir, self.values = self.expression(rng.randrange(1, 5), self.dtype)

    def leaf(self, dtype: str):
        kind = self.rng.random()
        if kind < 0.6:
            return _CAST(dtype, self.i, None), wrapped(self.turns, dtype)
        if kind < 0.7 and dtype == self.dtype:
            return self.other, np.full_like(self.turns, self.x)
        value = int(wrapped(np.array([self.rng.choice([1, 2, 3, 5, 4, 8, 6, 250])]), dtype)[0])
        return imm(value, dtype), np.full_like(self.turns, value)

    def expression(self, depth: int, dtype: str):
        if depth == 0:
            return self.leaf(dtype)
        if self.rng.random() < 0.1:
            inner, values = self.expression(depth - 1, self.rng.choice(TYPES))
            return _CAST(dtype, inner, None), wrapped(values, dtype)
        op = self.rng.choice(["+", "+", "+", "-", "*", "*", "//", "%", "min", "max", "^", "<<"])
        (a, x), (b, y) = (self.expression(depth - 1, dtype) for _ in range(2))
        if op in ("//", "%", "<<"):  # by constants
            count = self.rng.choice([1, 2, 3])
            b, y = imm(count, dtype), np.full_like(x, count)
        functions = {
            "+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.mod,
            "min": np.minimum, "max": np.maximum, "^": np.bitwise_xor, "<<": np.left_shift,
        }  # fmt: skip
        return binary(op, a, b), wrapped(functions[op](x, y), dtype)

    def nearest(self) -> int:
        """The least difference between two turns."""
        return int(np.diff(np.sort(self.values)).min())

    def is_apart(self, distance: int) -> bool:
        return _APART(self.ir, self.i, self.min, self.extent, distance)


def test_what_meets_is_not_said_to_be_apart():
    """``APART_FUZZ``: how many expressions that are not injective, 10^6 by hand."""
    rng, meeting, accepted = random.Random(0), 0, 0
    while meeting < int(os.environ.get("APART_FUZZ", "1500")):
        index = Index(rng, rng.choice([2, 3, 5, 8, 17, 60]))
        nearest = index.nearest()
        if nearest == 0:
            meeting += 1
            assert not index.is_apart(1), (index.ir, index.values)
        elif index.is_apart(1):
            accepted += 1
            far = rng.randrange(2, 40)
            assert not index.is_apart(far) or nearest >= far, (index.ir, index.values, far)
    assert accepted > meeting // 20


def rows(form, dtype: str = "int32", extent: int = 8, height: int = 64) -> bool:
    i = var("i", dtype)

    def of(op, a, b):
        return binary(op, a, imm(b, dtype) if isinstance(b, int) else b)

    return _APART(of("*", form(of, i), height), i, 0, extent, height)


@pytest.mark.parametrize("extent", [8, 1 << 20])
@pytest.mark.parametrize(
    "form, apart",
    [
        (lambda of, i: i, True),
        (lambda of, i: of("*", i, 2), True),
        (lambda of, i: of("+", of("*", i, 3), 1), True),
        (lambda of, i: of("-", imm(7), i), True),
        (lambda of, i: of("+", i, var("n")), True),
        (lambda of, i: of("+", i, of("*", var("n"), var("m"))), True),
        (lambda of, i: of("//", i, 2), False),
        (lambda of, i: of("%", i, 4), False),
        (lambda of, i: of("min", i, 3), False),
        (lambda of, i: of("*", i, 0), False),
        (lambda of, i: of("*", i, var("n")), False),  # which may be 0
    ],
)
def test_forms(form, apart, extent):
    assert rows(form, extent=extent) == apart


def test_few_turns_are_tried():
    def digits(of, i):
        return of("+", of("*", of("%", i, 4), 2), of("//", i, 4))

    assert rows(digits, extent=8)
    assert not rows(digits, extent=9)
    assert not rows(lambda of, i: of("//", of("+", i, var("n")), 3), extent=8)


def test_products_wrap():
    assert rows(lambda of, i: of("*", i, 3), "int8", extent=86, height=1)  # 3 is odd
    assert not rows(lambda of, i: of("*", i, 2), "uint8", extent=129, height=1)
    assert rows(lambda of, i: of("*", i, 2), "uint8", extent=128, height=1)
    assert not rows(lambda of, i: i, "int8", extent=5, height=64)  # 4 * 64 is 0
