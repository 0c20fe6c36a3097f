"""Division, absolute values, shifts and casts of integers at their extremes, against Python's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilelang
import tilelang.language as T

TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def bits_of(dtype: str) -> int:
    return np.dtype(dtype).itemsize * 8


def wrapped(value: int, dtype: str) -> int:
    """The integer of the type that is congruent to ``value``."""
    low = np.iinfo(dtype).min
    return (value - low) % (1 << bits_of(dtype)) + low


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of 8 bits; else pairs of extremes, small and random numbers."""
    limits = np.iinfo(dtype)
    if limits.bits == 8:
        every = np.arange(limits.min, limits.max + 1).astype(dtype)
        a, b = (each.ravel() for each in np.meshgrid(every, every, indexing="ij"))
        return a, b
    rng = np.random.default_rng(limits.bits)
    edges = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 7]
    edges += [-1, -2, -3, -7] if limits.min else []
    grid = [(x, y) for x in edges for y in edges]
    random = rng.integers(limits.min, limits.max, (1024 - len(grid), 2), dtype, endpoint=True)
    values = np.concatenate([np.array(grid, dtype=dtype), random])
    return np.ascontiguousarray(values[:, 0]), np.ascontiguousarray(values[:, 1])


def truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


DIVISIONS = {
    "floordiv": lambda x, y: x // y,
    "floormod": lambda x, y: x % y,
    "truncdiv": truncated,
    "truncmod": lambda x, y: x - truncated(x, y) * y,
    "divided by 3": lambda x, y: truncated(x, 3),
    "rest by 3": lambda x, y: x - truncated(x, 3) * 3,
}


@pytest.mark.parametrize("dtype", TYPES)
def test_division_is_exact(dtype: str) -> None:
    a, b = pairs(dtype)
    n = len(a)

    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((6, n), dtype)):
        with T.Kernel(n // 256, threads=256) as bx:
            for i in T.Parallel(256):
                x = A[bx * 256 + i]
                y = B[bx * 256 + i]
                C[0, bx * 256 + i] = T.floordiv(x, y)
                C[1, bx * 256 + i] = T.floormod(x, y)
                C[2, bx * 256 + i] = T.truncdiv(x, y)
                C[3, bx * 256 + i] = T.truncmod(x, y)
                C[4, bx * 256 + i] = T.truncdiv(x, 3)
                C[5, bx * 256 + i] = T.truncmod(x, 3)

    # By zero nothing is promised.
    a, b = a[b != 0], b[b != 0]
    a, b = np.pad(a, (0, n - len(a)), "edge"), np.pad(b, (0, n - len(b)), "edge")
    got = np.full((6, n), 99, dtype)
    tilelang.compile(kernel, target="sm_100a")(a, b, got)
    for row, (name, reference) in enumerate(DIVISIONS.items()):
        expected = [
            wrapped(reference(x, y), dtype) for x, y in zip(a.tolist(), b.tolist(), strict=True)
        ]
        wrong = np.flatnonzero(got[row] != np.array(expected, dtype))
        assert not len(wrong), (name, a[wrong[0]], b[wrong[0]], got[row][wrong[0]])


def test_division_by_negative_constants() -> None:
    a, _ = pairs("int8")

    @T.prim_func
    def kernel(A: T.Tensor((256,), "int8"), C: T.Tensor((4, 256), "int8")):
        with T.Kernel(1, threads=256):
            for i in T.Parallel(256):
                C[0, i] = T.truncdiv(A[i], -3)
                C[1, i] = T.truncmod(A[i], -3)
                C[2, i] = T.truncdiv(A[i], -128)
                C[3, i] = T.truncdiv(100, A[i] | 1)

    a = np.unique(a)
    got = np.full((4, 256), 99, "int8")
    tilelang.compile(kernel, target="sm_100a")(a, got)
    for x, row in zip(a.tolist(), got.T.tolist(), strict=True):
        by_three = truncated(x, -3)
        assert row == [by_three, x + by_three * 3, truncated(x, -128), truncated(100, x | 1)]


@pytest.mark.parametrize("dtype", TYPES)
def test_absolute_values_shifts_and_negation(dtype: str) -> None:
    a, _ = pairs(dtype)
    a, bits = np.unique(a)[:1024], bits_of(dtype)
    n = len(a) // 4 * 4
    a = a[:n].copy()

    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), C: T.Tensor((5, n), dtype)):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                x = A[bx * 128 + i]
                C[0, bx * 128 + i] = T.abs(x)
                C[1, bx * 128 + i] = -x
                C[2, bx * 128 + i] = T.shift_left(x, bits - 1)
                C[3, bx * 128 + i] = T.shift_right(x, bits - 1)
                C[4, bx * 128 + i] = ~x

    got = np.full((5, n), 99, dtype)
    tilelang.compile(kernel, target="sm_100a")(a, got)
    for row, reference in enumerate(
        (abs, lambda x: -x, lambda x: x << bits - 1, lambda x: x >> bits - 1, lambda x: ~x)
    ):
        expected = [wrapped(reference(x), dtype) for x in a.tolist()]
        assert got[row].tolist() == expected, row


@pytest.mark.parametrize("source", TYPES)
def test_casts_between_integers_wrap(source: str) -> None:
    a, _ = pairs(source)
    a = np.unique(a)[:256]
    n = len(a) // 4 * 4
    a = a[:n].copy()

    @T.prim_func
    def kernel(
        A: T.Tensor((n,), source), B: T.Tensor((4, n), "int64"), C: T.Tensor((4, n), "uint64")
    ):
        with T.Kernel(1, threads=256):
            for i in T.Parallel(n):
                B[0, i] = T.cast(T.cast(A[i], "int8"), "int64")
                B[1, i] = T.cast(T.cast(A[i], "int16"), "int64")
                B[2, i] = T.cast(T.cast(A[i], "int32"), "int64")
                B[3, i] = T.cast(A[i], "int64")
                C[0, i] = T.cast(T.cast(A[i], "uint8"), "uint64")
                C[1, i] = T.cast(T.cast(A[i], "uint16"), "uint64")
                C[2, i] = T.cast(T.cast(A[i], "uint32"), "uint64")
                C[3, i] = T.cast(A[i], "uint64")

    signed, unsigned = np.full((4, n), 99, "int64"), np.full((4, n), 99, "uint64")
    tilelang.compile(kernel, target="sm_100a")(a, signed, unsigned)
    for row, bits in enumerate((8, 16, 32, 64)):
        assert signed[row].tolist() == [wrapped(x, f"int{bits}") for x in a.tolist()]
        assert unsigned[row].tolist() == [wrapped(x, f"uint{bits}") for x in a.tolist()]


@pytest.mark.parametrize("target", TYPES)
def test_casts_of_floating_point_constants_stay_in_the_range(target: str) -> None:
    limits = np.iinfo(target)
    for value in (math.inf, -math.inf, 1e30, -1e30, 3.9, -3.9):
        inside = min(max(value, limits.min), limits.max)
        got = T.cast(value, target).value % (1 << limits.bits)
        assert got == (int(inside) if abs(value) < 10 else inside) % (1 << limits.bits)
    assert T.cast(math.nan, target).value == 0


@pytest.mark.parametrize("function", [T.truncdiv, T.truncmod])
def test_division_of_other_types_is_refused(function) -> None:
    with pytest.raises(tilelang.errors.DTypeError, match="divides integers"):
        function(T.float32(1.5), T.int32(2))
