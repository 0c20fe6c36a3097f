"""Rows that the tensor memory accelerator moves one by one, to and from swizzled tiles."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import close, equal, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang.layout import (
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_quarter_bank_swizzled_layout,
)

TARGETS = ["sm_90a", "sm_100a", "sm_120a"]
LAYOUTS = {
    64: make_full_bank_swizzled_layout,
    32: make_half_bank_swizzled_layout,
    16: make_quarter_bank_swizzled_layout,
}


def gathered(rows: int, columns: int, count: int) -> Any:
    """Gathers ``rows`` rows of a matrix, ``count`` adjacent ones at a time, and scatters them."""

    @T.prim_func
    def main(
        A: T.Tensor((64, columns), "float16"),
        P: T.Tensor((rows // count,), "int32"),
        B: T.Tensor((rows, columns), "float16"),
        C: T.Tensor((64, columns), "float16"),
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((rows, columns), "float16")
            T.annotate_layout({tile: LAYOUTS[columns](tile)})
            there = T.alloc_barrier(128)
            for i in T.serial(rows // count):
                T.tma_copy(
                    A[P[i] : P[i] + count, :],
                    tile[i * count : (i + 1) * count, :],
                    barrier=there,
                )
            T.mbarrier_arrive(there)
            T.mbarrier_wait_parity(there, 0)
            T.copy(tile, B)
            for i in T.serial(rows // count):
                T.tma_copy(tile[i * count : (i + 1) * count, :], C[P[i] : P[i] + count, :])

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "columns", "count"),
    [(16, 64, 1), (24, 64, 4), (4, 64, 1), (16, 32, 2), (16, 32, 8), (16, 16, 4)],
)
def test_rows_of_a_swizzled_tile(rows: int, columns: int, count: int, target: str) -> None:
    a = normal(64, columns, dtype="float16")
    first = (torch.randperm(64 // count)[: rows // count] * count).int()
    b, c = poison(rows, columns, dtype="float16"), torch.zeros(64, columns).half()
    run(gathered(rows, columns, count), target, a, first, b, c)
    taken = (first[:, None] + torch.arange(count)).flatten()
    equal(b, a[taken])
    expected = torch.zeros_like(a)
    expected[taken] = a[taken]
    equal(c, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_elsewhere_are_refused(target: str) -> None:
    with pytest.raises(tilelang.errors.CompileError, match="multiple of 2 in dimension 0"):
        tilelang.compile(gathered(16, 32, 1), target=target)
    with pytest.raises(tilelang.errors.CompileError, match="nor lie in one group of 8 rows"):
        tilelang.compile(gathered(24, 64, 3), target=target)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_gemm_reads_gathered_rows(target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((256, 64), "bfloat16"),
        P: T.Tensor((64,), "int32"),
        W: T.Tensor((64, 64), "bfloat16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "bfloat16")
            w = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((64, 64), "float32")
            there = T.alloc_barrier(128)
            for i in T.serial(64):
                T.tma_copy(A[P[i], :], a[i, :], barrier=there)
            T.mbarrier_arrive(there)
            T.copy(W, w)
            T.mbarrier_wait_parity(there, 0)
            T.gemm(a, w, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    a, w = normal(256, 64, dtype="bfloat16"), normal(64, 64, dtype="bfloat16")
    rows = torch.randperm(256)[:64].int()
    c = run(main, target, a, rows, w, poison(64, 64))
    close(c, a[rows].double() @ w.double().T)
    assert "tma_load" in tilelang.compile(main, target=target).get_kernel_source()
