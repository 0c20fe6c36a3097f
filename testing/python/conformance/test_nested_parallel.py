"""T.Parallel loops directly inside of each other are one loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors


@pytest.mark.parametrize("shape", [(4, 16), (7, 9), (33, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_two_loops(shape: tuple[int, int], dtype: str, target: str) -> None:
    m, n = shape

    @T.prim_func
    def main(A: T.Tensor((m, n), dtype), B: T.Tensor((n, m), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(m):
                for j in T.Parallel(n):
                    B[j, i] = A[i, j] + 1

    a = normal(m, n, dtype=dtype)
    close(run(main, target, a, poison(n, m, dtype=dtype)), a.T + 1)


def test_three_loops_with_definitions_between(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((240,), "int32"), B: T.Tensor((240,), "int32")):
        with T.Kernel(1, threads=96):
            for i in T.Parallel(3):
                first = i * 80
                for j in T.Parallel(5):
                    second = first + j * 16
                    for k in T.Parallel(16):
                        B[second + k] = A[239 - second - k]

    a = integers(240)
    equal(run(main, target, a, poison(240, dtype="int32")), a.flip(0))


def test_in_fragments_beside_other_operators(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((32, 48), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((32, 48), "float32")
            total = T.alloc_fragment((32,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(32):
                for j in T.Parallel(48):
                    tile[i, j] = tile[i, j] * 2 + j
            T.reduce_sum(tile, total, dim=1)
            T.copy(total, B)

    a = normal(32, 48)
    close(run(main, target, a, poison(32)), (a * 2 + torch.arange(48)).sum(1), tolerance=1e-4)


@pytest.mark.parametrize("rows", [1, 70])
def test_the_outer_extent_is_known_at_run_time(rows: int, target: str) -> None:
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, 12), "int32"), B: T.Tensor((m, 12), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(m):
                for j in T.Parallel(12):
                    B[i, 11 - j] = A[i, j]

    a = integers(rows, 12)
    equal(run(main, target, a, poison(rows, 12, dtype="int32")), a.flip(1))


def _apart(kind: str) -> Any:
    n = T.dynamic("n")
    layout = T.Fragment((8, 8), forward_fn=lambda i, j: (i * 8 + j, 0))

    @T.prim_func
    def main(A: T.Tensor((8, 8), "int32"), B: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=64):
            if kind == "a store before":
                for i in T.Parallel(8):
                    A[i, 0] = 0
                    for j in T.Parallel(8):
                        A[i, j] = j
            elif kind == "a store behind":
                for i in T.Parallel(8):
                    for j in T.Parallel(8):
                        A[i, j] = j
                    A[i, 0] = 0
            elif kind == "a load before":
                for i in T.Parallel(8):
                    x = A[i, 7]
                    for j in T.Parallel(8):
                        A[i, j] = x
            elif kind == "serial":
                for i in T.Parallel(8):
                    for k in T.serial(2):
                        for j in T.Parallel(4):
                            A[i, k * 4 + j] = j
            elif kind == "run time":
                for i in T.Parallel(8):
                    for j in T.Parallel(n):
                        B[j] = i
            elif kind == "layout":
                for i in T.Parallel(8, loop_layout=layout):
                    for j in T.Parallel(8):
                        A[i, j] = j
            else:
                for i in T.Parallel(8):
                    if i > 2:
                        for j in T.Parallel(8):
                            A[i, j] = j

    return main


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("a store before", "T.Parallel cannot stand inside T.Parallel"),
        ("a store behind", "a statement stands beside the inner loop"),
        ("a load before", "T.Parallel cannot stand inside T.Parallel"),
        ("serial", "T.Parallel cannot stand inside T.Parallel"),
        ("run time", "the extents of the inner loop are known only at run time"),
        ("layout", "a loop_layout describes all dimensions"),
        ("a condition", "T.Parallel cannot stand inside T.Parallel"),
    ],
)
def test_loops_that_are_not_one(kind: str, text: str) -> None:
    with pytest.raises(errors.CompileError, match=text) as caught:
        tilelang.compile(_apart(kind), target="sm_100a")
    assert isinstance(caught.value, ValueError)
