"""What `make demo` runs: a GEMM on the emulator, checked and timed; it needs only NumPy."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T

M, N, K = 250, 200, 300
TARGET = "sm_100a"


@T.prim_func
def gemm(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N))):
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=128) as (bx, by):
        a = T.alloc_shared((128, 64), "float16")
        b = T.alloc_shared((64, 128), "float16")
        c = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
            T.copy(A[by * 128, k * 64], a)
            T.copy(B[k * 64, bx * 128], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 128, bx * 128])


def main() -> None:
    """Compiles for a B200, runs on this machine, compares, and predicts the time.

    Raises:
        AssertionError: the result is wrong.
    """
    kernel = tilelang.compile(gemm, target=TARGET)
    random = np.random.default_rng(0)
    a = random.standard_normal((M, K)).astype(np.float16)
    b = random.standard_normal((K, N)).astype(np.float16)
    c = np.full((M, N), np.nan, np.float32)
    kernel(a, b, c)
    error = np.abs(c - a.astype(np.float64) @ b.astype(np.float64)).max()
    print(f"C = A @ B of {M} x {N} x {K} for {TARGET}, on the emulator: error {error:.2g}")
    assert error < 1e-3, "the result is wrong"
    timing = kernel.profile(a, b, c).timing
    print(f"predicted on a {timing.gpu}: {timing.grid_us:.2f} us")
    print("correct")


if __name__ == "__main__":
    main()
