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
        ([0, 1, 2], (4, 64), "it is a list of the indices of four rows"),
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
