"""T.Parallel over some rows of a fragment: a condition that keeps its indices inside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import equal, integers, poison, run

import tilelang
import tilelang.language as T

ROWS, COLUMNS = 32, 128


def rows_of(first: int, count: int, shift: int) -> Any:
    """Stores rows [first + shift, first + count + shift) of A @ B to rows [first, ...) of C."""

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, 32), "float16"),
        B: T.Tensor((32, COLUMNS), "float16"),
        C: T.Tensor((ROWS, COLUMNS), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((ROWS, 32), "float16")
            b = T.alloc_shared((32, COLUMNS), "float16")
            acc = T.alloc_fragment((ROWS, COLUMNS), "float32")
            half = T.alloc_shared((ROWS, COLUMNS), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, acc, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
            T.fill(half, -1)
            for i, j in T.Parallel(ROWS, COLUMNS):
                if i >= first and i < first + count:
                    half[i, j] = acc[i + shift, j]
            T.copy(half, C)

    return main


@pytest.mark.parametrize(
    ("first", "count", "shift"), [(0, 16, 16), (0, 8, 24), (8, 16, -8), (16, 16, -16), (5, 3, 20)]
)
def test_rows(first: int, count: int, shift: int, target: str) -> None:
    a = integers(ROWS, 32, low=-4, high=4, dtype="float16")
    b = integers(32, COLUMNS, low=-4, high=4, dtype="float16")
    c = run(rows_of(first, count, shift), target, a, b, poison(ROWS, COLUMNS))
    expected = torch.full((ROWS, COLUMNS), -1.0)
    expected[first : first + count] = (a.float() @ b.float())[first + shift :][:count]
    equal(c, expected)


def test_rows_are_not_staged() -> None:
    kernel = tilelang.compile(rows_of(0, 16, 16), target="sm_90a")
    assert "acc_stage" not in kernel.get_kernel_source()
