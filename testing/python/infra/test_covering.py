"""Which cases of a test stand for all of them."""

from __future__ import annotations

import itertools
import random

import pytest
from covering import FEW, covering, covering_cases


def pairwise(cases):
    return covering_cases(cases, 2)


def pairs(cases):
    return {pair for case in cases for pair in itertools.combinations(case.items(), 2)}


def test_every_pair_that_meets_in_a_case_meets_in_a_chosen_one():
    names, everything = "abcd", list(itertools.product(range(5), range(3), range(4), range(2)))
    for seed in range(5):
        some = random.Random(seed).sample(everything, 60)  # as where some combinations are illegal
        cases = [dict(zip(names, values, strict=True)) for values in some]
        chosen = pairwise([(case, case) for case in cases])
        assert pairs(chosen) == pairs(cases)
        assert len(chosen) < len(cases)
        assert chosen == sorted(chosen, key=cases.index) == pairwise([(c, c) for c in cases])


def test_how_few_there_are():
    cases = [
        dict(zip("abcd", values, strict=True)) for values in itertools.product("xyz", repeat=4)
    ]
    assert 9 <= len(pairwise([(case, case) for case in cases])) <= 15  # of 81; nine at best


def test_cases_with_values_of_their_own_all_stay():
    cases = [{"a": a, "b": [b]} for a, b in itertools.product([1, True, 1.0], range(2))]
    assert pairwise([(case, case) for case in cases]) == cases
    assert pairwise([(1, {"a": 1}), (2, {"a": 1})]) == [1, 2]


def test_strength_one_takes_each_value_once():
    cases = [{"a": a, "b": b} for a, b in itertools.product(range(5), "xyz")]
    chosen = covering_cases([(case, case) for case in cases], 1)
    assert len(chosen) == 5
    assert {case["a"] for case in chosen} == set(range(5))
    assert {case["b"] for case in chosen} == set("xyz")


class Item:
    """A collected case of the test below."""

    def __init__(self, mark, **params) -> None:
        self.nodeid = f"t[{params}]"
        self.callspec = type("CallSpec", (), {"params": params})
        self._mark = mark

    def iter_markers(self, name):
        return [self._mark]


def test_a_row_of_a_table_is_one_value():
    """(2, "y") is a case that somebody chose, although 2 and "y" both occur in others."""
    rows = [(1, "x"), (2, "x"), (3, "y"), (2, "y")]
    mark = pytest.mark.parametrize("m, layout", rows).mark
    items = [Item(mark, m=m, layout=k, dtype=d) for d in ("f16", "f32") for m, k in rows]
    assert len(items) > FEW[1]
    kept = [item.callspec.params for item in covering(items, 1)]
    assert {(p["m"], p["layout"]) for p in kept} == set(rows)
    assert {p["dtype"] for p in kept} == {"f16", "f32"}
    assert len(kept) < len(items)
    assert covering(items[: FEW[1]], 1) == set(items[: FEW[1]])
