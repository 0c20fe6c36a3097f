"""HBM beside the clock and the number of CTAs, as an H200 was measured (docs/timing_figures.md)."""

import dataclasses

import pytest

#: Clocks of a load that depends on the one before, at MHz to which products lowered the clock.
LATENCY = {("HBM", 1945): 698, ("HBM", 1602): 627, ("HBM", 1509): 613,
           ("L2", 1975): 305, ("L2", 1587): 297, ("L2", 1490): 307}  # fmt: skip
#: GB/s of c = a + b: loads of each array in a turn, bytes of one, CTAs.
ADDED = {
    (4, 4, "short"): 4122, (4, 4, "8 resident"): 3853, (8, 4, "8 resident"): 3772,
    (4, 8, "short"): 4153, (4, 8, "8 resident"): 3989,
    (1, 16, "short"): 4209, (1, 16, "8 resident"): 4090,
}  # fmt: skip


@pytest.mark.parametrize("where, mhz", LATENCY)
def test_what_hbm_adds_to_latency_takes_the_same_time_at_any_clock(microbench, where, mhz):
    name = f"latency at a clock, {where}, alone"
    probe = next(p for p in microbench("latency_at_clocks").probes() if p.name == name)
    # Turns enough that L2 has all lines after the first pass.
    clocks = microbench("machine").Emulated(mhz).measure(dataclasses.replace(probe, repeat=160))
    assert clocks == pytest.approx(LATENCY[where, mhz], rel=0.05)


@pytest.mark.parametrize("loads, width, ctas", ADDED)
def test_ctas_that_are_all_resident_end_later_than_short_ones(microbench, loads, width, ctas):
    name = f"a + b, 2 x {loads} loads of {width} B, {ctas}"
    probe = next(p for p in microbench("dealt").probes() if p.name == name)
    rate = microbench("machine").Emulated().measure(probe)
    assert rate == pytest.approx(ADDED[loads, width, ctas], rel=0.04)
