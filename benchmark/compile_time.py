"""How long importing and compiling take: medians of five, without any cache.

    python benchmark/compile_time.py [--kernels softmax gemm_ts]

Targets: import below 0.3 s; Python to CUDA C++ below 30 ms, 15 ms of a GEMM; CUDA C++ to machine
code below 0.25 s, but for attention, of which ptxas alone takes longer.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import row_kernels
from gemm_kernels import tiled_gemm

from tilelang import target as targets
from tilelang.jit.lower import lower
from tilelang.runtime import nvrtc

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "gemm_sm100"))
sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "flash_attention"))

from attention_forward import Shape, attention, default_tiles
from gemm_chained import gemm_chained
from gemm_persistent import gemm_persistent
from gemm_tcgen5mma_ts import gemm_ts

RUNS = 5
TYPES = ("bfloat16", "bfloat16", "float32")
#: batch, queries, keys, heads, key heads, dimensions
SHAPE = Shape(1, 4096, 4096, 16, 16, 128, 128)


def fmha(target: str, causal: bool = False) -> Any:
    """Returns attention forward with the tiles of a target."""
    return attention(SHAPE, causal=causal, **default_tiles(target, SHAPE.dim))


KERNELS: dict[str, tuple[str, Callable[[], Any]]] = {
    **{
        name: ("sm_90a", functools.partial(kernel.get_tir, 8192, 4096))
        for name, kernel in row_kernels.KERNELS.items()
    },
    "gemm_ts": ("sm_100a", functools.partial(gemm_ts, 4096, 4096, 4096, 128, 128, 64, *TYPES)),
    "gemm_chained": ("sm_100a", functools.partial(gemm_chained, 4096, 128, 128, 128, 128, *TYPES)),
    "gemm_sm_80": ("sm_80", functools.partial(tiled_gemm.get_tir, 4096, 4096, 4096, n=128, k=32)),
    "gemm_sm_90a": ("sm_90a", functools.partial(tiled_gemm.get_tir, 4096, 4096, 4096)),
    "gemm_sm_100a": (
        "sm_100a",
        functools.partial(gemm_persistent, 4096, 4096, 4096, 128, 128, 64, *TYPES),
    ),
    "attention_sm_90a": ("sm_90a", functools.partial(fmha, "sm_90a")),
    "attention_sm_100a": ("sm_100a", functools.partial(fmha, "sm_100a")),
    "causal_sm_90a": ("sm_90a", functools.partial(fmha, "sm_90a", True)),
    "causal_sm_100a": ("sm_100a", functools.partial(fmha, "sm_100a", True)),
}


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
    parser.add_argument("--target", help="instead of each kernel's own")
    parser.add_argument("--kernels", nargs="*", default=list(KERNELS))
    options = parser.parse_args()
    print(f"{'import tilelang':<24}{cold_import_ms():>10.0f} ms")
    print(f"{'kernel':<24}{'to CUDA':>10}{'to cubin':>10}  (ms)")
    for name in options.kernels:
        arch, build = KERNELS[name]
        target = targets.resolve(options.target or arch)
        lowered = lower(build(), target, {})
        to_cuda = median_ms(lambda build=build, target=target: lower(build(), target, {}))
        to_cubin = median_ms(
            lambda lowered=lowered, target=target: nvrtc.compile_cuda(
                lowered.lined_source, str(target), lowered.options
            )
        )
        print(f"{name:<24}{to_cuda:>10.1f}{to_cubin:>10.1f}")


if __name__ == "__main__":
    main()
