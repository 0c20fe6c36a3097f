"""Loops of a GEMM beside another GEMM: the tiles of both stay those of the program."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


def low_rank_update(size: int, tile: int, rank: int, first: bool, depth: int = 96):
    """C = A B + L R, where L R has one block of ``rank`` and comes before or behind the loop."""

    @T.prim_func
    def main(
        A: T.Tensor((size, depth), "bfloat16"),
        B: T.Tensor((depth, size), "bfloat16"),
        L: T.Tensor((rank, size), "bfloat16"),
        R: T.Tensor((size, rank), "bfloat16"),
        C: T.Tensor((size, size), "float32"),
    ):
        with T.Kernel(size // tile, size // tile, threads=128) as (bx, by):
            a, b = T.alloc_shared((tile, 32), "bfloat16"), T.alloc_shared((32, tile), "bfloat16")
            left = T.alloc_shared((rank, tile), "bfloat16")
            right = T.alloc_shared((tile, rank), "bfloat16")
            c = T.alloc_fragment((tile, tile), "float32")
            T.clear(c)
            T.copy(L[0, by * tile], left)
            T.copy(R[bx * tile, 0], right)
            if first:
                T.gemm(left, right, c, transpose_A=True, transpose_B=True)
            for k in T.Pipelined(depth // 32, num_stages=3):
                T.copy(A[by * tile, k * 32], a)
                T.copy(B[k * 32, bx * tile], b)
                T.gemm(a, b, c)
            if not first:
                T.gemm(left, right, c, transpose_A=True, transpose_B=True)
            T.copy(c, C[by * tile, bx * tile])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(("size", "tile", "rank"), [(64, 64, 40), (256, 128, 16), (64, 32, 8)])
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
def test_results(target, size, tile, rank, first):
    kernel = tilelang.compile(low_rank_update(size, tile, rank, first), target=target)
    a, b, left, right = (
        torch.randint(-4, 5, shape).float()
        for shape in ((size, 96), (96, size), (rank, size), (size, rank))
    )
    c = torch.full((size, size), torch.nan)
    kernel(*(x.bfloat16() for x in (a, b, left, right)), c)
    assert torch.equal(c, a @ b + left.T @ right.T)
