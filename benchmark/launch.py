"""What a warm call costs the host: microseconds, the least of seven series.

    python benchmark/launch.py [--json FOLDER]

With a GPU the kernels are launched there, and the queue is emptied after each series. Without one
the grids are empty, so that the launch itself, but nothing else, is left out.

Targets: an eager function below 10 us.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import result_files
import torch

import tilelang
import tilelang.language as T

CALLS = 2000
SERIES = 7


@tilelang.jit
def add(A, B, block=128, dtype=T.float32):
    """A + B, with the output allocated."""
    M = T.dynamic("M")
    N = T.const("N")
    A: T.Tensor((M, N), dtype)
    B: T.Tensor((M, N), dtype)
    C = T.empty((M, N), dtype)
    with T.Kernel(M, threads=block) as row:
        for j in T.Parallel(N):
            C[row, j] = A[row, j] + B[row, j]
    return C


@tilelang.jit
def add_to(A, B, C, block=128, dtype=T.float32):
    """C = A + B, with the output passed."""
    M = T.dynamic("M")
    N = T.const("N")
    A: T.Tensor((M, N), dtype)
    B: T.Tensor((M, N), dtype)
    C: T.Tensor((M, N), dtype)
    with T.Kernel(M, threads=block) as row:
        for j in T.Parallel(N):
            C[row, j] = A[row, j] + B[row, j]


def microseconds(call: Callable[[], Any]) -> float:
    """Returns the least time of a call over some series."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else (lambda: None)
    best = float("inf")
    call()
    for _ in range(SERIES):
        wait()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - start) / CALLS)
    wait()
    return best * 1e6


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    result_files.add_option(parser)
    options = parser.parse_args()
    rows, device = (8, "cuda") if torch.cuda.is_available() else (0, "cpu")
    a, b, c = (torch.zeros(rows, 128, device=device) for _ in range(3))
    add_kernel, add_to_kernel = add.compile(a, b), add_to.compile(a, b, c)
    calls: dict[str, Callable[[], Any]] = {
        "eager, output passed": lambda: add_to(a, b, c),
        "eager, output allocated": lambda: add(a, b),
        "eager, by keywords": lambda: add(A=a, B=b, block=128),
        "kernel, output passed": lambda: add_to_kernel(a, b, c),
        "kernel, output allocated": lambda: add_kernel(a, b),
        "torch.add": lambda: torch.add(a, b),
        "torch.add(out=)": lambda: torch.add(a, b, out=c),
    }
    times = {}
    for name, call in calls.items():
        times[name] = microseconds(call)
        print(f"{name:<28}{times[name]:>8.1f} us")
    outputs = ("output passed", "output allocated")
    table = result_files.Table("launch", ("", *outputs))
    for title, name in (("eager function", "eager"), ("kernel", "kernel")):
        table.add(title, *(f"{times[f'{name}, {output}']:.1f}" for output in outputs))
    table.save(options.json)


if __name__ == "__main__":
    main()
