"""Chooses the cases that stand for all of a test with many parameters.

A test of five parameters has a case for each combination of their values. Nearly all faults show
with one value or with two together, so some cases in which any two values of any two parameters
meet find nearly as much in a fraction of the time (pairwise testing). Cases in which every value
occurs once find what one value breaks in a fraction of that. ``pytest --every-case`` runs the rest,
too.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pytest import Item

Case = TypeVar("Case")
#: By strength: tests of so many cases or fewer run all of them.
FEW = {1: 4, 2: 8}


def covering_cases(cases: Sequence[tuple[Case, Mapping[str, Any]]], strength: int) -> list[Case]:
    """Returns cases such that any ``strength`` values that meet in a case meet in one of these.

    Args:
        cases: each with its values by parameter; all of one test, in an order that does not vary.
        strength: 1 for every value of every parameter, 2 for every pair of values.

    Returns:
        Those that bring the most new combinations, one after another, in the order of ``cases``. A
        test of no more parameters than ``strength`` keeps all its cases.
    """
    combinations = [
        frozenset(itertools.combinations(_named(values), strength)) for _, values in cases
    ]
    missing = set().union(*combinations)
    chosen = {index for index, of_case in enumerate(combinations) if not of_case}
    while missing:
        best = max(range(len(cases)), key=lambda index: len(combinations[index] & missing))
        chosen.add(best)
        missing -= combinations[best]
    return [cases[index][0] for index in sorted(chosen)]


def covering(items: Iterable[Item], strength: int) -> set[Item]:
    """Returns the items that stand for all: of each test with many cases, `covering_cases`.

    For strength 1, values that one ``parametrize`` lists together are one value: each row of such a
    table is a case that somebody chose.
    """
    tests: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    values_of = _rows if strength == 1 else _values
    kept: set[Item] = set()
    for cases in tests.values():
        many = len(cases) > FEW[strength] and all(hasattr(item, "callspec") for item in cases)
        named = [(item, values_of(item)) for item in cases] if many else []
        kept.update(covering_cases(named, strength) if many else cases)
    return kept


def most_varied(items: Sequence[Item], count: int) -> set[Item]:
    """Returns ``count`` items of one test, each the one with the most values that none before has.

    Among items with equally many new values, the first one is taken.
    """
    values = {item: set(_named(_values(item))) for item in items}
    seen: set[tuple[str, Hashable]] = set()
    chosen: set[Item] = set()
    while len(chosen) < min(count, len(items)):
        rest = [item for item in items if item not in chosen]
        best = max(rest, key=lambda item: len(values[item] - seen))
        chosen.add(best)
        seen |= values[best]
    return chosen


def _values(item: Item) -> dict[str, Any]:
    return item.callspec.params


def _rows(item: Item) -> dict[str, Any]:
    values = dict(item.callspec.params)
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        if len(names) > 1 and all(name in values for name in names):
            values[",".join(names)] = tuple(hashable(values.pop(name)) for name in names)
    return values


def _named(values: Mapping[str, Any]) -> list[tuple[str, Hashable]]:
    return [(name, hashable(value)) for name, value in values.items()]


def hashable(value: Any) -> Hashable:
    """Returns what stands for a parameter's value as a key: equal values of one type are one."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return type(value), value
