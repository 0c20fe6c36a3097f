"""A line on the terminal that tells how far a search is."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

_WIDTH = 24


def in_microseconds(latency: float, unit: str) -> str:
    """A latency in milliseconds (``"ms"``, ``"ms, predicted"``) as microseconds, two digits."""
    return f"{latency * 1e3:.2f} us{unit.removeprefix('ms')}"


def ready_to_paste(config: Mapping[str, Any]) -> str:
    """A configuration as arguments of a call."""
    return ", ".join(f"{name}={value!r}" for name, value in config.items())


class Progress:
    """A progress bar on the standard error stream.

    Args:
        total: how many candidates there are.
        shown: whether to show it; None: on a terminal only.
        unit: of latencies.
    """

    def __init__(self, total: int, shown: bool | None, unit: str) -> None:
        self._total = total
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._unit = unit
        self._done = 0
        self._start = time.monotonic()
        self._length = 0

    def step(self, best: Any) -> None:
        """Counts one candidate; ``best`` is the trial that leads, or None."""
        self._done += 1
        if not self._shown:
            return
        filled = _WIDTH * self._done // max(1, self._total)
        bar = "#" * filled + "." * (_WIDTH - filled)
        text = f"tuning [{bar}] {self._done}/{self._total} {self._left()}"
        if best is not None:
            latency = in_microseconds(best.latency, self._unit)
            text += f"  best {latency}: {ready_to_paste(best.config)}"
        sys.stderr.write("\r" + text[:160].ljust(self._length))
        sys.stderr.flush()
        self._length = min(len(text), 160)

    def _left(self) -> str:
        """The time that the rest takes, if its candidates take as long as those before."""
        left = (time.monotonic() - self._start) / self._done * (self._total - self._done)
        return f"{left:.0f} s left" if left < 120 else f"{left / 60:.0f} min left"

    def close(self, best: Any) -> None:
        """Ends the line, with the best trial in one of its own, ready to paste."""
        if not (self._shown and self._done):
            return
        sys.stderr.write("\n")
        if best is not None:
            latency = in_microseconds(best.latency, self._unit)
            sys.stderr.write(f"best {latency}: {ready_to_paste(best.config)}\n")
