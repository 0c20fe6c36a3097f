"""Gemms beside cuBLAS and Triton: C (M, N) = A (M, K) B^T, B (N, K), bfloat16, float32 sums.

    python benchmark/gemm.py [--shapes 4096,4096,4096 8192,8192,8192]

Normal random data, the L2 cache flushed before each run, the GPU warmed for two seconds before
anything is measured (a cold chip is faster for some milliseconds than it can be for long). Prints
TFLOP/s of the median run, and its ratio to cuBLAS in the same process. Results are checked against
float64 first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

import tilelang
import tilelang.language as T
from tilelang.profiler import do_bench

WARM_SECONDS = 2.0


@tilelang.jit
def tiled_gemm(M, N, K, m=128, n=128, k=64, threads=256):
    """One tile of C a block, from plain tile operators."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=threads) as (bx, by):
            a = T.alloc_shared((m, k), "bfloat16")
            b = T.alloc_shared((n, k), "bfloat16")
            c = T.alloc_fragment((m, n), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(K, k), num_stages=2):
                T.copy(A[by * m, i * k], a)
                T.copy(B[bx * n, i * k], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * m, bx * n])

    return main


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
    kernel = tiled_gemm(M, N, K)
    runs = {"cuBLAS": lambda: torch.mm(a, b.T, out=c), "tilelang": lambda: kernel(a, b, c)}
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
    print(f"{M} x {N} x {K}:  {line}")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="*", default=["2048,2048,2048", "4096,4096,4096"])
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, bfloat16, TFLOP/s (x cuBLAS)")
    for shape in options.shapes:
        measure(*map(int, shape.split(",")))


if __name__ == "__main__":
    main()
