"""Tensor copies among accesses by threads: what is ordered with what, and who issues."""

from __future__ import annotations

import pytest
import torch
from tma_cases import TARGETS, assert_same, check_through, compiled, poisoned, random_bits

import tilelang.language as T


@pytest.mark.parametrize("target", TARGETS)
def test_loop_reuses_the_tile(target: str) -> None:
    """Each iteration loads over what threads have read, and waits for its own phase."""

    @T.prim_func
    def func(A: T.Tensor((7 * 32, 64), "float32"), B: T.Tensor((32, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 64), "float32")
            total = T.alloc_fragment((32, 64), "float32")
            T.clear(total)
            for step in T.serial(7):
                T.copy(A[step * 32, 0], tile)
                for i, j in T.Parallel(32, 64):
                    total[i, j] = total[i, j] * 2.0 + tile[i, j]
            T.copy(total, B)

    kernel = compiled(func, target, loads=1)
    source, result = random_bits((7 * 32, 64), "float32"), poisoned((32, 64), "float32")
    kernel(source, result)
    expected = torch.zeros(32, 64)
    for step in range(7):
        expected = expected * 2 + source[step * 32 : step * 32 + 32]
    assert_same(result, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_threads_write_the_tile_that_is_stored(target: str) -> None:
    """Stores by threads are seen by the accelerator, and wait until it has read the last tile."""

    @T.prim_func
    def func(A: T.Tensor((5 * 32, 64), "float32"), B: T.Tensor((5 * 32, 64), "float32")):
        with T.Kernel(1, threads=128):
            source = T.alloc_shared((32, 64), "float32")
            result = T.alloc_shared((32, 64), "float32")
            for step in T.serial(5):
                T.copy(A[step * 32, 0], source)
                for i, j in T.Parallel(32, 64):
                    result[i, j] = source[i, 63 - j] + 1.0
                T.copy(result, B[step * 32, 0])

    kernel = compiled(func, target, loads=1, stores=1)
    source, result = random_bits((160, 64), "float32"), poisoned((160, 64), "float32")
    kernel(source, result)
    assert_same(result, source.flip(1) + 1)


@pytest.mark.parametrize("target", TARGETS)
def test_neighbouring_loads_share_a_wait(target: str) -> None:
    @T.prim_func
    def func(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((64, 64), "float16"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(64, 64):
                C[i, j] = a[i, j] - b[i, j]

    kernel = compiled(func, target, loads=2)
    assert kernel.get_ptx().count("mbarrier.arrive.expect_tx") == 1
    a, b = random_bits((64, 64), "float16"), random_bits((64, 64), "float16", seed=1)
    result = poisoned((64, 64), "float16")
    kernel(a, b, result)
    assert_same(result, a - b)


def test_warpgroups_load_for_themselves() -> None:
    """A branch of whole warps has a barrier of its own."""

    @T.prim_func
    def func(A: T.Tensor((128, 64), "float16"), B: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, threads=256):
            both = T.alloc_shared((128, 64), "float16")
            tid = T.get_thread_binding()
            if tid < 128:
                for _step in T.serial(3):
                    T.copy(A[0:64, 0:64], both[0:64, 0:64])
            else:
                T.copy(A[64:128, 0:64], both[64:128, 0:64])
            T.sync_threads()
            T.copy(both, B)

    kernel = compiled(func, "sm_100a", loads=2, stores=1)
    check_through(kernel, (128, 64), "float16")


def test_conversion_is_done_by_threads() -> None:
    @T.prim_func
    def func(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, tile)
            T.copy(tile, B)

    kernel = compiled(func, "sm_100a", stores=1)
    source, result = random_bits((64, 64), "float32"), poisoned((64, 64), "float16")
    kernel(source, result)
    assert_same(result, source.half())


def test_tensor_that_the_kernel_also_writes_is_read_by_threads() -> None:
    @T.prim_func
    def func(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            for i, j in T.Parallel(64, 64):
                A[i, j] = A[i, j] + T.float16(1)
            T.sync_threads()
            T.copy(A, tile)
            T.copy(tile, B)

    kernel = compiled(func, "sm_100a", stores=1)
    source, result = random_bits((64, 64), "float16"), poisoned((64, 64), "float16")
    expected = source + 1
    kernel(source, result)
    assert_same(result, expected)


def test_divided_control_flow_is_copied_by_threads() -> None:
    @T.prim_func
    def func(A: T.Tensor((64, 64), "float16"), n: T.int32, B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            if n > 3:
                T.copy(A, tile)
            else:
                T.clear(tile)
            T.copy(tile, B)

    kernel = compiled(func, "sm_100a", loads=1, stores=1)
    source = random_bits((64, 64), "float16")
    for n, expected in ((4, source), (3, torch.zeros_like(source))):
        result = poisoned((64, 64), "float16")
        kernel(source, n, result)
        assert_same(result, expected)
