"""Processes that run programs: one that crashes or hangs costs a seed and not the run."""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import math
import multiprocessing
import multiprocessing.connection
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fuzz.outcome import Outcome

_SECONDS = 120


def _work(connection: Any, run: Callable[[int], Outcome]) -> None:
    """Answers each seed with what became of its program."""
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(EOFError):
        while True:
            connection.send(run(connection.recv()))


class Worker:
    """A process that runs programs; one that crashes or hangs is replaced."""

    def __init__(self, run: Callable[[int], Outcome]) -> None:
        self._run = run
        self.seed: int | None = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, self._run), daemon=True)
        self._process.start()
        other.close()

    def give(self, seed: int) -> None:
        self.seed, self._since = seed, time.monotonic()
        self.connection.send(seed)

    def take(self) -> Outcome | None:
        """The outcome of the seed, or None while it runs."""
        try:
            if self.connection.poll():
                return self.connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self._start()
            return Outcome("crash", f"exit code {code}")
        if time.monotonic() - self._since > _SECONDS:
            self._process.kill()
            self._start()
            return Outcome("hang", f"more than {_SECONDS} s")
        return None


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every generator: which seeds run, in how many processes."""
    parser.add_argument("--seeds", default="0:300", help="FIRST:LAST, LAST not included")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no program later")


def seeds_of(options: argparse.Namespace) -> range:
    first, last = map(int, options.seeds.split(":"))
    return range(first, last)


def _interrupt(*_: Any) -> None:
    # timeout(1) sends the signal to the process, and then to its group.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _until(seeds: Iterable[int], seconds: float) -> Iterator[int]:
    """The seeds that are asked for within some seconds."""
    end = time.monotonic() + seconds
    return itertools.takewhile(lambda _: time.monotonic() < end, seeds)


def run_all(
    options: argparse.Namespace, run: Callable[[int], Outcome], outcomes: dict[int, Outcome]
) -> None:
    """Runs the programs of seeds in processes, prints finds, and fills ``outcomes``.

    What ran until an interrupt or a termination counts.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    with contextlib.suppress(KeyboardInterrupt):
        _run(_until(seeds_of(options), options.seconds), options.jobs, run, outcomes)


def _run(
    todo: Iterator[int], jobs: int, run: Callable[[int], Outcome], outcomes: dict[int, Outcome]
) -> None:
    workers = [Worker(run) for _ in range(jobs)]
    busy = []
    for worker in workers:
        if (seed := next(todo, None)) is not None:
            worker.give(seed)
            busy.append(worker)
    while busy:
        multiprocessing.connection.wait([w.connection for w in busy], timeout=1)
        for worker in list(busy):
            outcome = worker.take()
            if outcome is None or worker.seed is None:
                continue
            outcomes[worker.seed] = outcome
            if outcome.is_find:
                print(f"seed {worker.seed}: {outcome.kind}: {outcome.cause}", flush=True)
            if len(outcomes) % 1000 == 0:
                print(f"{len(outcomes)} programs ran", flush=True)
            if (seed := next(todo, None)) is None:
                busy.remove(worker)
            else:
                worker.give(seed)
    for worker in workers:
        worker.connection.close()


def print_summary(outcomes: dict[int, Outcome]) -> None:
    """One line with the number of each kind, then each cause with some of its seeds."""
    kinds = collections.Counter(o.kind for o in outcomes.values())
    print(", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    causes = collections.defaultdict(list)
    for seed, outcome in sorted(outcomes.items()):
        if outcome.kind != "right":
            causes[outcome.kind, outcome.cause].append(seed)
    for (kind, cause), seeds in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds):6}  {kind:9} {cause}\n        seeds {seeds[:6]}")
