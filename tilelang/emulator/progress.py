"""Waiting for a launch: progress bar, Ctrl-C."""

from __future__ import annotations

import sys
import time
from typing import Any

from tilelang import _ffi

_DELAY = 2.0  # seconds before a bar appears
_WIDTH = 30
_INTERVAL = 0.1  # between looks at Ctrl-C and the bar


class Progress:
    """Waits for a launch; the wait can be interrupted, which stops the launch."""

    def __init__(self, handle: Any, name: str, show: bool) -> None:
        self._handle, self._name = handle, name
        self._show = show and (sys.stderr.isatty() or "ipykernel" in sys.modules)
        self._drawn = False

    def wait(self) -> None:
        """Returns when the launch has ended; on KeyboardInterrupt it is cancelled first."""
        wait = _ffi.get("emulator.Wait")
        begin = time.monotonic()
        try:
            while not wait(self._handle, _INTERVAL):
                if self._show and time.monotonic() - begin > _DELAY:
                    self._draw(time.monotonic() - begin)
        except BaseException:
            _ffi.get("emulator.Cancel")(self._handle)
            raise
        finally:
            if self._drawn:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

    def _draw(self, seconds: float) -> None:
        done = float(_ffi.get("emulator.Progress")(self._handle))
        filled = int(done * _WIDTH)
        bar = "#" * filled + "-" * (_WIDTH - filled)
        left = f", {seconds * (1 - done) / done:.0f} s left" if done > 0 else ""
        sys.stderr.write(f"\r\x1b[K{self._name} [{bar}] {done:.0%} {seconds:.0f} s{left}")
        sys.stderr.flush()
        self._drawn = True
