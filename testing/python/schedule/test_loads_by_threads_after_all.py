"""Loads of a role that threads do after all, because TMA does not fit the layout of a tile."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

COLUMNS = 80  # of a tile: no whole swizzles
#: Other tiles have COLUMNS that TMA loads.
AS_WRITTEN = {"tl.disable_tile_choice": True}


def program(order: str):
    """C = A B of float32, of which tf32 tiles that lie along M or N have no layout for TMA."""
    M, N, K = (T.dynamic(name) for name in "MNK")
    ta, tb = (each == "T" for each in order)

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if ta else (M, K), "float32"),
        B: T.Tensor((N, K) if tb else (K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, COLUMNS), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((32, 64) if ta else (64, 32), "float32")
            b = T.alloc_shared((COLUMNS, 32) if tb else (32, COLUMNS), "float32")
            c = T.alloc_fragment((64, COLUMNS), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                if ta:
                    T.copy(A[k * 32, by * 64], a)
                else:
                    T.copy(A[by * 64, k * 32], a)
                if tb:
                    T.copy(B[bx * COLUMNS, k * 32], b)
                else:
                    T.copy(B[k * 32, bx * COLUMNS], b)
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
            T.copy(c, C[by * 64, bx * COLUMNS])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("order", ["NN", "TN", "TT"])
def test_the_consumers_are_told(target, order):
    kernel = tilelang.compile(program(order), target=target, pass_configs=AS_WRITTEN)
    torch.manual_seed(0)
    for m, n, k in [(1, 8, 24), (130, 72, 200), (65, 132, 68)]:
        a, b = (torch.randint(-4, 5, shape).float() for shape in ((m, k), (k, n)))
        stored = [x.T.contiguous() if t == "T" else x for x, t in zip((a, b), order, strict=True)]
        c = torch.full((m, n), torch.nan)
        kernel(*stored, c)
        assert torch.equal(c, a @ b)


def test_threads_load_tiles_that_lie_along_n():
    kernel = tilelang.compile(program("NN"), target="sm_100a", pass_configs=AS_WRITTEN)
    assert any("is done by threads after all" in remark.message for remark in kernel.remarks)
