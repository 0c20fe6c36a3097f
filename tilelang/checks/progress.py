"""Shows on a terminal what a command does, for how long, and how much time is left."""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
import time
from collections.abc import Iterator

from ..emulator.progress import TerminalLine, listening

_DELAY = 2.0  # seconds before the line appears
_INTERVAL = 0.2


class Progress:
    """The steps of a command; a thread prints the current one.

    Attributes:
        total: number of steps, 0 if it is not known.
    """

    def __init__(self, line: TerminalLine) -> None:
        self.total = 0
        self._line, self._done, self._text, self._share = line, -1, "", 0.0
        self._begin = self._begin_of_step = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)
        self._thread.start()

    def step(self, text: str) -> None:
        """Begins a step."""
        self._done, self._text, self._share = self._done + 1, text, 0.0
        self._begin_of_step = time.monotonic()

    def launched(self, share: float) -> None:
        """Takes the share of a launch that is done."""
        self._share = share

    def text(self, now: float) -> str:
        """Returns the line for a time of the monotonic clock."""
        seconds, done = now - self._begin, max(self._done, 0)
        parts = [self._text]
        if self.total:
            parts.append(f"step {min(done + 1, self.total)} of {self.total}")
        parts.append(f"{seconds:.0f} s")
        left = 0.0
        if 0 < done < self.total:
            left = seconds * (self.total - done) / done
        elif not self.total and self._share:
            left = (now - self._begin_of_step) * (1 - self._share) / self._share
        if left:
            parts.append(f"about {left:.0f} s left")
        return ", ".join(filter(None, parts))

    def end(self) -> None:
        """Removes the line."""
        self._over.set()
        self._thread.join()
        self._line.clear()

    def _draw(self) -> None:
        while not self._over.wait(_INTERVAL):
            now = time.monotonic()
            if now - self._begin > _DELAY:
                self._line.show(self.text(now))


_current: contextvars.ContextVar[Progress | None] = contextvars.ContextVar("progress", default=None)


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Shows the steps of the block, if the standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    progress = Progress(TerminalLine(sys.stderr))
    token = _current.set(progress)
    try:
        with listening(progress.launched):
            yield
    finally:
        _current.reset(token)
        progress.end()


def expect(steps: int) -> None:
    """Adds to the number of steps of the command that runs."""
    progress = _current.get()
    if progress is not None:
        progress.total += steps


def step(text: str) -> None:
    """Begins a step of the command that runs."""
    progress = _current.get()
    if progress is not None:
        progress.step(text)
