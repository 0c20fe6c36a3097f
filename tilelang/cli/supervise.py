"""A verdict even on a program that ends the process, as by ``os._exit``."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from .output import WRONG, refuse, telling


def supervised(function: Callable[..., None]) -> Callable[..., None]:
    """Runs a command in a child process, and ends it with status 1 if the child tells nothing.

    Only a process that is nothing but the command line is divided: neither one with threads nor one
    with another standard output, as in tests.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> None:
        if not _alone():
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
        status = _ended(child)
        os.set_blocking(reading, False)
        try:
            told = bool(os.read(reading, 1))
        except BlockingIOError:  # processes that the program has started are still there
            told = False
        if not told:
            how = f"by signal {-status}" if status < 0 else f"with status {status}"
            message = f"the program ended the process {how} before there was a verdict"
            refuse(message, bool(kwargs.get("as_json")), WRONG)
        sys.exit(status if status >= 0 else 128 - status)

    return call


def _alone() -> bool:
    return (
        hasattr(os, "fork")
        and sys.stdout is sys.__stdout__
        and threading.active_count() == 1
        and "torch" not in sys.modules
    )


def _ended(child: int) -> int:
    """Waits for a process; returns its status, a signal as a negative number."""

    def forward(number: int, _: Any) -> None:
        os.kill(child, number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child as well
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
