"""Persistent gemms whose epilogues load tiles of their own: the accumulator goes back in time."""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import compile_sm100

import tilelang.language as T

M, N, K = 256, 256, 128
BM, BN, BK, SLICE = 128, 128, 64, 64
BLOCKS = 2


def with_residual(source: str):
    """D = A B' + R by slices of columns; R comes by T.copy or is read by T.Parallel."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        R: T.Tensor((M, N), "bfloat16"),
        D: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(BLOCKS, threads=128) as block:
            a, b = T.alloc_shared((BM, BK), "bfloat16"), T.alloc_shared((BN, BK), "bfloat16")
            c, e = T.alloc_tmem((BM, BN), "float32"), T.alloc_fragment((BM, SLICE), "float32")
            r, d = T.alloc_shared((BM, SLICE), "bfloat16"), T.alloc_shared((BM, SLICE), "float32")
            for by, bx in T.Persistent((M // BM, N // BN), BLOCKS, block):
                for k in T.Pipelined(K // BK, num_stages=2):
                    T.copy(A[by * BM, k * BK], a)
                    T.copy(B[bx * BN, k * BK], b)
                    T.gemm(a, b, c, transpose_B=True, clear_accum=(k == 0))
                for p in T.unroll(BN // SLICE):
                    if source == "tile":
                        T.copy(R[by * BM, bx * BN + p * SLICE], r)
                    T.copy(c[0:BM, p * SLICE : (p + 1) * SLICE], e)
                    for i, j in T.Parallel(BM, SLICE):
                        if source == "tile":
                            e[i, j] += r[i, j]
                        else:
                            e[i, j] += R[by * BM + i, bx * BN + p * SLICE + j]
                    T.copy(e, d)
                    T.copy(d, D[by * BM, bx * BN + p * SLICE])

    return kernel


@pytest.mark.every_schedule
@pytest.mark.parametrize("source", ["tile", "tensor"])
def test_residuals(source: str) -> None:
    kernel = compile_sm100(with_residual(source))
    a, b, r = (torch.randn(rows, n).bfloat16() for rows, n in ((M, K), (N, K), (M, N)))
    d = torch.full((M, N), float("nan"))
    kernel(a, b, r, d)
    expected = a.double() @ b.double().T + r.double()
    torch.testing.assert_close(d.double(), expected, rtol=1e-4, atol=1e-3)
