"""A line on the terminal that tells how far a search is."""

from __future__ import annotations

import sys
import time
from typing import Any

_WIDTH = 24


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
        text = f"tuning [{bar}] {self._done}/{self._total} {time.monotonic() - self._start:.0f} s"
        if best is not None:
            values = " ".join(f"{name}={value}" for name, value in best.config.items())
            text += f"  best {best.latency:g} {self._unit}: {values}"
        sys.stderr.write("\r" + text[:160].ljust(self._length))
        sys.stderr.flush()
        self._length = min(len(text), 160)

    def close(self) -> None:
        """Ends the line."""
        if self._shown and self._done:
            sys.stderr.write("\n")
