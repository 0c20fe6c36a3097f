"""HBM beside the clock and the number of CTAs, as an H200 was measured (docs/timing.md)."""

import dataclasses
import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "benchmark" / "microbench"

#: Clocks of a load that depends on the one before, at MHz to which products lowered the clock.
LATENCY = {("HBM", 1945): 698, ("HBM", 1602): 627, ("HBM", 1509): 613,
           ("L2", 1975): 305, ("L2", 1587): 297, ("L2", 1490): 307}  # fmt: skip
#: GB/s of c = a + b: loads of each array in a turn, bytes of one, CTAs.
ADDED = {
    (4, 4, "short"): 4122, (4, 4, "8 resident"): 3853, (8, 4, "8 resident"): 3772,
    (4, 8, "short"): 4153, (4, 8, "8 resident"): 3989,
    (1, 16, "short"): 4209, (1, 16, "8 resident"): 4090,
}  # fmt: skip


@pytest.fixture(scope="module")
def modules():
    """The micro-benchmarks, which are no package."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name)
               for name in ("dealt", "latency_at_clocks", "machine")}  # fmt: skip
    finally:
        sys.path.remove(str(FOLDER))


@pytest.mark.parametrize("where, mhz", LATENCY)
def test_what_hbm_adds_to_latency_takes_the_same_time_at_any_clock(modules, where, mhz):
    name = f"latency at a clock, {where}, alone"
    probe = next(p for p in modules["latency_at_clocks"].probes() if p.name == name)
    # Turns enough that L2 has all lines after the first pass.
    clocks = modules["machine"].Emulated(mhz).measure(dataclasses.replace(probe, repeat=160))
    assert clocks == pytest.approx(LATENCY[where, mhz], rel=0.05)


@pytest.mark.parametrize("loads, width, ctas", ADDED)
def test_ctas_that_are_all_resident_end_later_than_short_ones(modules, loads, width, ctas):
    name = f"a + b, 2 x {loads} loads of {width} B, {ctas}"
    probe = next(p for p in modules["dealt"].probes() if p.name == name)
    rate = modules["machine"].Emulated().measure(probe)
    assert rate == pytest.approx(ADDED[loads, width, ctas], rel=0.04)
