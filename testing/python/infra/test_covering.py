"""Which cases of a test stand for all of them."""

from __future__ import annotations

import itertools
import random

from covering import pairwise


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
