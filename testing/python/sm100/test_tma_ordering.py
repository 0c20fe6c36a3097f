"""Tensor copies among accesses by threads: what is ordered with what, and who issues."""

from __future__ import annotations

import pytest
import torch
from tma_cases import TARGETS, assert_same, check_through, compiled, poisoned, random_bits

import tilelang
import tilelang.language as T

pytestmark = pytest.mark.every_schedule


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

    kernel = compiled(func, target, loads=2, **{"tl.disable_block_fitting": True})
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


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("transpose_b", [True, False])
@pytest.mark.parametrize(("m", "n", "k"), [(200, 136, 200), (128, 256, 64), (130, 264, 136)])
def test_gemm_of_loaded_tiles(m: int, n: int, k: int, transpose_b: bool, dtype: str) -> None:
    """Both operands arrive swizzled, zero beyond the edges; the result leaves by a store."""
    b_shape, b_tile = ((n, k), (128, 64)) if transpose_b else ((k, n), (64, 128))

    @T.prim_func
    def func(
        A: T.Tensor((m, k), dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 128), threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), dtype)
            b = T.alloc_shared(b_tile, dtype)
            c = T.alloc_shared((128, 128), "float32")
            accumulator = T.alloc_tmem((128, 128), "float32")
            result = T.alloc_fragment((128, 128), "float32")
            for step in T.serial(T.ceildiv(k, 64)):
                T.copy(A[by * 128, step * 64], a)
                if transpose_b:
                    T.copy(B[bx * 128, step * 64], b)
                else:
                    T.copy(B[step * 64, bx * 128], b)
                T.gemm(a, b, accumulator, transpose_B=transpose_b, clear_accum=step == 0)
            T.copy(accumulator, result)
            T.copy(result, c)
            T.copy(c, C[by * 128, bx * 128])

    kernel = tilelang.compile(func, target="sm_100a")
    ptx = kernel.get_ptx()
    assert "cp.async.bulk.tensor.2d.shared::cluster" in ptx
    assert "cp.async.bulk.tensor.2d.global" in ptx
    assert "st.global" not in ptx and "ld.global" not in ptx
    generator = torch.Generator().manual_seed(m + n + k)
    a = torch.randn(m, k, generator=generator).to(getattr(torch, dtype))
    b = torch.randn(b_shape, generator=generator).to(getattr(torch, dtype))
    result = torch.full((m, n), torch.nan)
    kernel(a, b, result)
    expected = a.double() @ (b.double().T if transpose_b else b.double())
    torch.testing.assert_close(result.double(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_warpgroups_read_what_others_loaded(target: str) -> None:
    """A branch that waits for its own copies is still ordered with the other branches."""

    @T.prim_func
    def func(A: T.Tensor((128, 64), "float16"), B: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, threads=256):
            first = T.alloc_shared((64, 64), "float16")
            second = T.alloc_shared((64, 64), "float16")
            tid = T.get_thread_binding()
            for step in T.serial(2):
                if tid < 128:
                    T.copy(A[step * 64, 0], first)
                if tid >= 128:
                    T.copy(A[step * 64, 0], second)
                    for i, j in T.Parallel(64, 64):
                        B[step * 64 + i, j] = first[i, j] + second[63 - i, j]

    kernel = compiled(func, target, loads=2)
    source, result = random_bits((128, 64), "float16"), poisoned((128, 64), "float16")
    kernel(source, result)
    assert_same(result, source + source.view(2, 64, 64).flip(1).reshape(128, 64))
