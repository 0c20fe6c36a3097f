"""Copies and fills in parallel loops: each iteration copies its own elements."""

from __future__ import annotations

import pytest
import torch
from conformance.running import equal, integers, poison, run

import tilelang.language as T


@pytest.mark.parametrize("types", [("float32", "float16"), ("int8", "int32"), ("int32", "int32")])
def test_single_elements(types: tuple[str, str], target: str) -> None:
    """Elements outside of the source have the value of T.annotate_safe_value."""
    rows, columns, source, result = 21, 37, *types

    @T.prim_func
    def main(A: T.Tensor((rows, columns), source), B: T.Tensor((32, 48), result)):
        with T.Kernel(1, threads=64):
            T.annotate_safe_value({A: -9})
            for i, j in T.Parallel(32, 48):
                T.copy(A[i, j], B[i, j])

    a, b = integers(rows, columns, dtype=source), poison(32, 48, dtype=result)
    run(main, target, a, b)
    expected = torch.full((32, 48), -9).to(b.dtype)
    expected[:rows, :columns] = a.to(b.dtype)
    equal(b, expected)


@pytest.mark.parametrize("memory", [T.alloc_shared, T.alloc_fragment])
@pytest.mark.parametrize("extents", [(4,), (1, 3), (3, 5)])
def test_slices(memory, extents: tuple[int, ...], target: str) -> None:
    """A slice of each row, on its way through a tile; other elements of the rows stay."""
    tail = (8, 6)[: len(extents)]
    box = tuple(slice(1, 1 + extent) for extent in extents)

    @T.prim_func
    def main(A: T.Tensor((40, *tail), "int32"), B: T.Tensor((40, *tail), "int32")):
        with T.Kernel(1, threads=32):
            tile = memory((40, *extents), "int32")
            for i in T.Parallel(40):
                T.copy(A[(i, *box)], tile[(i, *(slice(0, extent) for extent in extents))])
            for i in T.Parallel(40):
                T.copy(tile[(i, *(slice(0, extent) for extent in extents))], B[(i, *box)])

    a, b = integers(40, *tail, low=1), poison(40, *tail, dtype="int32")
    expected = b.clone()
    expected[(slice(None), *box)] = a[(slice(None), *box)]
    run(main, target, a, b)
    equal(b, expected)


def test_corners_take_the_extents_of_the_other_side(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((24, 40), "int32"), B: T.Tensor((24, 40), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(24):
                if i % 3 != 0:
                    T.copy(A[i, 8:16], B[23 - i, 4])

    a, b = integers(24, 40, low=1), poison(24, 40, dtype="int32")
    expected = b.clone()
    for row in range(24):
        if row % 3:
            expected[23 - row, 4:12] = a[row, 8:16]
    run(main, target, a, b)
    equal(b, expected)


def test_fills(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((50, 12), "int32"), C: T.Tensor((50, 12), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(50):
                T.fill(B[i, 2:7], i)
                T.clear(C[i, 0:3])

    b, c = poison(50, 12, dtype="int32"), poison(50, 12, dtype="int32")
    filled, cleared = b.clone(), c.clone()
    filled[:, 2:7] = torch.arange(50)[:, None]
    cleared[:, :3] = 0
    run(main, target, b, c)
    equal(b, filled)
    equal(c, cleared)


def test_views_of_two_in_a_byte(target: str) -> None:
    """Pairs of 4-bit elements, which share a byte."""

    @T.prim_func
    def main(
        A: T.Tensor((30, 8), "int4"), B: T.Tensor((30, 8), "int4"), C: T.Tensor((30, 8), "int8")
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(30):
                T.copy(A[i, 2:6], B[i, 4:8])
                T.copy(A[i, :], C[i, :])

    a, b = integers(30, 4, dtype="int8", low=-128, high=128), poison(30, 4, dtype="int8")
    c = poison(30, 8, dtype="int8")
    expected = b.clone()
    expected[:, 2:4] = a[:, 1:3]
    run(main, target, a, b, c)
    equal(b, expected)
    equal(c, torch.stack([(a << 4) >> 4, a >> 4], -1).reshape(30, 8))
