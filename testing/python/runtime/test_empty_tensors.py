"""Tensors without elements: a kernel does nothing, or sees zeros beyond their ends."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T

TILE = 64


def copy_of_rows() -> Any:
    """By TMA where the target has it; the blocks are two, whatever the rows."""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, TILE), "float16"), B: T.Tensor((n, TILE), "float16")):
        with T.Kernel(2, threads=128) as block:
            tile = T.alloc_shared((TILE, TILE), "float16")
            for t in T.Persistent([T.ceildiv(n, TILE)], 2, block):
                T.copy(A[t * TILE, 0], tile)
                T.copy(tile, B[t * TILE, 0])
            T.copy(A[(block + 2) * TILE, 0], tile)
            T.copy(tile, B[(block + 2) * TILE, 0])

    return main


def product(turns: int, empty: str) -> Any:
    """A gemm whose extents named in ``empty`` are those of its arguments."""
    m, n, k = (T.dynamic(name) if name in empty else TILE for name in "mnk")

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(2, threads=128) as block:
            a = T.alloc_shared((TILE, TILE), "float16")
            b = T.alloc_shared((TILE, TILE), "float16")
            c = T.alloc_fragment((TILE, TILE), "float32")
            for i, j in T.Persistent([T.ceildiv(m, TILE), T.ceildiv(n, TILE)], 2, block):
                T.clear(c)
                for t in T.Pipelined(T.ceildiv(k, TILE) + turns, num_stages=2):
                    T.copy(A[i * TILE, t * TILE], a)
                    T.copy(B[t * TILE, j * TILE], b)
                    T.gemm(a, b, c)
                T.copy(c, C[i * TILE, j * TILE])

    return main


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_no_rows(target: str) -> None:
    kernel = tilelang.compile(copy_of_rows(), target=target)
    empty = torch.zeros(0, TILE, dtype=torch.float16)
    kernel(empty, empty.clone())
    a = torch.randn(TILE, TILE).half()
    b = torch.full_like(a, torch.nan)
    kernel(a, b)
    assert torch.equal(a, b)


CASES = [("sm_90a", "mk"), ("sm_90a", "n"), ("sm_100a", "k"), ("sm_100a", "mnk")]


@pytest.mark.parametrize(("target", "empty"), CASES)
def test_a_gemm_of_no_rows_columns_or_products(target: str, empty: str) -> None:
    # One turn more than K has tiles: what it loads lies beyond the ends.
    kernel = tilelang.compile(product(1, empty), target=target)
    m, n, k = (0 if name in empty else TILE for name in "mnk")
    c = torch.full((m, n), torch.nan)
    kernel(torch.ones(m, k).half(), torch.ones(k, n).half(), c)
    assert not c.count_nonzero()


@pytest.mark.requires_cuda
def test_empty_tensors_on_a_gpu() -> None:
    rows, gemm = (tilelang.compile(f, target="auto") for f in (copy_of_rows(), product(1, "k")))
    empty = torch.zeros(0, TILE, dtype=torch.float16, device="cuda")
    c = torch.full((TILE, TILE), torch.nan, device="cuda")
    for _ in range(2):
        rows(empty, empty.clone())
        gemm(empty.reshape(TILE, 0), empty, c)
    assert not c.count_nonzero()
