"""Two sides of one branch of which all threads take the same: what stands on one never runs beside
what stands on the other, so nothing has to order them."""

from __future__ import annotations

import pytest
from verify.mutants import compiled, mutants

import tilelang.language as T
from tilelang import errors
from tilelang.transform import verify_synchronization


def by_variable():
    @T.prim_func
    def kernel(C: T.Tensor((32, 64), "float16"), n: T.int32):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((32, 64), "float16")
            out = T.alloc_shared((32, 64), "float16")
            choice = T.alloc_var("int32", 1)
            T.clear(s)
            if n > 3:
                choice = 2
            if choice != 2:
                T.clear(s[8:24, 0:64])
            else:
                for i, j in T.Parallel(32, 64):
                    out[i, j] = s[31 - i, j]
            T.copy(s, C)

    return kernel


def in_a_loop():
    @T.prim_func
    def kernel(Which: T.Tensor((64,), "int32"), C: T.Tensor((64, 32, 64), "float16")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((32, 64), "float16")
            T.fill(s, 2)
            for k in T.serial(64):
                if Which[k] > 3:
                    T.fill(s[0:16, 0:64], 1)
                else:
                    for i, j in T.Parallel(32, 64):
                        C[k, i, j] = s[31 - i, j]

    return kernel


def of_one_role():
    @T.prim_func
    def kernel(C: T.Tensor((32, 64), "float16"), n: T.int32):
        with T.Kernel(1, threads=256):
            t = T.get_thread_binding()
            s = T.alloc_shared((32, 64), "float16")
            choice = T.alloc_var("int32", 1)
            T.clear(s)
            if t < 128:
                if n > 3:
                    choice = 2
                if choice != 2:
                    T.fill(s, 1)
                else:
                    for i, j in T.Parallel(32, 64):
                        C[i, j] = s[31 - i, j]
            T.copy(s, C)

    return kernel


TARGETS = ("sm_80", "sm_90a", "sm_100a")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [by_variable, in_a_loop, of_one_role])
def test_sides_that_exclude_each_other(make, target) -> None:
    verify_synchronization(compiled(make(), target))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [by_variable, in_a_loop, of_one_role])
def test_what_comes_before_and_after_is_ordered_all_the_same(make, target) -> None:
    """No barrier of these kernels may be left out."""
    func = compiled(make(), target)
    barriers = [(key, m) for key, m in mutants(func) if key[0].startswith("sync_")]
    assert barriers
    for key, mutant in barriers:
        with pytest.raises(errors.SynchronizationError):
            verify_synchronization(mutant)
            pytest.fail(f"accepted without {key}")


@pytest.mark.parametrize("target", TARGETS)
def test_threads_that_choose_for_themselves(target) -> None:
    """Where one thread writes what another reads on the other side, it is a race."""

    @T.prim_func
    def kernel(Which: T.Tensor((128,), "int32"), C: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            s = T.alloc_shared((128,), "int32")
            s[t] = t
            T.sync_threads()
            if Which[t] > 3:
                s[t] = 5
            else:
                C[t] = s[127 - t]

    with pytest.raises(errors.SynchronizationError, match="do not synchronize in between"):
        verify_synchronization(compiled(kernel, target))
