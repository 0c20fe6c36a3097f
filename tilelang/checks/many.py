"""Many checks at once, on processes of this machine or on any executor."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import queue
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import UserError
from . import progress, warm
from .check import Check, check_of, run
from .kept import KeptVerdicts


def check_many(
    checks: Sequence[str | Sequence[str] | Check],
    executor: concurrent.futures.Executor | None = None,
    cache: str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    time_limit: float | None = 600.0,
    told: Callable[[int, dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Runs many checks, each in a process of its own that is killed when its time is over.

    The verdicts do not depend on the executor, the number of jobs or the order. On a terminal, a
    line shows how many checks are done and the time left.

    Args:
        checks: each the part of a command line after ``tilelang check``, as a text or as words:
            ``"kernel.py::scale --shapes N=1000 --target sm_90a"``.
        executor: runs them, such as a ``ProcessPoolExecutor``, ``Client.get_executor()`` of Dask,
            ``loky.get_reusable_executor()`` of joblib, or ``MPIPoolExecutor`` of mpi4py. Its
            workers must see the files under the same paths. None: processes of this machine.
        cache: folder in which verdicts are kept, and found again if nothing that they depend on has
            changed. Several machines may share it. None: no verdict is kept.
        jobs: checks that run at a time without an executor. None: one for each core.
        time_limit: seconds for one check; None: no limit.
        told: is called with the number of each check and its document, as soon as it is there.

    Returns:
        The document of each check, as ``tilelang check --json`` prints it, in the order of
        ``checks``. If a check could not run, its ``ok`` is false and ``error`` has the reason.

    Raises:
        UserError: one of ``checks`` is no command line, ``jobs`` is not positive, or a check runs
            the program that calls this.
    """
    warm.refuse_inside()
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs must be positive, got {jobs}")
    known = [each if isinstance(each, Check) else check_of(each) for each in checks]
    kept = KeptVerdicts(cache) if cache is not None else None
    found: dict[Check, dict[str, Any]] = {}
    with progress.shown():
        progress.expect(len(known))
        progress.step("the first checks")
        for check, document in _verdicts(list(dict.fromkeys(known)), executor, kept, jobs,
                                         time_limit):  # fmt: skip
            found[check] = document
            for number in (i for i, each in enumerate(known) if each == check):
                progress.step(f"{document.get('verdict', 'not tried')}: {check}")
                if told is not None:
                    told(number, document)
    return [found[each] for each in known]


def _verdicts(
    checks: list[Check], executor: concurrent.futures.Executor | None, kept: KeptVerdicts | None,
    jobs: int | None, seconds: float | None,
) -> Iterator[tuple[Check, dict[str, Any]]]:  # fmt: skip
    """Yields the document of each check: kept ones first, then each as soon as it is there."""
    missing = []
    for check in checks:
        document = kept.get(check) if kept is not None else None
        if document is None:
            missing.append(check)
        else:
            yield check, document
    for check, document in _run(missing, executor, jobs, seconds):
        if kept is not None:
            kept.put(check, document)
        yield check, document


def _run(
    checks: list[Check], executor: concurrent.futures.Executor | None, jobs: int | None,
    seconds: float | None,
) -> Iterator[tuple[Check, dict[str, Any]]]:  # fmt: skip
    own = None
    if executor is None:  # each thread waits for one process
        executor = own = concurrent.futures.ThreadPoolExecutor(jobs or _cores())
    done: queue.SimpleQueue[tuple[Check, Any]] = queue.SimpleQueue()
    try:
        for check in checks:
            future = executor.submit(run, check, seconds)
            future.add_done_callback(functools.partial(_put, done, check))
        for _ in checks:
            check, future = done.get()
            yield check, _document(check, future)
    except BaseException:  # Ctrl-C
        if own is not None:
            warm.stop()
        raise
    finally:
        if own is not None:
            own.shutdown(cancel_futures=True)


def _put(done: queue.SimpleQueue[tuple[Check, Any]], check: Check, future: Any) -> None:
    done.put((check, future))


def _document(check: Check, future: concurrent.futures.Future[dict[str, Any]]) -> dict[str, Any]:
    try:
        return future.result()
    except Exception as error:  # of the executor: a worker has died, or was cancelled
        return check.refused(f"the executor raised {type(error).__name__}: {error}")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
