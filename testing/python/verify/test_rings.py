"""Rings of any number of slots, in loops of which some iterations are left out."""

from __future__ import annotations

import pytest
from verify.mutants import compiled, mutants

import tilelang.language as T
from tilelang import errors
from tilelang.transform import verify_synchronization


def ring(slots: int):
    @T.prim_func
    def kernel(A: T.Tensor((64, 512), "float16"), C: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            sums = T.alloc_fragment((64,), "float32")
            T.clear(sums)
            for k in T.Pipelined(n, num_stages=slots):
                T.copy(A[0, k * 64], a)
                T.reduce_sum(a, sums, dim=1, clear=False)
            T.copy(sums, C)

    return kernel


@pytest.mark.parametrize(
    ("target", "slots"), [("sm_80", 2), ("sm_80", 4), ("sm_80", 5), ("sm_80", 7), ("sm_90a", 5)]
)
def test_slots(target, slots) -> None:
    """What is left out of a loop is a multiple of the slots; without a wait there is a race."""
    func = compiled(ring(slots), target)
    verify_synchronization(func)
    waits = [m for key, m in mutants(func) if "wait" in key[0]]
    assert waits
    for mutant in waits:
        with pytest.raises(errors.SynchronizationError):
            verify_synchronization(mutant)


def test_slots_by_quotients() -> None:
    """Two tiles take turns of three iterations: the same again after six."""

    @T.prim_func
    def kernel(A: T.Tensor((600,), "float32"), C: T.Tensor((600,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((2, 32), "float32")
            T.clear(s)
            for k in T.serial(n):
                for i in T.Parallel(32):
                    s[k // 3 % 2, i] = A[k + i]
                for i in T.Parallel(32):
                    C[k + i] = s[(k + 3) // 3 % 2, 31 - i]

    func = compiled(kernel, "sm_80")
    verify_synchronization(func)


@pytest.mark.parametrize("threads", [32, 128])
def test_copies_of_other_threads(threads) -> None:
    """A thread has waited for its own copies; those of its neighbours it sees behind a barrier."""

    @T.prim_func
    def kernel(A: T.Tensor((512,), "float32"), C: T.Tensor((512,), "float32"), n: T.int32):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((threads,), "float32")
            for k in T.Pipelined(n, num_stages=3):
                T.copy(A[k * threads], a)
                for i in T.Parallel(threads):
                    C[k * threads + i] = a[threads - 1 - i]

    func = compiled(kernel, "sm_80")
    verify_synchronization(func)
    barriers = [m for key, m in mutants(func) if key[0].startswith("sync_")]
    assert barriers
    for mutant in barriers:
        with pytest.raises(errors.SynchronizationError, match=r"do not synchronize|waits for it"):
            verify_synchronization(mutant)


def test_tiles_that_threads_read_in_many_iterations() -> None:
    """A gemm of float8 by threads, 2^18 reads of a tile: those of one slot and of the next."""

    @T.prim_func
    def kernel(
        A: T.Tensor((64, 192), "float8_e4m3fn"),
        B: T.Tensor((192, 64), "float8_e4m3fn"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float8_e4m3fn")
            b = T.alloc_shared((64, 64), "float8_e4m3fn")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    verify_synchronization(compiled(kernel, "sm_80"))
