"""Waiting for a launch: progress bar, Ctrl-C."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from tilelang import _ffi

_DELAY = 2.0  # seconds before a bar appears
_WIDTH = 30
_INTERVAL = 0.1  # between looks at Ctrl-C and the bar


class DaemonLaunches:
    """The daemon threads that are inside a launch; the end of the interpreter ends them.

    Python ends a daemon thread where it next asks for the interpreter's lock. In the middle of
    native code that aborts the process, so these threads leave their launches before.
    """

    _PATIENCE = 10.0  # seconds for a thread to end

    def __init__(self) -> None:
        self._over = False
        self._threads: set[threading.Thread] = set()
        atexit.register(self._end)

    @contextlib.contextmanager
    def launching(self) -> Iterator[None]:
        """Counts the current thread among those that launch, if it is a daemon."""
        thread = threading.current_thread()
        if not thread.daemon or thread in self._threads:
            yield
            return
        self._threads |= {thread}
        try:
            yield
        finally:
            self._threads -= {thread}

    def check(self) -> None:
        """Ends the current thread if it is a daemon and the interpreter ends.

        Raises:
            SystemExit: it does.
        """
        if self._over and threading.current_thread().daemon:
            raise SystemExit

    def _end(self) -> None:
        self._over = True
        for thread in list(self._threads):
            thread.join(self._PATIENCE)


#: Of this process.
DAEMONS = DaemonLaunches()


class Progress:
    """Waits for a launch; the wait can be interrupted, which stops the launch."""

    def __init__(self, handle: Any, name: str, show: bool) -> None:
        self._handle, self._name = handle, name
        self._line = _line() if show else None

    def wait(self) -> None:
        """Returns when the launch has ended; on KeyboardInterrupt it is cancelled first.

        Raises:
            SystemExit: this is a daemon thread, and the interpreter ends.
        """
        wait = _ffi.get("emulator.Wait")
        begin = time.monotonic()
        try:
            with DAEMONS.launching():
                while not wait(self._handle, _INTERVAL):
                    DAEMONS.check()
                    if self._line and time.monotonic() - begin > _DELAY:
                        self._line.show(self._text(time.monotonic() - begin))
        except BaseException:
            _ffi.get("emulator.Cancel")(self._handle)
            raise
        finally:
            if self._line:
                self._line.clear()

    def _text(self, seconds: float) -> str:
        done = float(_ffi.get("emulator.Progress")(self._handle))
        filled = int(done * _WIDTH)
        bar = "#" * filled + "-" * (_WIDTH - filled)
        left = f", {seconds * (1 - done) / done:.0f} s left" if done > 0 else ""
        return f"{self._name} [{bar}] {done:.0%} {seconds:.0f} s{left}"


def _line() -> _Line | None:
    """Returns where a bar can be drawn over and over; None if there is no such place."""
    if "ipykernel" in sys.modules:
        return _NotebookLine()
    return _TerminalLine() if sys.stderr.isatty() else None


class _Line:
    """One line of text that replaces the one before."""

    def __init__(self) -> None:
        self._shown = ""

    def show(self, text: str) -> None:
        if text != self._shown:
            self._write(text)
            self._shown = text

    def clear(self) -> None:
        self.show("")

    def _write(self, text: str) -> None:
        raise NotImplementedError


class _TerminalLine(_Line):
    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


class _NotebookLine(_Line):
    """An output that is updated in place: notebooks do not erase what a stream has printed."""

    def __init__(self) -> None:
        super().__init__()
        self._display: Any = None

    def _write(self, text: str) -> None:
        from IPython.display import display

        data = {"text/plain": text}
        if self._display is None:
            self._display = display(data, raw=True, display_id=True)
        else:
            self._display.update(data, raw=True)
