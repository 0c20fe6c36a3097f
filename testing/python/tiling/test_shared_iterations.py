"""GEMMs of which no blocks share the iterations: one block's sums or tiles differ from a part's."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

M, N, K, DEPTH = 64, 64, 512, 64


def gemm(kind):
    """C = A B, and what ``kind`` adds before the loop or reads of its last tiles."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, N), T.ceildiv(M, M), threads=128) as (bx, by):
            a = T.alloc_shared((M, DEPTH), "float16")
            b = T.alloc_shared((DEPTH, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.clear(c)
            if kind == "bias":
                for i, j in T.Parallel(M, N):
                    c[i, j] = bias[bx * N + j]
            elif kind == "more bias":
                for i, j in T.Parallel(M, N):
                    c[i, j] += bias[bx * N + j]
            for step in T.Pipelined(K // DEPTH, num_stages=2):
                T.copy(A[by * M, step * DEPTH], a)
                T.copy(B[step * DEPTH, bx * N], b)
                T.gemm(a, b, c)
            if kind == "last of A":
                for i, j in T.Parallel(M, N):
                    c[i, j] += a[i, 0]
            elif kind == "last of B":
                for i, j in T.Parallel(M, N):
                    c[i, j] += b[0, j]
            T.copy(c, C[by * M, bx * N])

    return main


def expected(kind, a, b, bias):
    added = {
        "nothing": 0,
        "bias": bias,
        "more bias": bias,
        "last of A": a[:, K - DEPTH, None],
        "last of B": b[K - DEPTH],
    }
    return a @ b + added[kind]


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("kind", ["nothing", "bias", "more bias", "last of A", "last of B"])
def test_sums_and_last_tiles(kind, target):
    """Only sums that are zero before the loop, and tiles of the loop alone, are shared."""
    kernel = tilelang.compile(gemm(kind), target=target, pass_configs={"tl.tile_parts": 2})
    shared = any("share the iterations" in remark.message for remark in kernel.remarks)
    assert shared == (kind == "nothing")
    a, b = torch.randint(-2, 3, (M, K)).float(), torch.randint(-2, 3, (K, N)).float()
    bias, c = torch.randint(-9, 10, (N,)).float(), torch.full((M, N), torch.nan)
    kernel(a.half(), b.half(), bias, c)
    torch.testing.assert_close(c, expected(kind, a, b, bias), rtol=0, atol=0)
