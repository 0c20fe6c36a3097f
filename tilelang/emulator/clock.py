"""The emulated clock: how long launches take on the GPU, by the timing model."""

from __future__ import annotations

import contextlib
import contextvars
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilelang.errors import user_level

from .errors import EmulatorWarning
from .timed import Timing, TimingOptions


class Clock:
    """Adds up the predicted times of launches while it runs.

    Attributes:
        us: microseconds so far.
        launches: how many they were.
        gpu: whose clock it is, by its name; "" before the first launch.
        running: whether launches are timed now.
    """

    def __init__(self, running: bool = True, sampled: bool = False) -> None:
        self.us = 0.0
        self.launches = 0
        self.gpu = ""
        self.running = running
        self.timing = TimingOptions(record=False, sampled=sampled)

    def add(self, timing: Timing) -> None:
        """Counts a launch."""
        self.us += timing.grid_us
        self.launches += 1
        self.gpu = timing.gpu


_clock: contextvars.ContextVar[Clock | None] = contextvars.ContextVar("clock", default=None)


@contextlib.contextmanager
def ticking(clock: Clock) -> Iterator[Clock]:
    """Launches inside of the block are timed by ``clock`` while it runs."""
    token = _clock.set(clock)
    try:
        yield clock
    finally:
        _clock.reset(token)


def run_timed(run: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> Any:
    """Runs a launch with these options; the clock that runs here goes on by its time.

    A launch that is timed anyhow is somebody's measurement and does not count.
    """
    clock = _clock.get()
    if clock is None or not clock.running or given.get("timing"):
        return run(given)
    report = run({**given, "timing": clock.timing})
    clock.add(report.timing)
    return report


def measure(function: Callable[[], Any], sampled: bool = False) -> Clock:
    """Calls a function once and times its launches, hidden from listeners of launches.

    Args:
        sampled: only the CTAs run that are timed in detail: quicker, but the other results do not
            exist. Those of the timed ones do, since launches that come later may read them.
    """
    from .watch import watching

    with watching(None), ticking(Clock(sampled=sampled)) as clock:
        function()
    return clock


def predicted_bench(
    function: Callable[[], Any], quantiles: Sequence[float] | None = None
) -> float | list[float]:
    """Returns predicted milliseconds, with a warning, for a benchmark without a GPU.

    Args:
        quantiles: there is one time for all of them.

    Returns:
        NaN where nothing was launched, as for a function of torch.
    """
    clock = measure(function, sampled=True)
    if clock.launches:
        time = clock.us / 1e3
        remark = (
            f"there is no GPU: the time is what the timing model predicts for the {clock.gpu} from "
            "the blocks that it times; what the others would write is left as it was"
        )
    else:
        time = math.nan
        remark = (
            "the benchmark launches no kernel on the emulator, and torch's own operations have no "
            "predicted time: NaN"
        )
    warnings.warn(remark, EmulatorWarning, stacklevel=user_level())
    return time if quantiles is None else [time] * len(quantiles)
