"""Stores outside T.Parallel whose value reads what other threads store."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ["sm_100a", "sm_90a", "sm_80", "sm_120a"]


@T.prim_func
def added_once(A: T.Tensor((4,), "float32"), B: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128):
        s, t = T.alloc_shared((4,), "float32"), T.alloc_shared((1,), "float32")
        T.copy(A, s)
        T.fill(t, 2.0)
        s[3] = s[3] + t[0]
        for i in T.Parallel(128):
            B[i] = s[3]


@T.prim_func
def shifted(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        s = T.alloc_shared((128,), "float32")
        T.copy(A, s)
        s[tx] = s[(tx + 1) % 128]
        B[tx] = s[tx]


@T.prim_func
def in_a_loop(A: T.Tensor((4,), "float32"), B: T.Tensor((128,), "float32"), n: T.int32):
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((4,), "float32")
        T.copy(A, s)
        for k in T.serial(n):
            s[k % 4] = s[k % 4] * 2 + s[(k + 1) % 4]
        for i in T.Parallel(128):
            B[i] = s[i % 4]


@T.prim_func
def by_some_warps(A: T.Tensor((4,), "float32"), B: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        s = T.alloc_shared((4,), "float32")
        T.copy(A, s)
        if tx == 0:
            s[0] = s[0] + 1
        if tx < 64:
            s[1] = s[1] + 1
        else:
            s[2] = s[2] + 1
        for i in T.Parallel(128):
            B[i] = s[i % 4]


@T.prim_func
def in_a_tensor(A: T.Tensor((4,), "float32"), B: T.Tensor((128,), "float32")):
    with T.Kernel(4, threads=128) as block:
        B[block] = A[block]
        B[block] = B[block] + 1


def counted(n: int):
    """Threads 64 to 127 count the keys of their elements, in rows of their own."""

    @T.prim_func
    def main(K: T.Tensor((n,), "int32"), R: T.Tensor((n,), "int32"), B: T.Tensor((320,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((320,), "int32")
            if tx >= 64:
                row = (tx - 64) * 5
                for i in T.serial(5):
                    s[row + i] = 0
                for i in T.serial(T.ceildiv(n, 64)):
                    at = tx - 64 + i * 64
                    if at < n:
                        key = K[at]
                        count = s[row + key]
                        R[at] = count
                        s[row + key] = count + 1
            T.sync_threads()
            T.copy(s, B)

    return main


def loop_reference(a: torch.Tensor, n: int) -> torch.Tensor:
    s = a.clone()
    for k in range(n):
        s[k % 4] = s[k % 4] * 2 + s[(k + 1) % 4]
    return s.repeat(32)


def check(program, target: str, a: torch.Tensor, expected: torch.Tensor, *rest: int) -> None:
    kernel = tilelang.compile(program, target=target)
    out = torch.full((128,), torch.nan)
    kernel(a, out, *rest)
    assert torch.equal(out[: len(expected)], expected)
    assert out[len(expected) :].isnan().all()


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_an_element_that_all_threads_update_is_updated_once(target):
    a = torch.randn(4)
    check(added_once, target, a, (a[3] + 2).expand(128))
    check(in_a_tensor, target, a, a + 1)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_threads_read_before_others_store(target):
    a = torch.randn(128)
    check(shifted, target, a, a.roll(-1))


@pytest.mark.every_schedule
@pytest.mark.parametrize("n", [0, 1, 7])
def test_updates_in_a_loop(n):
    a = torch.randn(4).round(decimals=2)
    check(in_a_loop, "sm_100a", a, loop_reference(a, n), n)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_updates_by_whole_warps(target):
    a = torch.randn(4)
    check(by_some_warps, target, a, (a + torch.tensor([1.0, 1, 1, 0])).repeat(32))


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [1, 64, 301])
def test_updates_of_own_elements_at_indices_of_a_tensor(target, n, monkeypatch):
    """No barrier may stand in the branch: the threads of a warp do not take it together."""
    # The check of ordering does not know the indices; the emulator does.
    monkeypatch.setenv("TILELANG_VERIFY_SYNCHRONIZATION", "0")
    kernel = tilelang.compile(counted(n), target=target)
    parts = any("no two threads may update" in remark.message for remark in kernel.remarks)
    assert parts == (n == 301)
    keys = torch.randint(0, 5, (n,))
    ranks, counts = torch.full((n,), -1).int(), torch.full((320,), -1).int()
    kernel(keys.int(), ranks, counts)
    places = torch.arange(n) % 64 * 5 + keys
    assert torch.equal(counts, torch.bincount(places, minlength=320).int())
    earlier = torch.arange(n)[:, None] > torch.arange(n)
    assert torch.equal(ranks, ((places[:, None] == places) & earlier).sum(1).int())


def test_elements_of_one_thread_need_no_barrier():
    @T.prim_func
    def own(B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "float32")
            s[tx] = tx
            for k in T.serial(3):
                s[tx] = s[tx] * 2 + k
            B[tx] = s[tx]

    assert "__syncthreads" not in tilelang.compile(own, target="sm_100a").get_kernel_source()


def test_a_branch_of_some_threads_of_a_warp_is_refused():
    @T.prim_func
    def part(B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((4,), "float32")
            T.fill(s, 0)
            if tx < 40:
                s[0] = s[0] + 1
            B[tx] = s[0]

    with pytest.raises(tilelang.errors.SynchronizationError, match="do not synchronize") as error:
        tilelang.compile(part, target="sm_100a")
    assert "s[0] = s[0] + 1" in str(error.value)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
def test_a_store_by_tma_waits_for_the_threads_of_a_program_without_barriers(target):
    @T.prim_func
    def staged(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((64, 64), "float16")
            with T.ws(0):
                rows = T.alloc_fragment((64, 64), "float16")
                T.copy(A, rows)
                T.copy(rows, tile)
                T.copy(tile, B)

    configs = {"tl.disable_thread_storage_sync": True}
    kernel = tilelang.compile(staged, target=target, pass_configs=configs)
    assert "tma_store" in kernel.get_kernel_source()
    a = torch.randn(64, 64).half()
    out = torch.full((64, 64), torch.nan).half()
    kernel(a, out)
    assert torch.equal(out, a)
