"""Elements outside of a tensor: safe values, block by block, and indices counted from the end."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import equal, integers, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors

M, N, ROWS = 60, 60, 64


def padded(a: torch.Tensor, value: int) -> torch.Tensor:
    """The tensor as the ROWS x ROWS corner of one that is ``value`` everywhere else."""
    whole = torch.full((ROWS, ROWS), value, dtype=a.dtype)
    whole[:M, :N] = a
    return whole


def test_safe_values_hold_in_their_block(target: str) -> None:
    """The first copy stands before the annotation, the last after the inner block's."""

    @T.prim_func
    def main(A: T.Tensor((M, N), "int32"), B: T.Tensor((4, ROWS, ROWS), "int32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((ROWS, ROWS), "int32")
            T.copy(A[0:ROWS, 0:ROWS], tile)
            T.copy(tile, B[0, :, :])
            with T.sblock("outer"):
                T.annotate_safe_value({A: -1})
                with T.sblock("inner"):
                    T.copy(A[0:ROWS, 0:ROWS], tile)
                    T.annotate_safe_value({A: -99})
                    T.copy(tile, B[1, :, :])
                    for i, j in T.Parallel(ROWS, ROWS):
                        B[2, i, j] = A[i, j]
                T.copy(A[0:ROWS, 0:ROWS], tile)
                T.copy(tile, B[3, :, :])
            T.annotate_safe_value({A: 5})

    a = integers(M, N)
    expected = torch.stack([padded(a, value) for value in (5, -99, -99, -1)])
    equal(run(main, target, a, poison(4, ROWS, ROWS, dtype="int32")), expected)


def test_a_safe_value_of_one_block_leaves_its_neighbours_alone(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N), "int32"), v: T.int32, B: T.Tensor((3, ROWS, ROWS), "int32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((ROWS, ROWS), "int32")
            for n in T.serial(3):
                if n == 1:
                    with T.sblock("inner"):
                        T.annotate_safe_value({A: v + n})
                        T.copy(A[0:ROWS, 0:ROWS], tile)
                else:
                    T.copy(A[0:ROWS, 0:ROWS], tile)
                T.copy(tile, B[n, :, :])

    a = integers(M, N)
    expected = torch.stack([padded(a, value) for value in (0, 8, 0)])
    equal(run(main, target, a, 7, poison(3, ROWS, ROWS, dtype="int32")), expected)


def test_a_copy_that_fills_with_zeros_is_refused() -> None:
    with pytest.raises(errors.SemanticsError, match=r"T.tma_copy of A writes zeros .* asks for -1"):

        @T.prim_func
        def main(A: T.Tensor((M, N), "int32")):
            with T.Kernel(1, threads=128):
                T.annotate_safe_value({A: -1})
                tile, done = T.alloc_shared((ROWS, ROWS), "int32"), T.alloc_barrier(1)
                T.tma_copy(A[0:ROWS, 0:ROWS], tile, barrier=done)


LANES = 4


@pytest.mark.parametrize("scope", ["global", "shared"])
def test_lanes_below_zero_count_from_the_end(scope: str, target: str) -> None:
    """Their sign is known at run time alone; of loads and of stores, in any dimension."""

    @T.prim_func
    def main(A: T.Tensor((3, 32), "int32"), first: T.int32, B: T.Tensor((8, LANES), "int32")):
        with T.Kernel(1, threads=1):
            tile = T.alloc_shared((3, 32), "int32")
            T.copy(A, tile)
            for t in T.serial(8):
                source = tile if scope == "shared" else A
                values = source[2, T.Ramp(t - first, 1, LANES)]
                B[T.Ramp(t - first, 0, LANES), T.Ramp(0, 1, LANES)] = values

    a = integers(3, 32)
    expected = torch.stack(
        [torch.stack([a[2, t - 5 + lane] for lane in range(LANES)]) for t in range(8)]
    ).roll(-5, 0)
    equal(run(main, target, a, 5, poison(8, LANES, dtype="int32")), expected)


@pytest.mark.parametrize("extent", [32, "dynamic"])
def test_an_index_known_to_be_negative_counts_from_the_end(extent: Any, target: str) -> None:
    n = T.dynamic("n") if extent == "dynamic" else extent

    @T.prim_func
    def main(A: T.Tensor((n, 3), "int32"), B: T.Tensor((n, 3), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                for j in T.serial(3):
                    B[-i - 1, j - 3] = A[i, -1 - j]

    a = integers(32, 3)
    equal(run(main, target, a, poison(32, 3, dtype="int32")), a.flip(0, 1))


def test_a_scalar_index_of_unknown_sign_stays_outside(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), first: T.int32, B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = A[i - first]

    a = integers(32)
    expected = torch.cat([torch.zeros(4, dtype=torch.int32), a[:28]])
    equal(run(main, target, a, 4, poison(32, dtype="int32")), expected)


def test_further_below_zero_than_the_dimension_is_long() -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                B[i] = A[-i - 9]

    with pytest.raises(errors.BoundsError, match=r"index -9 = -i - 9 in dimension 0 of A"):
        tilelang.compile(main, target="sm_90a")
