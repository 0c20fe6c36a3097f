"""Loops in which each thread takes every n-th row: rows of one thread need no barrier."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

TARGETS = ["sm_80", "sm_90a", "sm_100a", "sm_120a"]


def lowered(step, shift=0, width=3, target="sm_100a"):
    """Rows that are read, tested and written again; ``shift`` rows further they are read."""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, width), "int32")):
        with T.Kernel(2, threads=96) as bx:
            first = bx * 96 + T.get_thread_binding()
            for i in T.serial(first, n - shift, step):
                for j in T.unroll(width):
                    x = A[i + shift, j]
                    if x > 3:
                        A[i, j] = x - 3

    return tilelang.compile(main, target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("step", [192, 200])
def test_rows_of_one_thread(step: int, target: str) -> None:
    a = torch.arange(3 * 601).int().view(601, 3) % 17
    rows = torch.arange(601) % step < 192
    expected = torch.where((a > 3) & rows[:, None], a - 3, a)
    lowered(step, target=target)(a)
    assert torch.equal(a, expected)


def test_rows_that_threads_share_are_refused() -> None:
    with pytest.raises(errors.SemanticsError, match="threads that take this branch must wait"):
        lowered(64)
    with pytest.raises(errors.SemanticsError, match="threads that take this branch must wait"):
        lowered(192, shift=1)


def test_rows_that_approach_each_other_are_refused() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            for i in T.serial((n - t) // 64):
                if A[t + i * 64] > A[4096 - t - i * 64]:
                    A[t + i * 64] = 0

    with pytest.raises(errors.SemanticsError, match="threads that take this branch must wait"):
        tilelang.compile(main, target="sm_100a")


def test_a_step_as_large_as_what_all_threads_touch() -> None:
    """Threads of a block touch elements 0, 2, ..., 62, 64, and the next iteration begins at 65."""

    def kernel(step):
        n = T.dynamic("n")

        @T.prim_func
        def main(A: T.Tensor((n,), "int32")):
            with T.Kernel(1, threads=33):
                t = T.get_thread_binding()
                for k in T.serial(n // step - 1):
                    i = t * 2 + k * step
                    if A[i] > t:
                        A[i] = A[i] - t

        return tilelang.compile(main, target="sm_90a")

    a = torch.arange(65 * 9).int()
    expected = a.clone()
    for k in range(8):
        rows = torch.arange(33) * 2 + k * 65
        t = torch.arange(33).int()
        expected[rows] = torch.where(a[rows] > t, a[rows] - t, a[rows])
    apart = kernel(65)
    apart(a)
    assert torch.equal(a, expected)
    assert "__syncthreads" not in apart.get_kernel_source()
    assert "__syncthreads" in kernel(64).get_kernel_source()


def test_tiles_in_shared_memory() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((512,), "int32")
            t = T.get_thread_binding()
            T.fill(tile, 1)
            for i in T.serial(t, n, 64):
                if tile[i] + A[i] > 9:
                    tile[i] = A[i]
            for i in T.serial(t, n, 64):
                A[i] = tile[i] + 1

    a = torch.arange(300).int()
    expected = torch.where(a > 8, a, 1) + 1
    tilelang.compile(main, target="sm_100a")(a)
    assert torch.equal(a, expected.int())
