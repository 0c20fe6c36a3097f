"""Waits for a launch, with a progress bar and Ctrl-C."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

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
        """Counts the current thread as a launching one, if it is a daemon."""
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


_listener: contextvars.ContextVar[Callable[[float], None] | None] = contextvars.ContextVar(
    "listener", default=None
)


@contextlib.contextmanager
def listening(tell: Callable[[float], None]) -> Iterator[None]:
    """Calls ``tell`` with the share of a launch that is done, every tenth of a second."""
    token = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(token)


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
        wait, tell = _ffi.get("emulator.Wait"), _listener.get()
        begin = time.monotonic()
        try:
            with DAEMONS.launching():
                while not wait(self._handle, _INTERVAL):
                    DAEMONS.check()
                    if tell is not None:
                        tell(float(_ffi.get("emulator.Progress")(self._handle)))
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
    return TerminalLine(sys.stderr) if sys.stderr.isatty() else None


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


class TerminalLine(_Line):
    """A line of a terminal that replaces itself."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()


class _NotebookLine(_Line):
    """A line that replaces itself: a notebook cannot erase the output of a stream."""

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
