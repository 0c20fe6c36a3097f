"""Barriers in T.Parallel: all iterations up to the barrier, the barrier, and then the rest."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang.language as T
from tilelang import errors


@pytest.mark.every_schedule
@pytest.mark.parametrize("n", [5, 96, 201])
def test_threads_pass_values_on_in_a_loop(n: int, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((n,), "int32")
            for i in T.Parallel(n):
                j = n - 1 - i
                tile[j] = A[i]
                T.sync_threads()
                B[j] = tile[i] * 3

    a = integers(n)
    equal(run(main, target, a, poison(n, dtype="int32")), a * 3)


@pytest.mark.every_schedule
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_blocks_pass_values_on_in_a_loop(dtype: str, target: str) -> None:
    """A fragment keeps what an iteration has before the barrier."""
    blocks, n = 3, 40

    @T.prim_func
    def main(A: T.Tensor((blocks, n), dtype)):
        with T.Kernel(blocks, threads=64) as bx:
            mine = T.alloc_fragment((n,), dtype)
            for i in T.Parallel(n):
                mine[i] = A[blocks - 1 - bx, n - 1 - i]
                T.sync_grid()
                A[bx, i] = A[bx, i] + mine[i]

    a = normal(blocks, n, dtype=dtype)
    expected = a + a.flip(0, 1)
    run(main, target, a)
    close(a, expected)


def test_several_barriers_in_a_loop_of_two_dimensions(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((7, 9), "int32"), B: T.Tensor((7, 9), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((7, 9), "int32")
            for i, j in T.Parallel(7, 9):
                tile[i, j] = A[i, j]
                T.sync_threads()
                B[i, j] = tile[6 - i, j]
                T.sync_threads()
                tile[i, 8 - j] = B[i, j]
                T.sync_threads()
                B[i, j] = tile[i, j]

    a = integers(7, 9)
    equal(run(main, target, a, poison(7, 9, dtype="int32")), a.flip(0, 1))


@pytest.mark.parametrize("n", [1, 37, 700])
def test_loops_of_an_extent_known_at_run_time(n: int, target: str) -> None:
    size = T.dynamic("size")

    @T.prim_func
    def main(A: T.Tensor((size,), "int32"), B: T.Tensor((size,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(size):
                B[i] = A[i] + 1
                T.sync_threads()
                A[i] = B[size - 1 - i]

    a = integers(n)
    expected = a.flip(0) + 1
    run(main, target, a, poison(n, dtype="int32"))
    equal(a, expected)


def test_a_loop_that_begins_and_ends_with_a_barrier(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((50,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(50):
                T.sync_threads()
                A[i] = i
                T.sync_threads()

    equal(run(main, target, poison(50, dtype="int32")), torch.arange(50).int())


def _crossing(kind: str) -> Any:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            z = T.alloc_local((1,), "int32")
            for i in T.Parallel(64):
                if kind == "an array of the thread":
                    z[0] = A[i]
                    T.sync_threads()
                    A[63 - i] = z[0]
                elif kind == "a value":
                    x = A[i] + 1
                    T.sync_threads()
                    A[63 - i] = x
                elif kind == "a variable":
                    y = T.alloc_var("int32", init=i)
                    T.sync_threads()
                    A[i] = y
                elif kind == "a condition":
                    if A[i] > 0:
                        T.sync_threads()
                else:
                    for _ in T.serial(3):
                        T.sync_threads()

    return main


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("a value", errors.SemanticsError, "`x` of an iteration has a value before it"),
        ("a variable", errors.SemanticsError, "`y` of an iteration has a value before it"),
        ("an array of the thread", errors.SemanticsError, "`z` of an iteration has a value"),
        ("a condition", errors.ScopeError, "T.sync_threads under a condition or in a loop"),
        ("a loop", errors.ScopeError, "T.sync_threads under a condition or in a loop"),
    ],
)
def test_what_a_barrier_cannot_divide(kind: str, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        _crossing(kind)
