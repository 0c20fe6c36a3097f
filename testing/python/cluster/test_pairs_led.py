"""GEMMs of pairs by hand that both blocks reach: the even one issues them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T

ROWS, COLUMNS, DEPTH = 128, 64, 64


def product(issue: Any, size: int = 2, blocks: int = 4) -> Any:
    """C = A @ B^T of pairs; ``issue(rank, go, gemm)`` calls ``gemm()`` somewhere."""

    @T.prim_func
    def main(
        A: T.Tensor((blocks * ROWS, DEPTH), "bfloat16"),
        B: T.Tensor((blocks * COLUMNS // 2, DEPTH), "bfloat16"),
        C: T.Tensor((blocks * ROWS, COLUMNS), "float32"),
        go: T.int32,
    ):
        with T.Kernel(blocks, threads=128, cluster_dims=size) as block:
            rank = T.block_rank_in_cluster()
            a = T.alloc_shared((ROWS, DEPTH), "bfloat16")
            b = T.alloc_shared((COLUMNS // 2, DEPTH), "bfloat16")
            c = T.alloc_tmem((ROWS, COLUMNS), "float32")
            out = T.alloc_fragment((ROWS, COLUMNS), "float32")
            done = T.alloc_cluster_barrier(1)
            T.copy(A[block * ROWS, 0], a)
            T.copy(B[block * COLUMNS // 2, 0], b)
            T.cluster_sync()
            issue(
                rank,
                go,
                lambda: T.tcgen05_gemm(
                    a, b, c, transpose_B=True, clear_accum=True, mbar=done, use_2cta=True
                ),
            )
            T.mbarrier_wait_parity(done, 0)
            T.copy(c, out)
            T.copy(out, C[block * ROWS, 0])

    return main


@T.macro
def everywhere(rank, go, gemm):
    gemm()


@T.macro
def by_a_warp(rank, go, gemm):
    if T.get_thread_binding() < 32:
        gemm()


@T.macro
def by_an_argument(rank, go, gemm):
    if go == 1:
        gemm()


@T.macro
def by_the_even_block(rank, go, gemm):
    if rank % 2 == 0:
        gemm()


@pytest.mark.every_schedule
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("issue", [everywhere, by_a_warp, by_an_argument, by_the_even_block])
def test_both_blocks_get_the_result(issue: Any, size: int) -> None:
    kernel = tilelang.compile(product(issue, size), target="sm_100a")
    a = torch.randint(-4, 5, (4 * ROWS, DEPTH)).bfloat16()
    b = torch.randint(-4, 5, (2 * COLUMNS, DEPTH)).bfloat16()
    c = torch.full((4 * ROWS, COLUMNS), float("nan"))
    kernel(a, b, c, 1)
    pairs = zip(a.float().chunk(2), b.float().chunk(2), strict=True)
    assert torch.equal(c, torch.cat([x @ y.T for x, y in pairs]))
