"""Processes that run programs: one that crashes or hangs costs a seed and not the run."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from typing import Any

from fuzz.programs import check, generate

_SECONDS = 120


def _work(connection: Any, size: int, in_pairs: bool) -> None:
    """Answers each seed with what became of its program."""
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(EOFError):
        while True:
            seed = connection.recv()
            program = generate.generate(seed, size, in_pairs)
            connection.send(check.run(program, name=f"seed_{seed}"))


class Worker:
    """A process that runs programs; one that crashes or hangs is replaced."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments
        self.seed: int | None = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, *self._arguments), daemon=True)
        self._process.start()
        other.close()

    def give(self, seed: int) -> None:
        self.seed, self._since = seed, time.monotonic()
        self.connection.send(seed)

    def take(self) -> Any:
        """The outcome of the seed, or None while it runs."""
        try:
            if self.connection.poll():
                return self.connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self._start()
            return check.Outcome("crash", f"exit code {code}")
        if time.monotonic() - self._since > _SECONDS:
            self._process.kill()
            self._start()
            return check.Outcome("hang", f"more than {_SECONDS} s")
        return None
