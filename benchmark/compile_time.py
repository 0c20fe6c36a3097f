"""How long importing and compiling take: medians of five, without any cache.

    python benchmark/compile_time.py [--target sm_90a] [--kernels softmax]

Targets: import below 0.3 s, Python to CUDA C++ below 30 ms, CUDA C++ to machine code below 0.25 s.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import row_kernels

from tilelang import target as targets
from tilelang.jit.lower import lower
from tilelang.runtime import nvrtc

RUNS = 5


def median_ms(action: Callable[[], Any]) -> float:
    """Returns the median milliseconds of some runs."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def cold_import_ms() -> float:
    """Returns what importing tilelang costs a new process, beyond starting Python."""

    def run(code: str) -> float:
        return median_ms(lambda: subprocess.run([sys.executable, "-c", code], check=True))

    return run("import tilelang") - run("pass")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--kernels", nargs="*", default=list(row_kernels.KERNELS))
    options = parser.parse_args()
    target = targets.resolve(options.target)
    print(f"{'import tilelang':<24}{cold_import_ms():>10.0f} ms")
    print(f"{'kernel':<24}{'to CUDA':>10}{'to cubin':>10}  (ms)")
    for name in options.kernels:
        build = row_kernels.KERNELS[name].get_tir
        lowered = lower(build(8192, 4096), target, {})
        to_cuda = median_ms(lambda build=build: lower(build(8192, 4096), target, {}))
        to_cubin = median_ms(
            lambda lowered=lowered: nvrtc.compile_cuda(
                lowered.lined_source, str(target), lowered.options
            )
        )
        print(f"{name:<24}{to_cuda:>10.1f}{to_cubin:>10.1f}")


if __name__ == "__main__":
    main()
