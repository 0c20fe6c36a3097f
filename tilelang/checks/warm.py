"""A process that has imported torch and the compiler, and forks commands from there.

Each command runs in a process of its own, which can be killed with all processes that it starts,
and begins within milliseconds. The process that forks runs nothing else, so it has one thread.

``python -m tilelang.checks.warm FD MODULE...`` is that process: FD is its end of the socket.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ..errors import UserError

#: Imported before the first command, if they are installed.
_PRELOADED = ("torch", "torch.utils._python_dispatch", "tilelang.cli.check", "tilelang.cli.verdict",
              "tilelang.language", "tilelang.autotuner", "tilelang.profiler.judge")  # fmt: skip
#: Is set in commands that a warm process runs: a script that checks itself would start such
#: processes without end.
_INSIDE = "TILELANG_INSIDE_CHECK"
#: The end of the standard error that is kept of a command without a document.
_MOST_ERROR_TEXT = 4000
_MOST_REQUEST = 1 << 17


@dataclasses.dataclass(frozen=True)
class Ended:
    """The end of a command.

    Attributes:
        status: its exit status, a signal as a negative number; None if its time was over.
        printed: its standard output.
        errors: the end of its standard error.
    """

    status: int | None
    printed: str
    errors: str


class _Server:
    """The connection to the warm process of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def send(self, request: dict[str, Any], files: list[int]) -> None:
        """Asks for a command; starts the warm process first if there is none."""
        data = json.dumps(request).encode()
        with self._lock:
            if self._socket is None or self._owner != os.getpid():
                self._start()
            assert self._socket is not None
            try:
                socket.send_fds(self._socket, [data], files)
            except (BrokenPipeError, ConnectionResetError):  # somebody has ended it
                self._start()
                socket.send_fds(self._socket, [data], files)

    def stop(self) -> None:
        """Ends the warm process, and the commands that run."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        """Closes the connection, whose other end the warm process waits on."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        with warnings.catch_warnings():
            # It ends by itself, and the next process that subprocess starts reaps it.
            warnings.simplefilter("ignore", ResourceWarning)
            self._process = None

    def _start(self) -> None:
        self._end()
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(other.fileno()), *_PRELOADED],
                pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, start_new_session=True,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )  # fmt: skip
        self._socket, self._owner = own, os.getpid()


_server = _Server()
atexit.register(_server.stop)


def refuse_inside() -> None:
    """Refuses to start many checks from a program that is checked.

    Raises:
        UserError: this process, or one that has started it, runs a check.
    """
    if os.environ.get(_INSIDE):
        raise UserError(
            "a program that is checked cannot start checks itself: it would run again in each of "
            'them; start them under `if __name__ == "__main__":`, or from another file'
        )


class Running:
    """A process that the warm process has forked."""

    def __init__(self, request: dict[str, Any], files: list[int]) -> None:
        reading, writing = os.pipe()
        try:
            _server.send(
                {"path": sys.path, "folder": os.getcwd(), "environment": dict(os.environ),
                 **request},
                [*files, writing],
            )  # fmt: skip
        finally:
            os.close(writing)
        self._events = os.fdopen(reading, "rb", buffering=0)

    def status(self, seconds: float | None = None) -> int | None:
        """Waits for its end, and ends its group; returns its status, None if its time was over."""
        with self._events as events:
            told = events.readline()  # written when it begins
            if not told:
                return -signal.SIGKILL  # somebody has ended the warm process
            late = not select.select([events], [], [], seconds)[0]
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(told), signal.SIGKILL)
            ended = events.readline()
            return None if late else int(ended or -signal.SIGKILL)


def start(entry: str, connection: int) -> Running:
    """Runs a function of a module in a process of its own, with an end of a socket.

    Args:
        entry: ``"module:function"``, as of :func:`processes.serve`.
        connection: the file descriptor of the socket.
    """
    with open(os.devnull, "rb+") as nothing:
        files = [nothing.fileno(), nothing.fileno(), connection]
        return Running({"entry": entry}, files)


def stop() -> None:
    """Ends the commands that run."""
    _server.stop()


def run(
    words: Sequence[str], folder: str | os.PathLike[str] = ".", seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:  # fmt: skip
    """Runs ``tilelang WORDS`` in a process of its own, which cannot run others so.

    Args:
        words: of the command line.
        folder: its working directory.
        seconds: after which it is killed, with the processes that it has started.
        environment: variables that it sees besides those of this process.

    Raises:
        UserError: this process runs such a command itself.
    """
    refuse_inside()
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        request = {
            "words": list(words), "folder": str(Path(folder).resolve()),
            "environment": {**os.environ, **(environment or {}), _INSIDE: "1"},
        }  # fmt: skip
        running = Running(request, [printed.fileno(), errors.fileno()])
        status = running.status(seconds)
        return Ended(status, _text(printed), _text(errors)[-_MOST_ERROR_TEXT:])


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


# The warm process -----------------------------------------------------------------------------


class _Forks:
    """Forks the commands that a socket asks for, and tells of their ends."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._events: dict[int, int] = {}  # what hears of the end of a process
        self._ending, self._woken = os.pipe()
        for each in (self._ending, self._woken):
            os.set_blocking(each, False)
        signal.set_wakeup_fd(self._woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's is for the one that asks

    def serve(self) -> None:
        """Runs until the socket is closed; then ends the commands that run."""
        while True:
            ready, _, _ = select.select([self._socket.fileno(), self._ending], [], [])
            if self._ending in ready:
                os.read(self._ending, 1024)
                self._reap()
            if self._socket.fileno() in ready:
                request, files, _, _ = socket.recv_fds(self._socket, _MOST_REQUEST, 4)
                if not request:
                    break
                self._fork(json.loads(request), files)
        for process in self._events:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)

    def _reap(self) -> None:
        while self._events:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            events = self._events.pop(process)
            with contextlib.suppress(BrokenPipeError):
                os.write(events, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(events)

    def _fork(self, request: dict[str, Any], files: list[int]) -> None:
        printed, errors, *connection, events = files
        process = os.fork()
        if process == 0:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._socket.close()
            for each in (events, self._ending, self._woken, *self._events.values()):
                os.close(each)
            _become(request, printed, errors, connection)
        os.write(events, b"%d\n" % process)
        self._events[process] = events
        for each in (printed, errors, *connection):
            os.close(each)


def _become(request: dict[str, Any], printed: int, errors: int, connection: list[int]) -> None:
    """Turns a forked process into one that runs a command or serves a socket, and ends it."""
    status = 1
    try:
        for file, number in ((printed, 1), (errors, 2)):
            os.dup2(file, number)
            os.close(file)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        sys.path[:] = request["path"]
        if connection:
            from .processes import serve

            serve(request["entry"], socket.socket(fileno=connection[0]))
        sys.argv = ["tilelang", *request["words"]]
        importlib.import_module("tilelang.cli").main(request["words"], prog_name="tilelang")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _serve(arguments: list[str]) -> None:
    for name in arguments[1:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with socket.socket(fileno=int(arguments[0])) as connection:
        _Forks(connection).serve()


if __name__ == "__main__":
    _serve(sys.argv[1:])
