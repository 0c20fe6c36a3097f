"""Times launches by the model; the reports repeat a launch to see what a cost is worth."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..launch_options import options
from ..timed import Timing, TimingOptions
from .report import Report

if TYPE_CHECKING:
    from tilelang.jit import JITKernel

#: Runs a call with some options, and returns the timings of its grids in order.
Call = Callable[[TimingOptions], list[Timing]]


def profiling(timing: TimingOptions | None) -> TimingOptions:
    """The options of a call that only profiles: by default only what is timed runs."""
    return timing or TimingOptions(sampled=True)


def reports(call: Call, timing: TimingOptions) -> list[Report]:
    """Times a call; the reports repeat it, without its timeline, to take costs away."""

    def again(grid: int) -> Callable[[frozenset[str]], Timing]:
        return lambda costs: call(dataclasses.replace(timing, record=False, ablate=costs))[grid]

    found = [Report(each, again(grid)) for grid, each in enumerate(call(timing))]
    for report in found:
        report.grids = found
    return found


def longest(found: Sequence[Report]) -> Report:
    """The report of the grid that takes longest."""
    return max(found, key=lambda report: report.timing.grid_us)


def profile_kernel(
    kernel: JITKernel, args: Sequence[Any], timing: TimingOptions | None
) -> Report:  # fmt: skip
    """What ``JITKernel.profile`` does."""

    def call(how: TimingOptions) -> list[Timing]:
        found: list[Timing] = []
        with options(timing=how), kernel.reporting(lambda report: found.append(report.timing)):
            kernel.run(*args)
        return found

    return longest(reports(call, profiling(timing)))
