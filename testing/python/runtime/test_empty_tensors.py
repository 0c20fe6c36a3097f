"""Tensors without elements: a kernel does nothing, or sees zeros beyond their ends."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import BoundsError

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


def eager_product(target: str) -> Any:
    """A gemm whose sizes are constants of the compiled code."""

    @tilelang.jit(target=target)
    def main(A, B):
        m, n, k = T.const("m, n, k")
        A: T.Tensor((m, k), "float16")
        B: T.Tensor((k, n), "float16")
        C = T.empty((m, n), "float32")
        with T.Kernel(T.ceildiv(n, TILE), T.ceildiv(m, TILE), threads=128) as (bx, by):
            a = T.alloc_shared((TILE, 32), "float16")
            b = T.alloc_shared((32, TILE), "float16")
            c = T.alloc_fragment((TILE, TILE), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(k, 32), num_stages=2):
                T.copy(A[by * TILE, i * 32], a)
                T.copy(B[i * 32, bx * TILE], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * TILE, bx * TILE])
        return C

    return main


def lazy_product(target: str) -> Any:
    """The gemm as a function that is compiled for given sizes."""

    @tilelang.jit(target=target, out_idx=[2])
    def main(m, n, k):
        @T.prim_func
        def product(
            A: T.Tensor((m, k), "float16"),
            B: T.Tensor((k, n), "float16"),
            C: T.Tensor((m, n), "float32"),
        ):
            with T.Kernel(T.ceildiv(n, TILE), T.ceildiv(m, TILE), threads=128) as (bx, by):
                a = T.alloc_shared((TILE, 32), "float16")
                b = T.alloc_shared((32, TILE), "float16")
                c = T.alloc_fragment((TILE, TILE), "float32")
                T.copy(A[0, 0], a)  # of which there may be no element
                T.clear(c)
                for i in T.Pipelined(T.ceildiv(k, 32), num_stages=2):
                    T.copy(A[by * TILE, i * 32], a)
                    T.copy(B[i * 32, bx * TILE], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * TILE, bx * TILE])

        return product

    return lambda a, b: main(a.shape[0], b.shape[1], a.shape[1])(a, b)


TARGETS = ["sm_80", "sm_90a", "sm_100a", "sm_120a"]


@pytest.mark.parametrize("make", [eager_product, lazy_product])
@pytest.mark.parametrize("target", TARGETS)
def test_constant_sizes_of_0(target: str, make: Any) -> None:
    run = make(target)
    for m, n, k in ((0, 70, 40), (70, 0, 40), (70, 90, 0), (0, 0, 0), (70, 90, 40)):
        a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
        c = run(a, b)
        assert c.shape == (m, n)
        torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [(0, 5), (5, 0), (0, 0), (5, 5)])
def test_elements_and_sums_of_constant_sizes_of_0(size: tuple[int, int], target: str) -> None:
    @tilelang.jit(target=target)
    def main(A):
        m, n = T.const("m, n")
        A: T.Tensor((m, n), "float32")
        sums, doubled = T.empty((m,)), T.empty((m, n))
        with T.Kernel(m, threads=128) as row:
            total = T.alloc_var("float32", init=0.0)
            for j in T.serial(n):
                total += A[row, j]
            if T.get_thread_binding() == 0:
                sums[row] = total
            for j in T.Parallel(n):
                doubled[row, j] = A[row, j] * 2
        return sums, doubled

    a = torch.randn(*size)
    sums, doubled = main(a)
    torch.testing.assert_close(sums, a.sum(1))
    assert torch.equal(doubled, a * 2)


def test_a_slice_without_elements_is_refused() -> None:
    @tilelang.jit(target="sm_90a")
    def main(A):
        m, n = T.const("m, n")
        A: T.Tensor((m, n), "float32")
        with T.Kernel(m, threads=128) as row:
            total = T.alloc_fragment((1,), "float32")
            T.reduce_sum(A[row : row + 1, :], total, dim=1)

    with pytest.raises(BoundsError, match=r"slice 0:0 of dimension 1 of A .* is empty"):
        main(torch.zeros(5, 0))


@pytest.mark.requires_cuda
def test_empty_tensors_on_a_gpu() -> None:
    rows, gemm = (tilelang.compile(f, target="auto") for f in (copy_of_rows(), product(1, "k")))
    empty = torch.zeros(0, TILE, dtype=torch.float16, device="cuda")
    c = torch.full((TILE, TILE), torch.nan, device="cuda")
    for _ in range(2):
        rows(empty, empty.clone())
        gemm(empty.reshape(TILE, 0), empty, c)
    assert not c.count_nonzero()
