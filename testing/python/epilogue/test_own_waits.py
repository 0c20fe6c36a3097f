"""Slices of results that a program waits for itself: only where its tiles do not fit otherwise."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T

ROWS, COLUMNS, STEP = 128, 256, 64
TILES = 2  # of each pair of blocks


def pairs(stages: int, depth: int, relu: bool) -> Any:
    """C = A @ B of pairs of blocks with roles; each pair computes its tiles in turn."""
    half = COLUMNS // 2

    @T.prim_func
    def main(
        A: T.Tensor((TILES, 2 * ROWS, depth), "bfloat16"),
        B: T.Tensor((depth, COLUMNS), "bfloat16"),
        C: T.Tensor((TILES, 2 * ROWS, COLUMNS), "bfloat16"),
    ):
        with T.Kernel(2, threads=256, cluster_dims=2) as block:
            a = T.alloc_shared((stages, ROWS, STEP), "bfloat16")
            b = T.alloc_shared((stages, STEP, half), "bfloat16")
            c = T.alloc_tmem((ROWS, COLUMNS), "float32")
            out = T.alloc_fragment((ROWS, COLUMNS), "float32")
            staged = T.alloc_shared((ROWS, COLUMNS), "bfloat16")
            full = T.alloc_cluster_barrier([2 * 32] * stages)
            empty = T.alloc_cluster_barrier([1] * stages)
            done = T.alloc_cluster_barrier(1)
            free = T.alloc_cluster_barrier(2 * 128)
            t, rank = T.get_thread_binding(), T.block_rank_in_cluster()
            if t < 32:
                for n in T.serial(TILES * depth // STEP):
                    s, k = n % stages, n % (depth // STEP) * STEP
                    T.mbarrier_wait_parity(empty[s], n // stages % 2 ^ 1)
                    T.tma_copy(A[n * STEP // depth, block * ROWS, k], a[s, :, :], barrier=full[s])
                    T.tma_copy(B[k, rank * half], b[s, :, :], barrier=full[s])
                    T.mbarrier_arrive(full[s], 0)
            elif t < 64 and rank == 0:
                for tile in T.serial(TILES):
                    T.mbarrier_wait_parity(free, tile % 2 ^ 1)
                    for i in T.serial(depth // STEP):
                        n = tile * (depth // STEP) + i
                        T.mbarrier_wait_parity(full[n % stages], n // stages % 2)
                        T.tcgen05_gemm(
                            a[n % stages, :, :],
                            b[n % stages, :, :],
                            c,
                            mbar=empty[n % stages],
                            clear_accum=i == 0,
                            use_2cta=True,
                        )
                    T.tcgen05_mma_arrive(done, arrive_2cta=True)
            if t >= 128:
                for tile in T.serial(TILES):
                    T.mbarrier_wait_parity(done, tile % 2)
                    T.copy(c, out)
                    if relu:
                        for i, j in T.Parallel(ROWS, COLUMNS):
                            out[i, j] = T.max(out[i, j], 0)
                    T.copy(out, staged)
                    T.copy(staged, C[tile, block * ROWS, 0])
                    T.mbarrier_arrive(free, 0)

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("depth", [STEP, 3 * STEP])
def test_results_of_roles(depth: int, relu: bool) -> None:
    kernel = tilelang.compile(pairs(6, depth, relu), target="sm_100a")
    a = torch.randn(TILES, 2 * ROWS, depth).bfloat16()
    b = torch.randn(depth, COLUMNS).bfloat16()
    c = torch.full((TILES, 2 * ROWS, COLUMNS), float("nan"), dtype=torch.bfloat16)
    kernel(a, b, c)
    expected = a.float() @ b.float()
    expected = expected.relu() if relu else expected
    torch.testing.assert_close(c.float(), expected, rtol=1e-2, atol=1e-2)
