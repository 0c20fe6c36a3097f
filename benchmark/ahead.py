"""Compiles kernels on all cores, so that benchmarks find machine code in the disk cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def compile_ahead(build: Callable[[Any], object], jobs: Sequence[Any]) -> None:
    """Calls ``build`` with each job in processes of their own; before this one uses the GPU.

    ``build`` is a function of a module. What does not compile says so when it is asked for again.
    """
    with ProcessPoolExecutor() as pool:
        for future in [pool.submit(build, job) for job in jobs]:
            future.exception()
