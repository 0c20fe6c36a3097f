"""Guards that ask for the variable of a loop, where the loop's length is known at run time only."""

from __future__ import annotations

import pytest
from order.mutants import compiled, mutants

import tilelang.language as T
from tilelang import errors
from tilelang.transform import verify_synchronization

TARGETS = ("sm_80", "sm_90a", "sm_100a")


@pytest.mark.parametrize("target", TARGETS)
def test_a_guard_on_a_loop_of_unknown_length(target) -> None:
    """Each thread reads what it wrote itself, in iterations that stay inside of the tensor."""

    @T.prim_func
    def kernel(A: T.Tensor((8, 16), "float32"), C: T.Tensor((8, 16), "float32"), n: T.int32):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((8, 16), "float32")
            T.copy(A, s, disable_tma=True)
            for k in T.serial(n):
                for i, j in T.Parallel(8, 16):
                    C[i, k * 16 + j] = s[i, j]

    verify_synchronization(compiled(kernel, target))


@pytest.mark.parametrize("target", TARGETS)
def test_a_guard_on_a_loop_hides_no_race(target) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8, 16), "float32"), C: T.Tensor((8, 16), "float32"), n: T.int32):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((8, 16), "float32")
            T.copy(A, s, disable_tma=True)
            for k in T.serial(n):
                for i, j in T.Parallel(8, 16):
                    C[i, k * 16 + j] = s[7 - i, j]

    func = compiled(kernel, target)
    verify_synchronization(func)
    without_barriers = [m for key, m in mutants(func) if key[0].startswith("sync_")]
    assert without_barriers
    for mutant in without_barriers:
        with pytest.raises(errors.SynchronizationError, match="do not synchronize in between"):
            verify_synchronization(mutant)


def test_tiles_of_one_thread_in_one_place() -> None:
    """Thread 0 alone writes both tiles, which share bytes: compared byte by byte."""

    @T.prim_func
    def kernel(
        At: T.Tensor((1,), "int32"), X: T.Tensor((5,), "float32"), B: T.Tensor((1,), "int16")
    ):
        with T.Kernel(1, threads=128):
            value = T.alloc_fragment((1, 1), "float32")
            at = T.alloc_fragment((1,), "int32")
            tile = T.alloc_shared((1,), "int16")
            T.copy(At, at)
            for k in T.serial(1):
                T.copy(X[at[k] : at[k] + 1], value[0:1, k])
            T.copy(B, tile)

    verify_synchronization(compiled(kernel, "sm_80"))
