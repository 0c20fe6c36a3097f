"""Rows of a matrix by their indices: T.tma_gather4, T.tma_scatter4."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import equal, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors

ROWS = torch.tensor([37, 0, 12, 5], dtype=torch.int32)


def _moved(columns: int, first: int, dtype: str) -> Any:
    """Four rows to a tile and back to other rows."""

    @T.prim_func
    def main(
        Src: T.Tensor((40, 128), dtype),
        From: T.Tensor((4,), "int32"),
        To: T.Tensor((4,), "int32"),
        Dst: T.Tensor((40, 128), dtype),
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((4, columns), dtype)
            arrived = T.alloc_barrier(1)
            if T.shuffle_elect(128):
                T.mbarrier_expect_tx(arrived, T.tma_gather4_bytes(columns, dtype))
                T.tma_gather4(
                    Src, tile, first, [From[0], From[1], From[2], From[3]], barrier=arrived
                )
                T.barrier_arrive(arrived)
            T.mbarrier_wait_parity(arrived, 0)
            if T.shuffle_elect(128):
                T.tma_scatter4(tile, Dst, first, [To[0], To[1], To[2], To[3]])
                T.tma_store_arrive()
            T.tma_store_wait(0)

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("columns", "first", "dtype"), [(64, 0, "float16"), (32, 40, "float32"), (128, 0, "int8")]
)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_rows_by_their_indices(columns: int, first: int, dtype: str, arch: str) -> None:
    a = (normal(40, 128) * 20).to(getattr(torch, dtype))
    target = torch.tensor([3, 39, 20, 21], dtype=torch.int32)
    expected = poison(40, 128, dtype=dtype)
    actual = expected.clone()
    part = slice(first, first + columns)
    expected[target.long(), part] = a[ROWS.long(), part]
    run(_moved(columns, first, dtype), arch, a, ROWS, target, actual)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def _swizzled(columns: int, dtype: str, make: Any) -> Any:
    """Four rows of ``columns`` to a swizzled tile, and from it to other rows."""

    @T.prim_func
    def main(
        Src: T.Tensor((40, columns), dtype),
        From: T.Tensor((4,), "int32"),
        To: T.Tensor((4,), "int32"),
        Dst: T.Tensor((40, columns), dtype),
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((4, columns), dtype)
            if make is not None:
                T.annotate_layout({tile: make(tile)})
            arrived = T.alloc_barrier(1)
            if T.shuffle_elect(128):
                T.mbarrier_expect_tx(arrived, T.tma_gather4_bytes(columns, dtype))
                T.tma_gather4(Src, tile, 0, [From[0], From[1], From[2], From[3]], barrier=arrived)
                T.barrier_arrive(arrived)
            T.mbarrier_wait_parity(arrived, 0)
            if T.shuffle_elect(128):
                T.tma_scatter4(tile, Dst, 0, [To[0], To[1], To[2], To[3]])
                T.tma_store_arrive()
            T.tma_store_wait(0)

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("columns", "dtype", "make"),
    [
        (64, "float16", tilelang.layout.make_full_bank_swizzled_layout),
        (32, "float16", tilelang.layout.make_half_bank_swizzled_layout),
        (16, "float16", tilelang.layout.make_quarter_bank_swizzled_layout),
        (16, "float32", None),
        (48, "int8", None),
        (16, "int8", None),
    ],
)
def test_narrow_rows_by_one_instruction(columns: int, dtype: str, make: Any) -> None:
    a = (normal(40, columns) * 20).to(getattr(torch, dtype))
    target = torch.tensor([3, 39, 20, 21], dtype=torch.int32)
    expected = poison(40, columns, dtype=dtype)
    actual = expected.clone()
    expected[target.long()] = a[ROWS.long()]
    kernel = tilelang.compile(_swizzled(columns, dtype, make), target="sm_100a")
    kernel(a, ROWS, target, actual)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    assert kernel.get_ptx().count("tile::gather4") == 1


def test_narrow_rows_on_hopper() -> None:
    """Single rows begin at multiples of 128 bytes."""
    with pytest.raises(errors.LayoutError, match=r"tma_gather4: region tile\[1, 0:32\]"):
        tilelang.compile(_swizzled(32, "float16", None), target="sm_90a")


def _gathered_gemm(columns: int, first: int) -> Any:
    """The product of rows by their indices, of which -1 and 50 are outside of the matrix."""

    @T.prim_func
    def main(
        Src: T.Tensor((50, 200), "bfloat16"),
        Index: T.Tensor((64,), "int32"),
        B: T.Tensor((72, columns), "bfloat16"),
        C: T.Tensor((64, 72), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, columns), "bfloat16")
            b = T.alloc_shared((72, columns), "bfloat16")
            c = T.alloc_fragment((64, 72), "float32")
            arrived = T.alloc_barrier(1)
            T.copy(B, b)
            if T.shuffle_elect(128):
                T.mbarrier_expect_tx(arrived, 16 * T.tma_gather4_bytes(columns, "bfloat16"))
                for i in T.serial(16):
                    T.tma_gather4(
                        Src,
                        a[i * 4 : i * 4 + 4, :],
                        first,
                        [Index[i * 4], Index[i * 4 + 1], Index[i * 4 + 2], Index[i * 4 + 3]],
                        barrier=arrived,
                        eviction_policy="evict_last",
                    )
                T.barrier_arrive(arrived)
            T.mbarrier_wait_parity(arrived, 0)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize(("columns", "first"), [(64, 8), (128, 64), (32, 0)])
@pytest.mark.parametrize("arch", ["sm_100a", "sm_90a"])
def test_gathered_rows_of_a_gemm(columns: int, first: int, arch: str) -> None:
    if arch == "sm_90a" and columns == 32:
        pytest.skip("rows of 64 bytes")
    a, b = normal(50, 200, dtype="bfloat16"), normal(72, columns, dtype="bfloat16")
    index = torch.randint(-1, 51, (64,), dtype=torch.int32)
    c = run(_gathered_gemm(columns, first), arch, a, index, b, poison(64, 72))
    rows = torch.nn.functional.pad(a, (0, 128, 1, 1))[index.long() + 1, first : first + columns]
    torch.testing.assert_close(c.double(), rows.double() @ b.double().T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("arch", ["sm_100a", "sm_90a"])
def test_rows_that_the_kernel_writes(arch: str) -> None:
    """Any row may be among those that the kernel stores."""

    @T.prim_func
    def main(X: T.Tensor((8, 64), "float16"), M: T.Tensor((40, 64), "float16"), row: T.int32):
        with T.Kernel(1, threads=128):
            staged = T.alloc_shared((8, 64), "float16")
            tile = T.alloc_shared((4, 64), "float16")
            arrived = T.alloc_barrier(1)
            T.copy(X, staged)
            T.copy(staged, M[32:40, :])
            if T.shuffle_elect(128):
                T.mbarrier_expect_tx(arrived, T.tma_gather4_bytes(64, "float16"))
                T.tma_gather4(M, tile, 0, [row, 0, 1, 2], barrier=arrived)
                T.barrier_arrive(arrived)
            T.mbarrier_wait_parity(arrived, 0)
            T.copy(tile, X[0:4, :])

    with pytest.raises(errors.LayoutError, match="tma_gather4: the kernel also writes M"):
        tilelang.compile(main, target=arch)


@pytest.mark.requires_cuda
def test_rows_by_their_indices_on_a_gpu() -> None:
    a, b = normal(40, 128, dtype="float16"), torch.zeros(40, 128, dtype=torch.float16)
    run(_moved(64, 0, "float16"), "cuda", a, ROWS, ROWS, b)
    equal(b[ROWS.long(), :64], a[ROWS.long(), :64])
    assert b.count_nonzero() <= 4 * 64


def test_a_tile_stored_by_all_threads(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((40, 64), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((4, 64), "float32")
            T.copy(A, tile)
            T.tma_scatter4(tile, B, 0, [37, 0, 12, 5])

    a, b = normal(4, 64), torch.zeros(40, 64)
    equal(run(main, target, a, b)[ROWS.long()], a)


@pytest.mark.parametrize(
    ("rows", "shape", "message"),
    [
        ([0, 1, 2], (4, 64), "rows must be a list of four row indices"),
        ([0, 1, 2, 3], (8, 64), r"a tile of shape \(4, columns\)"),
    ],
)
def test_other_numbers_of_rows(rows: list[int], shape: tuple[int, int], message: str) -> None:
    with pytest.raises(errors.ShapeError, match=message):

        @T.prim_func
        def main(A: T.Tensor((40, 64), "float32")):
            with T.Kernel(1, threads=64):
                tile = T.alloc_shared(shape, "float32")
                arrived = T.alloc_barrier(1)
                T.tma_gather4(A, tile, 0, rows, barrier=arrived)


def test_without_the_tensor_memory_accelerator() -> None:
    with pytest.raises(errors.TileLangError, match=r"T\.tma_gather4|bulk copies"):
        tilelang.compile(_moved(64, 0, "float16"), target="sm_80")
