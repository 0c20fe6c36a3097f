"""Processes beside the one that judges: of the program, and of the reference."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import signal
import socket
import sys
import weakref
from typing import Any

from . import warm
from .wire import Ended, Message, Wire

_SET_PARENT_DEATH_SIGNAL = 1


class Died(Exception):
    """A process has ended by itself; the text says how."""


class Other:
    """A process that serves orders on a wire; it ends with this object.

    Args:
        entry: ``"module:function"``; the function gets the wire.
    """

    def __init__(self, entry: str) -> None:
        self._peer = _Peer(entry)
        self._end = weakref.finalize(self, self._peer.end)

    def send(self, fields: dict[str, Any], arrays: Any = ()) -> None:
        """Sends an order, or an answer.

        Raises:
            Died: the process has ended.
        """
        try:
            self._peer.wire.send(fields, arrays)
        except Ended:
            raise Died(self._peer.how()) from None

    def receive(self) -> Message:
        """Waits for a message.

        Raises:
            Died: the process has ended.
        """
        try:
            return self._peer.wire.receive()
        except Ended:
            raise Died(self._peer.how()) from None

    def end(self) -> None:
        """Ends the process."""
        self._end()


class _Peer:
    """A process and this end of its wire."""

    def __init__(self, entry: str) -> None:
        own, other = socket.socketpair()
        self._process, self._running, self._death = 0, None, ""
        with other:
            if _has_one_thread():
                self._process = _forked(entry, own, other)
            else:  # a fork of this process would lack the threads that hold its locks
                self._running = warm.start(entry, other.fileno())
        self.wire = Wire(own)
        self._owner = os.getpid()

    def end(self) -> None:
        """Ends the process, unless it belongs to a process that has forked this one."""
        self.wire.close()
        if self._owner == os.getpid():
            self._reap(kill=True)

    def how(self) -> str:
        """Returns how the process has ended."""
        if not self._death:
            self.wire.close()
            status = self._reap(kill=False)
            how = f"with status {status}" if status >= 0 else f"by signal {-status}"
            self._death = f"the program ended its process {how}"
        return self._death

    def _reap(self, *, kill: bool) -> int:
        """Waits for the end of the process; returns its status."""
        process, running = self._process, self._running
        self._process, self._running = 0, None
        status: int | None = None
        if running is not None:
            status = running.status(0 if kill else None)
        elif process:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                if kill:
                    os.kill(process, signal.SIGKILL)
                status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        return -signal.SIGKILL if status is None else status


def _has_one_thread() -> bool:
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def _forked(entry: str, own: socket.socket, other: socket.socket) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        gc.freeze()  # the objects of the judge end in its process alone
        own.close()
        # What the judge says to other processes is not for this one.
        os.closerange(3, other.fileno())
        os.closerange(other.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        with contextlib.suppress(OSError):
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        serve(entry, other)
    return process


def serve(entry: str, connection: socket.socket) -> None:
    """Serves orders, and ends this process; what a program prints goes nowhere."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    module, _, function = entry.partition(":")
    try:
        getattr(importlib.import_module(module), function)(Wire(connection))
    except Ended:
        os._exit(0)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    finally:
        os._exit(1)
