"""Runs a command in a child process: for a time limit, and for a verdict if the process ends."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import click

from .output import REFUSED, WRONG, refuse, telling

_timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
    help="Stop after this many seconds, with exit status 2.",
)  # fmt: skip


def supervised(function: Callable[..., None]) -> Callable[..., None]:
    """Runs a command in a child process, and adds ``--timeout``.

    The command ends with status 1 if the child ends without a result, as by ``os._exit``. Only a
    process that does nothing else is divided: not one that has threads, and not one whose standard
    output is replaced, as in tests.
    """

    @_timeout_option
    @functools.wraps(function)
    def call(*args: Any, timeout: float | None, **kwargs: Any) -> None:
        as_json = bool(kwargs.get("as_json"))
        if not _alone():
            if timeout is not None:
                refuse("--timeout needs a process of its own: run tilelang from a shell", as_json)
            function(*args, **kwargs)
            return
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # threads of libraries are idle
            child = os.fork()
        if child == 0:
            os.close(reading)
            telling(functools.partial(os.write, writing, b"."))
            function(*args, **kwargs)
            return
        os.close(writing)
        status, late = _ended(child, timeout)
        if _told(reading):
            sys.exit(status if status >= 0 else 128 - status)
        if late:
            message = f"there was no result after {timeout:g} s (--timeout)"
            refuse(message, as_json, REFUSED)
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        message = f"the program ended the process {how} before there was a verdict"
        refuse(message, as_json, WRONG)

    return call


def _alone() -> bool:
    return (
        hasattr(os, "fork")
        and sys.stdout is sys.__stdout__
        and threading.active_count() == 1
        and "torch" not in sys.modules
    )


def _told(reading: int) -> bool:
    """Returns whether the child has printed its result."""
    os.set_blocking(reading, False)
    try:
        return bool(os.read(reading, 1))
    except BlockingIOError:  # processes that the program has started are still there
        return False


def _ended(child: int, timeout: float | None) -> tuple[int, bool]:
    """Waits for a process, and kills it after ``timeout`` seconds.

    Returns:
        Its status, a signal as a negative number, and whether it was killed.
    """
    late = False

    def forward(number: int, _: Any) -> None:
        os.kill(child, number)

    def kill(number: int, _: Any) -> None:
        nonlocal late
        late = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child as well
    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, timeout or 0.0)
    status = os.waitpid(child, 0)[1]
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    return os.waitstatus_to_exitcode(status), late
