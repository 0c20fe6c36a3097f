"""Remarks on rows that begin where no vector of 16 bytes does, and what they advise."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T

M = 64


def gemm(columns: int, distance: int, dtype: str = "float16") -> Any:
    """C = A B^T of rows ``distance`` elements apart."""

    @T.prim_func
    def main(
        A: T.StridedTensor((M, columns), (distance, 1), dtype),
        B: T.StridedTensor((M, columns), (distance, 1), dtype),
        C: T.Tensor((M, M), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = (T.alloc_shared((M, 32), dtype) for _ in range(2))
            c = T.alloc_fragment((M, M), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(columns, 32), num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[0, k * 32], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    return main


def remarks(kernel: Any) -> list[str]:
    return [r.message for r in kernel.remarks if "bytes at a time: its rows" in r.message]


def rows(columns: int, distance: int) -> torch.Tensor:
    return torch.randint(-4, 5, (M, distance)).half()[:, :columns]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("columns", "width"), [(101, 2), (102, 4), (100, 8)])
def test_operands_whose_rows_no_vector_divides(columns: int, width: int, target: str) -> None:
    kernel = tilelang.compile(gemm(columns, columns), target=target)
    assert remarks(kernel) == [
        f"{name} is accessed {width} bytes at a time: its rows are {columns} elements apart, "
        "which is not a multiple of 16 bytes. Rows 104 elements apart would be accessed 16 bytes "
        "at a time: pass a part of a longer tensor as T.StridedTensor"
        for name in "AB"
    ]
    as_advised = tilelang.compile(gemm(columns, 104), target=target)
    assert not remarks(as_advised)
    wide = "tl::tma_load(" if target == "sm_90a" else ", 16, "
    assert wide in as_advised.get_kernel_source()
    for each, distance in (kernel, columns), (as_advised, 104):
        a, b = rows(columns, distance), rows(columns, distance)
        c = torch.full((M, M), float("nan"))
        each(a, b, c)
        assert torch.equal(c, a.float() @ b.float().T)


@pytest.mark.parametrize(
    ("shape", "extents", "begin"),
    [
        ((8, 128), (8, 64), 0),  # vectors
        ((8, 101), (8, 101), 0),  # the tile's own rows have no vectors
        ((8, 101), (8, 64), 3),  # nor would they begin at a multiple of 16 bytes
        ((1, 101), (1, 64), 0),  # one row
    ],
)
def test_no_remark_where_the_distance_is_not_at_fault(shape, extents, begin) -> None:
    height, width = extents

    @T.prim_func
    def main(A: T.Tensor(shape, "float16"), B: T.Tensor(extents, "float16")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared(extents, "float16")
            T.copy(A[0:height, begin : begin + width], a)
            T.copy(a, B)

    kernel = tilelang.compile(main, target="sm_80")
    assert not remarks(kernel)
    a, b = torch.randn(shape).half(), torch.zeros(extents).half()
    kernel(a, b)
    assert torch.equal(b, a[:, begin : begin + width])
