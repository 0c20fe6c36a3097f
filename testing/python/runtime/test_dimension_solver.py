"""Sizes are solved for the one variable that is not known."""

from __future__ import annotations

import random

import pytest

from tilelang.ir import dtype_of
from tilelang.ir.evaluate import evaluate, solve, variables
from tilelang.ir.expr import var

KNOWN = [var(name, dtype_of("int32")) for name in "abc"]
UNKNOWN = var("x", dtype_of("int32"))


def random_size(rng: random.Random, depth: int):
    """A size with the unknown once in it; positive for positive variables."""
    if depth == 0:
        return UNKNOWN
    inner = random_size(rng, depth - 1)
    other = rng.choice([rng.randint(1, 9), rng.choice(KNOWN), rng.choice(KNOWN) + 1])
    operation = rng.choice(["+", "*", "-", "other - x"])
    if operation == "+":
        return inner + other if rng.random() < 0.5 else other + inner
    if operation == "*":
        return inner * other if rng.random() < 0.5 else other * inner
    return inner - other if operation == "-" else other - inner


@pytest.mark.parametrize("seed", range(60))
def test_solving_undoes_evaluating(seed):
    rng = random.Random(seed)
    size = random_size(rng, rng.randint(1, 4))
    values = {each: rng.randint(1, 50) for each in KNOWN}
    answer = rng.randint(1, 1000)
    extent = evaluate(size, {**values, UNKNOWN: answer})
    assert solve(size, UNKNOWN, extent, values) == answer


def test_other_forms_are_not_solved():
    a, x = KNOWN[0], UNKNOWN
    for size in (x * x, x + x, (x + a) // 2, x % 4, (x + 1) * (x + 2)):
        assert solve(size, x, 12, {a: 3}) is None


def test_a_factor_of_zero_leaves_any_value():
    assert solve(KNOWN[0] * UNKNOWN, UNKNOWN, 0, {KNOWN[0]: 0}) == 0


def test_variables_once_each():
    a, b, _ = KNOWN
    found = variables((a * 4 + b) // (a + 1) - UNKNOWN)
    assert [each.name for each in found] == ["a", "b", "x"]
    assert variables(7) == []


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (lambda a, b: (a + 7) // 8, 2),
        (lambda a, b: a % b, 1),
        (lambda a, b: 5 - a, -4),
        (lambda a, b: (a - 20) // 8, -2),
        (lambda a, b: 12, 12),
    ],
)
def test_evaluating_is_that_of_python(size, expected):
    a, b, _ = KNOWN
    assert evaluate(size(a, b), {a: 9, b: 4}) == expected
