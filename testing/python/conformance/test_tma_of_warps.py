"""``T.tma_copy`` whose tile depends on the warp: one thread of each warp asks for its own."""

from __future__ import annotations

import pytest
import torch
from conformance.running import close, normal, poison

import tilelang
import tilelang.language as T
from tilelang import errors

TARGETS = ["sm_90a", "sm_100a", "sm_120a"]


def sums_of_rows(rows: int, columns: int, warps: int, dtype: str):
    """Each warp loads a row and adds it up; a row has a barrier of its own."""

    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((rows,), "float32")):
        with T.Kernel(T.ceildiv(rows, warps), threads=32 * warps) as bx:
            t = T.get_thread_binding()
            warp = t // 32
            tile = T.alloc_shared((warps, columns), dtype)
            loaded = T.alloc_barrier([32] * warps)
            row = bx * warps + warp
            T.tma_copy(
                A[row, 0:columns], tile[warp, :], barrier=loaded[warp], leader_scope_threads=32
            )
            T.mbarrier_arrive(loaded[warp])
            T.mbarrier_wait_parity(loaded[warp], 0)
            total = T.alloc_var("float32", 0)
            for i in T.serial(columns // 32):
                total += T.cast(tile[warp, i * 32 + t % 32], "float32")
            total = T.warp_reduce_sum(total)
            if t % 32 == 0 and row < rows:
                B[row] = total

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "columns", "warps", "dtype"),
    [(32, 256, 8, "float32"), (13, 64, 4, "float16"), (5, 1024, 2, "bfloat16")],
)
def test_a_row_for_each_warp(rows: int, columns: int, warps: int, dtype: str, target: str) -> None:
    kernel = tilelang.compile(sums_of_rows(rows, columns, warps, dtype), target=target)
    assert "cp.async.bulk" in kernel.get_ptx()
    a, b = normal(rows, columns, dtype=dtype), poison(rows)
    kernel(a, b)
    close(b, a.double().sum(1), 1e-4)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_slots_of_each_warp_in_turn(target: str) -> None:
    """Two slots a warp, which each warp fills again when all of its lanes have read them."""
    steps, warps, columns = 5, 4, 64

    @T.prim_func
    def main(
        A: T.Tensor((steps * warps, columns), "float32"),
        B: T.Tensor((steps * warps, columns), "float32"),
    ):
        with T.Kernel(1, threads=32 * warps):
            t = T.get_thread_binding()
            warp, lane = t // 32, t % 32
            tile = T.alloc_shared((2 * warps, columns), "float32")
            loaded = T.alloc_barrier([32] * (2 * warps))
            for k in T.serial(steps):
                slot = 2 * warp + k % 2
                T.tma_copy(A[k * warps + warp, :], tile[slot, :], barrier=loaded[slot])
                T.mbarrier_arrive(loaded[slot])
                T.mbarrier_wait_parity(loaded[slot], k // 2 % 2)
                for i in T.serial(columns // 32):
                    B[k * warps + warp, i * 32 + lane] = tile[slot, i * 32 + lane] * 2
                T.sync_warp()

    kernel = tilelang.compile(main, target=target)
    a, b = normal(steps * warps, columns), poison(steps * warps, columns)
    kernel(a, b)
    assert torch.equal(b, a * 2)


def test_tiles_of_single_threads_are_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            tile = T.alloc_shared((128, 64), "float32")
            loaded = T.alloc_barrier(128)
            T.tma_copy(A[t, :], tile[t, :], barrier=loaded)
            T.mbarrier_arrive(loaded)
            T.mbarrier_wait_parity(loaded, 0)

    with pytest.raises(errors.LayoutError, match="may differ between threads of a warp"):
        tilelang.compile(main, target="sm_100a")
