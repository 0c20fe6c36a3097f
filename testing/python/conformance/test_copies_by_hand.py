"""Copies that the program waits for itself: cp.async by groups and by mbarriers, TMA."""

from __future__ import annotations

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import emulator

N = 64


def test_tiles_copied_ahead(target: str) -> None:
    """A ring of three tiles, filled by T.async_copy."""

    @T.prim_func
    def main(A: T.Tensor((8, 32, N), "float16"), B: T.Tensor((8, N, 32), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((3, 32, N), "float16")
            for k in T.serial(2):
                T.async_copy(A[k, 0, 0], S[k, :, :])
            for k in T.serial(8):
                if k + 2 < 8:
                    T.async_copy(A[k + 2, :, :], S[(k + 2) % 3, :, :])
                else:
                    T.ptx_commit_group()
                T.ptx_wait_group(2)
                T.sync_threads()
                for i, j in T.Parallel(N, 32):
                    B[k, i, j] = S[k % 3, j, i] * 2
                T.sync_threads()

    a = normal(8, 32, N, dtype="float16")
    b = run(main, target, a, poison(8, N, 32, dtype="float16"))
    equal(b, a.transpose(1, 2) * 2)


def test_tiles_copied_from_views(target: str) -> None:
    """By T.async_copy: from an address, from a view that is a box of its tensor, from another."""

    @T.prim_func
    def main(
        P: T.Tensor((2,), T.ptr), A: T.Tensor((6, N), "float32"), B: T.Tensor((4, N), "float32")
    ):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((4, N), "float32")
            given = T.make_tensor(P[1], (6, N), "float32")
            flat = T.view(A, (6 * N,))
            T.async_copy(given[2, 0], S[0, :])
            T.async_copy(flat[3 * N : 4 * N], S[1, :])
            T.async_copy(T.view(A, (3, 2 * N))[0:2, N : 2 * N], S[2:4, :])
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(S, B)

    a = normal(6, N)
    given = a.cuda() if target == "cuda" else a
    pointers = torch.tensor([0, given.data_ptr()], dtype=torch.int64)
    with emulator.reachable(*([] if target == "cuda" else [given])):
        b = run(main, target, pointers, a, poison(4, N))
    equal(b, torch.stack([a[2], a[3], a[1], a[3]]))


@pytest.mark.parametrize(("dtype", "count"), [("float16", 8), ("float32", 2), ("int8", 4)])
def test_elements_copied_by_each_thread(dtype: str, count: int, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, count), dtype), B: T.Tensor((N, count), dtype), n: T.int32):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N, count), dtype)
            t = T.get_thread_binding()
            T.ptx_cp_async(
                T.access_ptr(S[t, 0], "w", count), T.access_ptr(A[t, 0], "r", count), count, t < n
            )
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            for i in T.serial(count):
                B[t, i] = S[N - 1 - t, i]

    a = integers(N, count, dtype=dtype)
    b = poison(N, count, dtype=dtype)
    run(main, target, a, b, 50)
    expected = a.clone()
    expected[50:] = 0
    equal(b, expected.flip(0))


def test_the_older_form(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 4), "float32"), B: T.Tensor((N, 4), "float32")):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N, 4), "float32")
            t = T.get_thread_binding()
            T.ptx_cp_async("float32", S.data, t * 4, A.data, (N - 1 - t) * 4, 16)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            for i in T.serial(4):
                B[t, i] = S[t, i]

    a = normal(N, 4)
    equal(run(main, target, a, poison(N, 4)), a.flip(0))


@pytest.mark.parametrize("arrive", [T.cp_async_barrier_noinc, T.ptx_cp_async_barrier])
def test_copies_that_arrive_on_a_barrier(arrive, target: str) -> None:
    """cp_async_barrier_noinc ptx_cp_async_barrier"""

    @T.prim_func
    def main(A: T.Tensor((N, 4), "float32"), B: T.Tensor((N, 4), "float32")):
        with T.Kernel(1, threads=2 * N):
            S = T.alloc_shared((N, 4), "float32")
            ready = T.alloc_barrier(N)
            t = T.get_thread_binding()
            if t < N:
                T.ptx_cp_async(T.access_ptr(S[t, 0], "w", 4), T.access_ptr(A[t, 0], "r", 4), 4)
                arrive(ready[0])
            else:
                T.mbarrier_wait_parity(ready[0], 0)
                for i in T.serial(4):
                    B[t - N, i] = S[2 * N - 1 - t, i]

    a = normal(N, 4)
    equal(run(main, target, a, poison(N, 4)), a.flip(0))


def test_a_missing_wait_is_reported() -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 4), "float32"), B: T.Tensor((N, 4), "float32")):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N, 4), "float32")
            t = T.get_thread_binding()
            T.ptx_cp_async(T.access_ptr(S[t, 0], "w", 4), T.access_ptr(A[t, 0], "r", 4), 4)
            T.ptx_commit_group()
            T.ptx_wait_group(1)
            B[t, 0] = S[t, 0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILELANG_VERIFY_SYNCHRONIZATION", "0")
        kernel = tilelang.compile(main, target="sm_80")
    with pytest.raises(emulator.EmulatorError, match=r"cp\.async"):
        kernel(normal(N, 4), poison(N, 4))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_tiles_loaded_by_tma_on_a_barrier(arch: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, N, N), "float16"), B: T.Tensor((4, N, N), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((2, N, N), "float16")
            full = T.alloc_barrier([1, 1])
            for k in T.serial(4):
                T.tma_copy(A[k, 0, 0], S[k % 2, :, :], barrier=full[k % 2])
                if T.get_thread_binding() == 0:
                    T.mbarrier_arrive(full[k % 2])
                T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
                for i, j in T.Parallel(N, N):
                    B[k, i, j] = S[k % 2, j, i]
                T.sync_threads()

    a = normal(4, N, N, dtype="float16")
    equal(run(main, arch, a, poison(4, N, N, dtype="float16")), a.transpose(1, 2))


def test_asynchronous_gemms_of_warpgroups() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((N, 128), "float16"), B: T.Tensor((128, N), "float16"), C: T.Tensor((N, N))
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((N, 128), "float16")
            b = T.alloc_shared((128, N), "float16")
            c = T.alloc_fragment((N, N), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.wgmma_gemm(a[:, 0:64], b[0:64, :], c, clear_accum=True)
            T.wgmma_gemm(a[:, 64:128], b[64:128, :], c)
            T.wait_wgmma(0)
            T.copy(c, C)

    a, b = normal(N, 128, dtype="float16"), normal(128, N, dtype="float16")
    close(run(main, "sm_90a", a, b, poison(N, N)), a.double() @ b.double(), 1e-3)


def test_equal_words_of_torch(target: str) -> None:
    """A copy of a whole tensor in shared memory and back, bit by bit."""

    @T.prim_func
    def main(A: T.Tensor((N, N), "bfloat16"), B: T.Tensor((N, N), "bfloat16")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((N, N), "bfloat16")
            T.async_copy(A, S)
            T.ptx_wait_group(0)
            T.copy(S, B)

    a = normal(N, N, dtype="bfloat16")
    b = run(main, target, a, poison(N, N, dtype="bfloat16"))
    assert torch.equal(b.view(torch.int16), a.view(torch.int16))


@pytest.mark.parametrize("rows", [8, 128])
@pytest.mark.parametrize("thread", [0, 37])
def test_one_thread_copies_for_all(rows: int, thread: int, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((rows, N), "float16"), B: T.Tensor((2, rows, N), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((rows, N), "float16")
            if T.get_thread_binding() == thread:
                T.copy(A, tile)
                T.copy(tile, B[0, :, :])
            for i, j in T.Parallel(rows, N):
                B[1, i, j] = tile[i, j]

    a = normal(rows, N, dtype="float16")
    b = run(main, target, a, poison(2, rows, N))
    equal(b, torch.stack([a, a]).float())


@pytest.mark.every_schedule
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_one_thread_asks_for_a_ring_of_tiles(arch: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((6, 64, N), "float16"), B: T.Tensor((6, 64, N), "float16")):
        with T.Kernel(1, threads=256):
            ring = T.alloc_shared((2, 64, N), "float16")
            full, free = T.alloc_barrier([1, 1]), T.alloc_barrier([128, 128])
            t = T.get_thread_binding()
            if t == 128:
                for k in T.serial(6):
                    T.mbarrier_wait_parity(free[k % 2], k // 2 % 2 ^ 1)
                    T.tma_copy(A[k, 0, 0], ring[k % 2, :, :], barrier=full[k % 2])
                    T.mbarrier_arrive(full[k % 2])
            elif t < 128:
                for k in T.serial(6):
                    T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
                    T.copy(ring[k % 2, :, :], B[k, :, :])
                    T.mbarrier_arrive(free[k % 2])

    a = normal(6, 64, N, dtype="float16")
    equal(run(main, arch, a, poison(6, 64, N, dtype="float16")), a)


def doubled_by_tma(elected: bool, fenced: bool):
    @T.prim_func
    def main(A: T.Tensor((3, 64, 64), "float16"), B: T.Tensor((3, 64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            loaded = T.alloc_barrier(1)
            for k in T.serial(3):
                if T.get_thread_binding() == 0:
                    T.tma_copy(A[k, :, :], tile, barrier=loaded)
                    T.mbarrier_arrive(loaded)
                T.mbarrier_wait_parity(loaded, k % 2)
                for i, j in T.Parallel(64, 64):
                    tile[i, j] = tile[i, j] * 2
                if fenced:
                    T.fence_proxy_async()
                T.sync_threads()
                if elected:
                    if T.get_thread_binding() == 0:
                        T.tma_copy(tile, B[k, 0:64, 0:64])
                        T.tma_store_arrive()
                        T.tma_store_wait(0)
                else:
                    T.tma_copy(tile, B[k, 0:64, 0:64])
                T.sync_threads()

    return main


@pytest.mark.parametrize("schedule", ["late", "eager", 5])
@pytest.mark.parametrize("fenced", [True, False])
@pytest.mark.parametrize("elected", [True, False])
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_store_by_tma(elected: bool, fenced: bool, schedule: str | int, arch: str) -> None:
    func = doubled_by_tma(elected, fenced)
    a = normal(3, 64, 64, dtype="float16")
    with emulator.options(schedule=schedule):
        equal(run(func, arch, a, poison(3, 64, 64, dtype="float16")), a * 2)
    remarks = [remark.message for remark in tilelang.compile(func, target=arch).remarks]
    assert sum("is done by TMA" in each for each in remarks) == 2


def handed_to(engine: str):
    """A ring of two pairs of tiles, filled by cp.async, for wgmma or for stores by TMA."""

    @T.prim_func
    def main(
        A: T.Tensor((4, N, N), "bfloat16"),
        B: T.Tensor((4, N, N), "bfloat16"),
        C: T.Tensor((4, N, N), "float32"),
        D: T.Tensor((4, N, N), "bfloat16"),
    ):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((2, N, N), "bfloat16"), T.alloc_shared((2, N, N), "bfloat16")
            c = T.alloc_fragment((N, N), "float32")
            full, empty = T.alloc_barrier([128, 128]), T.alloc_barrier([128, 128])
            t = T.get_thread_binding()
            if t < 128:
                for k in T.serial(4):
                    T.barrier_wait(full[k % 2], k // 2 % 2)
                    if engine == "wgmma":
                        T.wgmma_gemm(a[k % 2, :, :], b[k % 2, :, :], c, clear_accum=True)
                        T.wait_wgmma(0)
                        T.copy(c, C[k, :, :])
                    else:
                        T.copy(a[k % 2, :, :], D[k, :, :])
                        T.copy(b[k % 2, :, :], D[k, :, :])
                    T.barrier_arrive(empty[k % 2])
            else:
                for k in T.serial(4):
                    T.barrier_wait(empty[k % 2], (k // 2 + 1) % 2)
                    for r in T.serial(4):
                        i, j = r * 16 + (t - 128) // 8, (t - 128) % 8 * 8
                        for to, source in ((a, A), (b, B)):
                            T.ptx_cp_async(
                                T.access_ptr(to[k % 2, i, j], "w", 8),
                                T.access_ptr(source[k, i, j], "r", 8),
                                8,
                            )
                    T.cp_async_barrier_noinc(full[k % 2])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("engine", "arch"), [("wgmma", "sm_90a"), ("TMA", "sm_90a"), ("TMA", "sm_100a")]
)
def test_copies_that_arrive_for_an_engine(engine: str, arch: str) -> None:
    """Between cp.async and the engine stands a proxy fence of those that wait."""
    kernel = tilelang.compile(handed_to(engine), target=arch)
    a, b = normal(4, N, N, dtype="bfloat16"), normal(4, N, N, dtype="bfloat16")
    c, d = poison(4, N, N), poison(4, N, N, dtype="bfloat16")
    kernel(a, b, c, d)
    if engine == "wgmma":
        close(c, a.double() @ b.double(), 1e-3)
    else:
        equal(d, b)
