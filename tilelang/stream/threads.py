"""How many threads of the CPU work for a stream."""

from __future__ import annotations

import operator
import os

from ..errors import ArgumentError


def thread_count(threads: int | None) -> int:
    """Returns how many threads work: those asked for, or as many as the process has cores.

    Raises:
        ArgumentError: it is no positive integer.
    """
    if threads is None:
        cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
        return len(cores) or os.cpu_count() or 1
    try:
        found = operator.index(threads)
    except TypeError:
        found = 0
    if found < 1:
        raise ArgumentError(f"threads={threads!r} is no positive integer")
    return found
