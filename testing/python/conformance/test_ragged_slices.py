"""Copies of slices whose extents are known at run time, to and from tiles of other extents."""

from __future__ import annotations

import pytest
import torch
from conformance.running import equal, integers, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors

TILE = 48


@pytest.mark.parametrize("length", [1, 7, 40, 48, 100])
@pytest.mark.parametrize("memory", [T.alloc_shared, T.alloc_fragment])
def test_whole_tensors_of_any_length(memory, length: int, target: str) -> None:
    """A slice that ends with its tensor: what the tile has beyond it is zero, and stays."""
    n, m = T.dynamic("n, m")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), B: T.Tensor((TILE,), "int32"), C: T.Tensor((m,), "int32")):
        with T.Kernel(1, threads=32):
            tile = memory((TILE,), "int32")
            T.copy(A[0:n], tile)
            T.copy(tile, B)
            T.copy(tile, C[0:m])

    a, b = integers(length, low=1), poison(TILE, dtype="int32")
    c = poison(length + 3, dtype="int32")
    run(main, target, a, b, c)
    kept = min(length, TILE)
    expected = torch.zeros(max(TILE, length + 3), dtype=torch.int32)
    expected[:kept] = a[:kept]
    equal(b, expected[:TILE])
    stored = min(length + 3, TILE)
    equal(c[:stored], expected[:stored])
    equal(c[stored:], poison(length + 3 - stored, dtype="int32"))


@pytest.mark.parametrize(("first", "last"), [(0, 5), (3, 3), (2, 66), (61, 67), (0, 67)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("memory", [T.alloc_shared, T.alloc_fragment])
def test_rows_of_a_sequence(memory, dtype: str, first: int, last: int, target: str) -> None:
    """A slice that ends before its tensor: the rows behind it are neither read nor written."""
    rows, columns, tile = 67, 24, 16

    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), dtype),
        B: T.Tensor((4, tile, columns), dtype),
        C: T.Tensor((rows, columns), dtype),
        begin: T.int32,
        end: T.int32,
    ):
        with T.Kernel(4, threads=64) as bx:
            part = memory((tile, columns), dtype)
            T.copy(A[begin + bx * tile : end, :], part)
            T.copy(part, B[bx, :, :])
            T.copy(part, C[begin + bx * tile : end, :])

    a = integers(rows, columns, low=1, dtype=dtype)
    b, c = poison(4, tile, columns, dtype=dtype), torch.zeros_like(a)
    run(main, target, a, b, c, first, last)
    length = min(last - first, 4 * tile)
    expected = torch.zeros(4 * tile, columns, dtype=a.dtype)
    expected[:length] = a[first : first + length]
    equal(b.view(4 * tile, columns), expected)
    stored = torch.zeros_like(a)
    stored[first : first + length] = a[first : first + length]
    equal(c, stored)


def test_both_dimensions_and_another_type(target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((20, 33), "float32"),
        B: T.Tensor((8, 16), "float16"),
        C: T.Tensor((20, 33), "float32"),
        m: T.int32,
        n: T.int32,
    ):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((8, 16), "float16")
            T.copy(A[m : m + n, 1 : 1 + m], tile)
            T.copy(tile, B)
            T.copy(B, C[n : n + m, 2 : 2 + n])

    a, b, c = normal(20, 33), poison(8, 16, dtype="float16"), torch.zeros(20, 33)
    m, n = 5, 3
    run(main, target, a, b, c, m, n)
    tile = torch.zeros(8, 16, dtype=torch.float16)
    tile[:n, :m] = a[m : m + n, 1 : 1 + m].half()
    equal(b, tile)
    expected = torch.zeros(20, 33)
    expected[n : n + m, 2 : 2 + n] = tile[:m, :n].float()
    equal(c, expected)


def test_a_slice_to_the_end_is_loaded_by_tma() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A[0:n, :], tile)
            T.copy(tile, B)

    kernel = tilelang.compile(main, target="sm_100a")
    assert "cp.async.bulk.tensor" in kernel.get_ptx()
    a, b = normal(41, 64, dtype="float16"), poison(64, 64, dtype="float16")
    kernel(a, b)
    equal(b[:41], a)
    assert not b[41:].any()


def test_two_extents_of_the_run() -> None:
    with pytest.raises(errors.ShapeError, match="extents m and n are not known to be the same"):

        @T.prim_func
        def main(A: T.Tensor((64,)), B: T.Tensor((64,)), m: T.int32, n: T.int32):
            with T.Kernel(1, threads=32):
                T.copy(A[0:m], B[0:n])
