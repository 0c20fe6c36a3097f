"""The tiers of the test suite: which cases run at each change, and which run each night.

``pytest --tier=`` takes one of three names. Each tier is a subset of the next.

* ``quick``: the inner loop. One case of each test, without the tests that take long.
* ``change``: each change. A test with cases for several targets runs for one target (sm_100a, if it
  is among them), a test with cases for several schedules runs under ``late``, tests marked
  ``nightly`` do not run, and of the remaining cases those run in which every value of every
  parameter occurs (covering.py). A slow test runs as many of its cases as fit its budget, and a
  random test draws a third of its examples.
* ``all``: each night. Every target, every schedule, and every pair of values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from covering import hashable, most_varied
from durations import test_of
from pytest import Item

TIERS = ("quick", "change", "all")
#: How many values meet in the cases that stand for all of a test (covering.py).
STRENGTH = {"quick": 1, "change": 1, "all": 2}
#: Targets, most important first: at each change, a test runs for the first target that it has.
TARGETS = ("sm_100a", "sm_90a", "sm_80", "sm_120a", "sm_103a", "sm_121a")
#: Schedules of asynchronous operations, most important first; a number is a seed.
SCHEDULES = ("late", "eager")
#: The quick tier has no test whose cases take more CPU seconds in the tier ``change``.
QUICK_SECONDS = 0.3
#: At each change, a test with several cases takes about so many CPU seconds at most, unless it is
#: marked ``budget(seconds)``.
CHANGE_SECONDS = 1.0
#: At each change, a random test draws this part of its examples. Each run draws other ones.
CHANGE_EXAMPLES = 1 / 3

#: The tier of this run, which conftest.py sets before tests are imported.
chosen = "all"


def examples(count: int) -> int:
    """Returns how many of ``count`` examples a random test draws in the tier of this run."""
    return count if chosen == "all" else max(1, round(count * CHANGE_EXAMPLES))


def of_tier(items: Iterable[Item], tier: str, seconds: Mapping[str, float]) -> list[Item]:
    """Returns the items that run in a tier, in the order of ``items``.

    Args:
        items: the collected items.
        tier: one of `TIERS`.
        seconds: CPU seconds by test (`durations.read`). A test without an entry is quick.
    """
    kept = list(items)
    if tier == "all":
        return kept
    kept = [item for item in kept if not item.get_closest_marker("nightly")]
    kept = _first_choices(kept, _is_target, TARGETS.index)
    kept = _first_choices(kept, _is_schedule, _rank_of_schedule)
    if tier == "quick":
        kept = [item for item in kept if not item.get_closest_marker("slow")]
        kept = [item for item in kept if seconds.get(test_of(item.nodeid), 0) <= QUICK_SECONDS]
        first_of_test = {test_of(item.nodeid): item for item in reversed(kept)}
        kept = list(first_of_test.values())[::-1]
    return kept


def within_budget(items: Iterable[Item], seconds: Mapping[str, float]) -> set[Item]:
    """Returns the items without the cases of slow tests that exceed their budget.

    The cases that stay differ as much as possible, and each test keeps at least one.

    Args:
        items: the items of the tier ``change``.
        seconds: CPU seconds of all their cases, by test (`durations.read`).
    """
    tests: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        tests[test_of(item.nodeid)].append(item)
    kept: set[Item] = set()
    for test, cases in tests.items():
        marker = cases[0].get_closest_marker("budget")
        budget = marker.args[0] if marker else CHANGE_SECONDS
        share = budget / max(seconds.get(test, 0), budget)
        count = max(1, int(len(cases) * share))
        kept |= set(cases) if count == len(cases) else most_varied(cases, count)
    return kept


def _first_choices(
    items: list[Item], is_choice: Callable[[str, Any], bool], rank: Callable[[Any], int]
) -> list[Item]:
    """Keeps the best-ranked item of each group that differs only in parameters that are choices."""
    groups: dict[Hashable, list[tuple[list[int], Item]]] = defaultdict(list)
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        choices = [name for name, value in params.items() if is_choice(name, value)]
        rest = [(name, hashable(params[name])) for name in params if name not in choices]
        ranks = [rank(params[name]) for name in choices]
        group = (test_of(item.nodeid), *rest) if choices else item.nodeid
        groups[group].append((ranks, item))
    kept = {min(group, key=lambda pair: pair[0])[1] for group in groups.values()}
    return [item for item in items if item in kept]


def _is_target(name: str, value: Any) -> bool:
    return isinstance(value, str) and value in TARGETS


def _is_schedule(name: str, value: Any) -> bool:
    return name in ("schedule", "_schedule") and (value in SCHEDULES or isinstance(value, int))


def _rank_of_schedule(value: Any) -> int:
    return SCHEDULES.index(value) if value in SCHEDULES else len(SCHEDULES)
