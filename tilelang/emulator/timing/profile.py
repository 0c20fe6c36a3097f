"""Times launches by the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ArgumentError
from ..launch_options import options
from ..timed import Timing, TimingOptions
from .report import Report

if TYPE_CHECKING:
    from tilelang.jit import JITKernel

#: Runs a call with some options, and returns the timings of its grids in order.
Call = Callable[[TimingOptions], "list[Timing | None]"]
#: Times a launch once more: without some costs, with other registers of a thread (0: its own).
Again = Callable[[frozenset[str], int], "Timing | None"]


def profile_call(call: Call, timing: TimingOptions | None, alone: bool = True) -> Report:
    """Times a call; the report is of the slowest grid and contains the reports of the others.

    By default only what is timed in detail runs.

    Args:
        alone: nobody reads what the call writes, as :class:`TimingOptions` has it.

    Raises:
        ArgumentError: the call launches nothing, as with tensors without elements.
    """
    how = dataclasses.replace(timing or TimingOptions(sampled=True), alone=alone)

    def again(grid: int) -> Again:
        """Returns a function that times the grid once more, without a timeline."""
        return lambda costs, registers: call(
            dataclasses.replace(
                how, record=False, ablate=costs, registers=registers or how.registers
            )
        )[grid]

    found = [Report(each, again(grid)) for grid, each in enumerate(call(how)) if each is not None]
    if not found:
        raise ArgumentError(
            "there is nothing to time: with these arguments every grid of the call has 0 blocks; "
            "pass tensors that have elements"
        )
    for report in found:
        report.grids = found
    return max(found, key=lambda report: report.timing.grid_us)


def profile_kernel(
    kernel: JITKernel, args: Sequence[Any], timing: TimingOptions | None
) -> Report:  # fmt: skip
    """Implements ``JITKernel.profile``."""

    def call(how: TimingOptions) -> list[Timing | None]:
        found: list[Timing | None] = []
        with options(timing=how), kernel.reporting(lambda report: found.append(report.timing)):
            kernel.run(*args)
        return found

    return profile_call(call, timing)
