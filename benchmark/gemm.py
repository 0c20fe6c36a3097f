"""Gemms beside cuBLAS and Triton: C (M, N) = A (M, K) B^T, B (N, K), bfloat16, float32 sums.

    python benchmark/gemm.py [--shapes 4096,4096,4096 8192,8192,8192]

Normal random data, the L2 cache flushed before each run, the GPU warmed for two seconds before
anything is measured (a cold chip is faster for some milliseconds than it can be for long). Prints
TFLOP/s of the median run, and its ratio to cuBLAS in the same process. Results are checked against
float64 first.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable

import torch
from gemm_kernels import persistent_gemm, tiled_gemm

from tilelang.profiler import do_bench

WARM_SECONDS = 2.0
SHAPES = [
    "2048,2048,2048",
    "4096,4096,4096",
    "8192,8192,8192",
    "64,4096,4096",
    "128,4096,4096",
    "256,4096,4096",
    "512,4096,4096",
]


def configurations(M: int, N: int) -> list[Callable[[int, int, int], object]]:
    """The schedules to choose from, as Triton's autotuner does: tiles, stages, one tile or more."""
    small = [
        (64, 32, 128, 12),
        (64, 64, 128, 10),
        (64, 128, 128, 8),
        (128, 128, 256, 6),
        (128, 256, 256, 3),
    ]
    large = [(128, 128, 256, 6), (128, 256, 256, 3)]
    few = M * N <= 132 * 128 * 256
    chosen = [
        functools.partial(tiled_gemm, m=m, n=n, threads=threads, stages=stages)
        for m, n, threads, stages in (small if few else large)
    ]
    if not few:
        chosen.append(functools.partial(persistent_gemm, m=128, n=256, threads=256, stages=3))
    return chosen


def best(M: int, N: int, K: int, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple:
    """The fastest kernel, and what it is."""
    timed = []
    for configuration in configurations(M, N):
        kernel = configuration(M, N, K)
        run = functools.partial(kernel, a, b, c)
        given = ", ".join(f"{name}={value}" for name, value in configuration.keywords.items())
        timed.append(
            (
                do_bench(run, rep=100, return_mode="median"),
                f"{configuration.func.__name__}({given})",
                run,
            )
        )
    _, name, run = min(timed, key=lambda item: item[0])
    return name, run


def triton_gemm() -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None] | None:
    """Returns the peer of Triton's tutorials' kind, autotuned; None where there is no Triton."""
    try:
        import gemm_triton
    except ImportError:
        return None
    return gemm_triton.matmul


def warm_up(a: torch.Tensor, b: torch.Tensor) -> None:
    """Keeps the GPU busy until its clock is that of long runs."""
    end = time.monotonic() + WARM_SECONDS
    while time.monotonic() < end:
        for _ in range(20):
            a @ b.T
        torch.cuda.synchronize()


def tflops(run: Callable[[], object], flops: int) -> float:
    """Returns the speed of the median run."""
    return flops / (do_bench(run, return_mode="median") * 1e-3) / 1e12


def measure(M: int, N: int, K: int) -> None:
    """Prints the line of one shape."""
    a = torch.randn(M, K, device="cuda").bfloat16()
    b = torch.randn(N, K, device="cuda").bfloat16()
    c = torch.full((M, N), float("nan"), device="cuda").bfloat16()
    warm_up(a, b)
    name, ours = best(M, N, K, a, b, c)
    runs = {"cuBLAS": lambda: torch.mm(a, b.T, out=c), "tilelang": ours}
    triton = triton_gemm()
    if triton is not None:
        runs["Triton"] = lambda: triton(a, b, c)
    want = a[:256].double() @ b.double().T
    for run in runs.values():
        c.fill_(float("nan"))
        run()
        torch.testing.assert_close(c[:256].double(), want, rtol=2e-2, atol=0.1)
    warm_up(a, b)
    speeds = {name: tflops(run, 2 * M * N * K) for name, run in runs.items()}
    line = "  ".join(f"{n} {s:6.0f} ({s / speeds['cuBLAS']:.2f})" for n, s in speeds.items())
    print(f"{M} x {N} x {K}:  {line}   {name}")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="*", default=SHAPES)
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, bfloat16, TFLOP/s (x cuBLAS)")
    for shape in options.shapes:
        measure(*map(int, shape.split(",")))


if __name__ == "__main__":
    main()
