"""Slices whose bounds are names: their extent is the constant that the names' values give."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

A = T.Tensor((128, 64), "float32")


def copy(a, b, first, last):
    f = T.alloc_fragment((64, 64), "float32")
    T.copy(a[first:last, :], f)
    T.copy(f, b[first:last, :])


def fill(a, b, first, last):
    s = T.alloc_shared((128, 64), "float32")
    T.fill(s[first:last, :], 2)
    T.copy(s[first:last, :], b[first:last, :])


def atomic(a, b, first, last):
    T.atomic_add(b[first:last, :], a[first:last, :])


def atomic_scalar(a, b, first, last):
    T.atomic_add(b[first:last, 0:1], 3)


def reduced(a, b, first, last):
    s = T.alloc_shared((128, 64), "float32")
    r = T.alloc_fragment((64,), "float32")
    T.copy(a, s)
    T.reduce_sum(s[first:last, :], r, dim=1)
    T.copy(r, b[first:last, 5])


def expected(use, a: torch.Tensor, first: int) -> torch.Tensor:
    b = torch.zeros(128, 64)
    rows = slice(first, first + 64)
    if use is atomic_scalar:
        b[rows, 0] = 3
    elif use is reduced:
        b[rows, 5] = a[rows].sum(1)
    else:
        b[rows] = 2 if use is fill else a[rows]
    return b


def compiled(use, bounds):
    @T.prim_func
    def main(X: A, Y: A, n: T.int32):
        with T.Kernel(1, threads=128):
            first, last = bounds(n)
            use(X, Y, first, last)

    return tilelang.compile(main, target="sm_100a")


def sums(n):
    first = n * 32
    middle = first + 16
    return first, middle + 48


def rounded(n):
    tile = n // 2
    first = tile * 64 + (n - tile * 2) * 32
    return first, first + 64


@pytest.mark.parametrize("use", [copy, fill, atomic, atomic_scalar, reduced])
@pytest.mark.parametrize("bounds", [sums, rounded])
def test_the_extent_is_that_of_the_values(use, bounds) -> None:
    a, b = torch.randn(128, 64), torch.zeros(128, 64)
    compiled(use, bounds)(a, b, 1)
    torch.testing.assert_close(b, expected(use, a, 32))


def test_an_empty_slice_is_refused() -> None:
    with pytest.raises(errors.BoundsError, match="is empty"):
        compiled(copy, lambda n: sums(n)[::-1])


def test_extents_of_other_values_are_those_of_the_call() -> None:
    a, b = torch.randn(128, 64), torch.zeros(128, 64)
    compiled(copy, lambda n: (n * 32, n * 31 + 64))(a, b, 1)
    want = torch.zeros(128, 64)
    want[32:95] = a[32:95]
    torch.testing.assert_close(b, want)


def test_atomics_need_constant_extents() -> None:
    with pytest.raises(errors.ShapeError, match="must be constants"):
        compiled(atomic, lambda n: (n * 32, n * 31 + 64))
