"""Programs whose warps have roles: schedulers that roles share, votes, tiles that share memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

TARGETS = ["sm_90a", "sm_100a"]


def scheduled(own: bool) -> Any:
    """C = A, by a role that loads and one that stores; ``own``: each has a scheduler."""

    @T.prim_func
    def main(A: T.Tensor((512, 64), "float16"), C: T.Tensor((512, 64), "float16"), go: T.int32):
        with T.Kernel(3, threads=256) as b:
            a = T.alloc_shared((2, 64, 64), "float16")
            full, empty = T.alloc_barrier([32] * 2), T.alloc_barrier([128] * 2)
            tx = T.get_thread_binding()
            if not own:
                sched = T.PersistentTileScheduler(8, 1, swizzle_size=4)
                sched.init(b)
            if tx < 32:
                if own:
                    sched = T.PersistentTileScheduler(8, 1)
                    sched.init(b)
                while sched.valid():
                    bx, i = sched.m_idx, sched.current_iter
                    T.mbarrier_wait_parity(empty[i % 2], ((i // 2) & 1) ^ 1)
                    T.tma_copy(A[bx * 64, 0], a[i % 2, :, :], barrier=full[i % 2])
                    T.mbarrier_arrive(full[i % 2])
                    sched.next_tile()
            elif tx < 64 and go == 7:
                T.sync_warp()
            elif tx >= 128:
                if own:
                    sched = T.PersistentTileScheduler(8, 1)
                    sched.init(b)
                while sched.valid():
                    bx, i = sched.m_idx, sched.current_iter
                    T.mbarrier_wait_parity(full[i % 2], (i // 2) & 1)
                    for x, y in T.Parallel(64, 64):
                        C[bx * 64 + x, y] = a[i % 2, x, y]
                    T.mbarrier_arrive(empty[i % 2])
                    sched.next_tile()

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("own", [False, True])
def test_schedulers(own: bool, target: str) -> None:
    kernel = tilelang.compile(scheduled(own), target=target)
    a, c = torch.randn(512, 64).half(), torch.zeros(512, 64).half()
    kernel(a, c, 0)
    assert torch.equal(a, c)


def test_loops_of_each_thread_are_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((512, 64), "float16"), C: T.Tensor((512, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            i = T.alloc_var("int32", init=0)
            while i < 4:
                T.copy(A[0, 0], a)
                T.copy(a, C[0, 0])
                i += T.get_thread_binding() // 127 + 1

    with pytest.raises(errors.SemanticsError, match="different number of times"):
        tilelang.compile(main, target="sm_90a")


def wide_gemm(early: bool) -> Any:
    """C = A @ B by roles; stages and the tile of results fit shared memory only if they share it.
    ``early``: the epilogue writes before the GEMMs are complete, so that they cannot share."""
    m, n, k, stages = 128, 256, 64, 4

    @T.prim_func
    def main(
        A: T.Tensor((m, 512), "bfloat16"),
        B: T.Tensor((512, n), "bfloat16"),
        C: T.Tensor((m, n), "bfloat16"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((stages, m, k), "bfloat16")
            b = T.alloc_shared((stages, k, n), "bfloat16")
            result = T.alloc_shared((m, n), "bfloat16")
            c = T.alloc_tmem((m, n), "float32")
            out = T.alloc_fragment((m, n), "float32")
            loaded = T.alloc_barrier([32] * stages)
            consumed = T.alloc_barrier([1] * stages)
            done = T.alloc_barrier(1)
            tx = T.get_thread_binding()
            if tx < 32:
                for i in T.serial(8):
                    s = i % stages
                    T.mbarrier_wait_parity(consumed[s], ((i // stages) & 1) ^ 1)
                    T.tma_copy(A[0, i * k], a[s, :, :], barrier=loaded[s])
                    T.tma_copy(B[i * k, 0], b[s, :, :], barrier=loaded[s])
                    T.mbarrier_arrive(loaded[s])
            elif tx < 64:
                for i in T.serial(8):
                    s = i % stages
                    T.mbarrier_wait_parity(loaded[s], (i // stages) & 1)
                    T.tcgen05_gemm(a[s, :, :], b[s, :, :], c, mbar=consumed[s], clear_accum=i == 0)
                T.tcgen05_mma_arrive(done)
            if early:
                T.fill(result, 3)
            T.mbarrier_wait_parity(done, 0)
            T.copy(c, out)
            if not early:
                T.copy(out, result)
                T.copy(result, C)
            else:
                T.copy(result, C)

    return main


@pytest.mark.every_schedule
def test_results_take_the_bytes_of_the_stages() -> None:
    kernel = tilelang.compile(wide_gemm(early=False), target="sm_100a")
    a, b = torch.randint(-3, 4, (128, 512)).bfloat16(), torch.randint(-1, 2, (512, 256)).bfloat16()
    c = torch.full((128, 256), float("nan")).bfloat16()
    kernel(a, b, c)
    assert torch.equal(c, (a.float() @ b.float()).bfloat16())


def test_bytes_that_are_still_read_are_not_shared() -> None:
    with pytest.raises(errors.ResourceError, match="bytes of shared memory"):
        tilelang.compile(wide_gemm(early=True), target="sm_100a")


def scaled_by_warps(vote: Any, in_tmem: bool) -> Any:
    """Doubles the rows of a warp if one of their first elements is below 1."""

    @T.prim_func
    def main(A: T.Tensor((128, 64), "float32"), B: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            tid = T.get_thread_binding()
            x = T.alloc_fragment((128, 64), "float32")
            t = T.alloc_tmem((128, 64), "float32") if in_tmem else None
            first = T.alloc_shared((128,), "float32")
            T.copy(A, x)
            if in_tmem:
                T.copy(x, t)
            else:
                T.annotate_layout({x: T.Fragment((128, 64), lambda i, j: (i, j))})
            first[tid] = A[tid, 0]
            go = vote(first[tid] < 1.0)
            if go != 0:
                if in_tmem:
                    T.copy(t, x)
                for i, j in T.Parallel(128, 64):
                    x[i, j] *= 2.0
                if in_tmem:
                    T.copy(x, t)
            if in_tmem:
                T.copy(t, x)
            T.copy(x, B)

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("vote", [T.any_sync, T.all_sync], ids=["any", "all"])
@pytest.mark.parametrize(
    ("in_tmem", "target"), [(True, "sm_100a"), (False, "sm_100a"), (False, "sm_80")]
)
def test_warps_decide_by_their_votes(vote: Any, in_tmem: bool, target: str) -> None:
    kernel = tilelang.compile(scaled_by_warps(vote, in_tmem), target=target)
    a = torch.rand(128, 64) + 1
    a[:32, 0] -= 1  # all rows of the first warp, and one row of the third
    a[70, 0] -= 1
    b = torch.full((128, 64), float("nan"))
    kernel(a, b)
    holds = (a[:, 0] < 1).reshape(4, 32)
    warps = holds.any(1) if vote is T.any_sync else holds.all(1)
    assert torch.equal(b, a * (1 + warps.repeat_interleave(32).float())[:, None])


def test_a_vote_over_elements_of_several_warps_is_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((64,), "float32")
            T.annotate_layout({x: T.Fragment((64,), lambda i, r: (i + 64 * r, 0), replicate=2)})
            T.copy(A, x)
            if T.any_sync(A[T.get_thread_binding() // 2] < 1.0):
                T.fill(x, 3.0)
            T.copy(x, B)

    with pytest.raises(errors.LayoutError, match="several warps hold the same elements"):
        tilelang.compile(main, target="sm_90a")


def test_a_vote_over_shared_tiles_is_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((64,), "float32")
            if T.any_sync(A[T.get_thread_binding()] < 1.0):
                T.copy(A, x)
            T.copy(x, B)

    with pytest.raises(errors.SemanticsError, match="decided at run time"):
        tilelang.compile(main, target="sm_90a")


@pytest.mark.every_schedule
def test_copies_by_hand_before_wgmma() -> None:
    """What threads stored, or copied by cp.async, is fenced before wgmma reads it."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "bfloat16"),
        B: T.Tensor((64, 64), "bfloat16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            a, b = (T.alloc_shared((64, 64), "bfloat16") for _ in range(2))
            c = T.alloc_fragment((64, 64), "float32")
            ready = T.alloc_barrier(arrive_count=128)
            T.copy(A, a)
            if tx < 128:
                T.fill(c, 0)
                T.barrier_wait(ready[0], 0)
                T.gemm(a, b, c, transpose_B=True, wg_wait=-1)
                T.wait_wgmma(0)
                T.copy(c, C)
            else:
                for r in T.serial(4):
                    row, column = r * 16 + (tx - 128) // 8, (tx - 128) % 8 * 8
                    with T.attr("default", "async_scope", 1):
                        for v in T.vectorized(8):
                            b[row, column + v] = B[row, column + v]
                T.cp_async_barrier_noinc(ready[0])

    a, b = (torch.randint(-4, 5, (64, 64)).bfloat16() for _ in range(2))
    c = torch.full((64, 64), float("nan"))
    tilelang.compile(main, target="sm_90a")(a, b, c)
    assert torch.equal(c, a.float() @ b.float().T)


def decided_by(tensor_is_written: bool) -> Any:
    """B[i] = A[i] for the rows that Flags selects, which the kernel may reset."""

    @T.prim_func
    def main(
        A: T.Tensor((4, 64, 32), "float16"),
        Flags: T.Tensor((4,), "int32"),
        B: T.Tensor((4, 64, 32), "float16"),
    ):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((64, 32), "float16")
            if tx < 128:
                for i in T.serial(4):
                    if Flags[i] == i + 1:
                        T.copy(A[i, 0, 0], tile)
                        T.copy(tile, B[i, 0, 0])
                    T.sync_threads(1, 128)
                    if tensor_is_written and tx == 5:
                        Flags[i] = 0

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("written", [False, True])
def test_elements_that_a_kernel_writes_decide(written: bool, target: str) -> None:
    kernel = tilelang.compile(decided_by(written), target=target)
    a, b = torch.randn(4, 64, 32).half(), torch.zeros(4, 64, 32).half()
    flags = torch.tensor([1, 0, 3, 9], dtype=torch.int32)
    kernel(a, flags, b)
    assert torch.equal(b, torch.stack([a[0], b[1] * 0, a[2], b[3] * 0]))
    assert (flags[0] == 0) == written
