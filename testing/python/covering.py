"""Which cases of a test with many parameters stand for all: those in which every pair meets.

A test of five parameters has a case for each combination of their values. Nearly all faults show
with one value or with two together, so some cases in which any two values of any two parameters
meet find nearly as much in a fraction of the time (pairwise testing). ``pytest --every-case`` runs
the rest, too.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pytest import Item

Case = TypeVar("Case")
#: Tests of fewer cases run all of them.
FEW = 8


def pairwise(cases: Sequence[tuple[Case, Mapping[str, Any]]]) -> list[Case]:
    """Returns cases such that any two values that meet in a case meet in one of these.

    Args:
        cases: each with its values by parameter; all of one test, in an order that does not vary.

    Returns:
        Those that bring the most new pairs, one after another, in the order of ``cases``. A test of
        one or two parameters keeps all its cases, as each has a value or a pair of its own.
    """
    pairs = [frozenset(itertools.combinations(_named(values), 2)) for _, values in cases]
    missing = set().union(*pairs)
    chosen = {index for index, of_case in enumerate(pairs) if not of_case}
    while missing:
        best = max(range(len(cases)), key=lambda index: len(pairs[index] & missing))
        chosen.add(best)
        missing -= pairs[best]
    return [cases[index][0] for index in sorted(chosen)]


def covering(items: Iterable[Item]) -> set[Item]:
    """Returns the items that stand for all: of each test with many cases, those of `pairwise`."""
    tests: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    kept: set[Item] = set()
    for cases in tests.values():
        many = len(cases) > FEW and all(hasattr(item, "callspec") for item in cases)
        kept.update(pairwise([(item, item.callspec.params) for item in cases]) if many else cases)
    return kept


def _named(values: Mapping[str, Any]) -> list[tuple[str, Hashable]]:
    return [(name, hashable(value)) for name, value in values.items()]


def hashable(value: Any) -> Hashable:
    """Returns what stands for a parameter's value as a key: equal values of one type are one."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return type(value), value
