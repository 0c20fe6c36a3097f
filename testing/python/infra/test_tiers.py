"""The tiers of the suite, the durations that they read, and the kernels that stay between runs."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from types import SimpleNamespace

import durations
import kept_kernels
import pytest
import tiers

from tilelang.runtime import cache

ROOT = Path(__file__).resolve().parents[3]


#: Seconds of the items that have a budget of their own.
BUDGET = 3 * tiers.CHANGE_SECONDS


class Item:
    """A collected case, as far as the tiers look at it."""

    def __init__(self, test: str, marker: str = "", **params: object) -> None:
        self.nodeid = f"{test}[{'-'.join(map(str, params.values()))}]" if params else test
        self._marker = marker
        if params:
            self.callspec = SimpleNamespace(params=params)

    def get_closest_marker(self, name: str) -> SimpleNamespace | None:
        return SimpleNamespace(args=(BUDGET,)) if name == self._marker else None

    def __repr__(self) -> str:
        return self.nodeid


def kept(tier: str, items: list[Item], seconds: dict[str, float] | None = None) -> list[str]:
    return [item.nodeid for item in tiers.of_tier(items, tier, seconds or {})]


def test_each_change_runs_one_target_and_one_schedule():
    shapes = [[1], [2]]  # not hashable, as lists of sizes are
    items = [
        Item("t", shape=shape, target=target, _schedule=schedule)
        for shape in shapes
        for target in ("sm_80", "sm_90a", "sm_100a")
        for schedule in (1, "eager", "late")
    ]
    assert kept("change", items) == ["t[[1]-sm_100a-late]", "t[[2]-sm_100a-late]"]
    assert kept("quick", items) == ["t[[1]-sm_100a-late]"]
    assert kept("all", items) == [item.nodeid for item in items]


def test_what_only_another_target_has_stays():
    items = [Item("t", arch=arch, kind=kind) for arch, kind in [("sm_80", 1), ("sm_90a", 1)]]
    items += [Item("t", arch="sm_80", kind=2), Item("u", schedule="eager"), Item("v")]
    assert kept("change", items) == ["t[sm_90a-1]", "t[sm_80-2]", "u[eager]", "v"]
    numbers = [Item("w", stages=1), Item("w", stages=2)]  # a number is a seed of schedules alone
    assert kept("change", numbers) == ["w[1]", "w[2]"]


def test_slow_tests_are_not_quick():
    items = [Item("a"), Item("b", "slow"), Item("c", n=1), Item("c", n=2), Item("d")]
    assert kept("change", [*items, Item("e", "nightly")]) == [item.nodeid for item in items]
    assert kept("quick", items, {"a": tiers.QUICK_SECONDS + 1, "d": 0.01}) == ["c[1]", "d"]
    assert kept("change", items, {"a": 1e3}) == [item.nodeid for item in items]


def test_slow_tests_run_as_many_cases_as_fit_their_budget():
    items = [Item("t", m=m, dtype=dtype) for m in (1, 2, 3) for dtype in ("a", "b")]
    items += [Item("alone"), Item("u", n=1), Item("u", n=2)]
    others = {"alone", "u[1]", "u[2]"}

    def kept_with(**seconds: float) -> set[str]:
        return {item.nodeid for item in tiers.within_budget(items, seconds)}

    budget = tiers.CHANGE_SECONDS
    assert kept_with(t=budget) == {item.nodeid for item in items}
    assert kept_with(t=2 * budget) == {"t[1-a]", "t[2-b]", "t[3-a]"} | others
    assert kept_with(t=100 * budget, alone=100 * budget) == {"t[1-a]"} | others
    marked = [Item("v", "budget", n=n) for n in range(6)]
    assert len(tiers.within_budget(marked, {"v": 2 * BUDGET})) == 3


def test_every_target_has_a_rank():
    """A target that the tiers do not know would run at each change beside the first."""
    named = set()
    for path in (ROOT / "testing" / "python").rglob("*.py"):
        named |= set(re.findall(r"[\"'](sm_\d+a)[\"']", path.read_text()))
    assert named & {"sm_80", "sm_90a", "sm_100a", "sm_120a"} <= set(tiers.TARGETS)


def test_durations_are_merged(tmp_path: Path):
    table, here = tmp_path / "durations.tsv", "testing/python/infra/test_tiers.py"
    durations.write({f"{here}::a": 2.0, f"{here}::b": 3.0, f"{here}::c": 0.01}, table)
    assert table.read_text().splitlines() == [f"3.00\t{here}::b", f"2.00\t{here}::a"]
    with table.open("a") as file:
        file.write("9.00\ttesting/python/gone.py::x\n")
    durations.write({f"{here}::b": 0.0}, table)
    assert durations.read(table) == {f"{here}::a": 2.0}


def test_durations_are_of_tests_that_exist():
    for name in durations.read():
        path, _, test = name.partition("::")
        assert f"def {test.split('::')[-1]}(" in (ROOT / path).read_text(), name


@pytest.fixture
def config(tmp_path: Path) -> SimpleNamespace:
    def mkdir(name: str) -> Path:
        (tmp_path / name).mkdir(exist_ok=True)
        return tmp_path / name

    return SimpleNamespace(cache=SimpleNamespace(mkdir=mkdir))


def test_entries_that_no_run_reads_are_removed(config):
    old, new = (config.cache.mkdir("kernels") / name for name in ("old", "new"))
    for path, days in ((old, 15), (new, 13)):
        path.touch()
        os.utime(path, (time.time() - days * 86400,) * 2)
    kept_kernels.remove_unused(config)
    assert new.exists() and not old.exists()
    kept_kernels.remove_unused(SimpleNamespace())  # without pytest's cache: nothing to do


def test_a_private_cache_copies_what_is_shared(monkeypatch, tmp_path: Path, request):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "shared"))
    source = 'extern "C" __global__ void nothing() {}'
    made = cache.compile_cached(source, "sm_80", machine_code=False)
    private = request.getfixturevalue("private_cache")

    def fails(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(cache.nvrtc, "compile_cuda", fails)
    assert cache.compile_cached(source, "sm_80", machine_code=False).ptx == made.ptx
    assert len(list(private.rglob("*.tlk"))) == 1
    with pytest.raises(AssertionError, match="compiled again"):
        cache.compile_cached(source + " ", "sm_80", machine_code=False)
