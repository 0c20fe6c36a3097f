"""Gemms whose stores are shifted against the loads of their operands, by other tiles."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count

DEPTH = 16
K = DEPTH * 34  # a long loop: other tiles are chosen for it


@dataclass(frozen=True)
class Case:
    """C[row + rows, column + columns] = the product (+ bias) where that is an element of C."""

    m: int
    n: int
    rows: int
    columns: int = 0
    form: str = "loop"
    bias: bool = False
    c_rows: int | None = None


def program(case: Case, dynamic: bool = False):
    n, dtype = case.n, "float16"
    m = T.dynamic("m") if dynamic else case.m
    height = m if case.c_rows is None else case.c_rows
    rows, columns, form, bias = case.rows, case.columns, case.form, case.bias

    @T.prim_func
    def kernel(
        A: T.Tensor((m, K), dtype),
        B: T.Tensor((n, K), dtype),
        Bias: T.Tensor((n,), "float32"),
        C: T.Tensor((height, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 128), threads=128) as (bx, by):
            a = T.alloc_shared((128, DEPTH), dtype)
            b = T.alloc_shared((128, DEPTH), dtype)
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(K // DEPTH, num_stages=2):
                T.copy(A[by * 128, k * DEPTH], a)
                T.copy(B[bx * 128, k * DEPTH], b)
                T.gemm(a, b, c, transpose_B=True)
            if bias:
                for i, j in T.Parallel(128, 128):
                    c[i, j] = c[i, j] + Bias[bx * 128 + j]
            if form == "copy":
                T.copy(c, C[by * 128 + rows, bx * 128 + columns])
            else:
                for i, j in T.Parallel(128, 128):
                    if by * 128 + i + rows >= 0 and bx * 128 + j + columns >= 0:
                        C[by * 128 + i + rows, bx * 128 + j + columns] = c[i, j]

    return kernel


def check(kernel, case: Case, m: int) -> None:
    """Rows of whole tiles of 128 are stored: behind the operands' rows they are zeros, or bias."""
    a, b = (torch.randint(-1, 2, (extent, K)).half() for extent in (m, case.n))
    bias = torch.randint(-3, 4, (case.n,)).float()
    height = m if case.c_rows is None else case.c_rows
    c = torch.full((height, case.n), -77.0)
    tiles = (-(-m // 128) * 128, -(-case.n // 128) * 128)
    product = torch.zeros(tiles)
    product[:m, : case.n] = (a.double() @ b.double().T).float()
    if case.bias:
        product[:, : case.n] += bias
    want = c.clone()
    for row in range(height):
        from_row = row - case.rows
        if not 0 <= from_row < tiles[0]:
            continue
        first, last = max(0, case.columns), min(case.n, tiles[1] + case.columns)
        want[row, first:last] = product[from_row, first - case.columns : last - case.columns]
    kernel(a, b, bias, c)
    assert torch.equal(c, want), (c != want).any(1).nonzero().flatten()


CASES = [
    Case(600, 128, -90),
    Case(600, 128, -3, form="copy"),
    Case(600, 128, -3, bias=True),
    Case(300, 128, 5),
    Case(300, 128, -3, c_rows=310),
    Case(300, 128, 0, c_rows=320),
    Case(300, 128, 3, form="copy", c_rows=290),
    Case(600, 256, 0, columns=-8),
    Case(256, 200, 0, columns=8, form="copy"),
    Case(600, 128, -128, bias=True),
]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_row_is_stored(target: str, case: Case) -> None:
    check(tilelang.compile(program(case), target=target), case, case.m)


@pytest.mark.parametrize("case", CASES[:3] + CASES[-1:], ids=str)
def test_every_row_of_a_call_is_stored(case: Case) -> None:
    kernel = tilelang.compile(program(case, dynamic=True), target="sm_90a")
    for m in (16, 33, 64, 100, 128, 257):
        check(kernel, case, m)


@pytest.mark.parametrize("sm_count", [1, 2])
@pytest.mark.parametrize("case", [Case(400, 384, -3, form="copy"), Case(384, 384, 5, form="copy")])
def test_every_row_of_several_waves_is_stored(sm_count: int, case: Case) -> None:
    kernel = tilelang.compile(program(case), target=with_sm_count(resolve("sm_90a"), sm_count))
    check(kernel, case, case.m)


def test_tiles_are_still_chosen_for_stores_in_place() -> None:
    case = Case(600, 128, 0)
    kernel = tilelang.compile(program(case), target="sm_90a")
    assert any(remark.topic == "tiles" for remark in kernel.remarks)
    check(kernel, case, case.m)


@T.prim_func
def add_next_row(
    A: T.Tensor((128, K), "float16"),
    B: T.Tensor((128, K), "float16"),
    C: T.Tensor((129, 128), "float32"),
):
    """C = A B^T + the next row of C as it was: one block reads it all before it stores."""
    with T.Kernel(1, 1, threads=128) as (bx, by):
        a = T.alloc_shared((128, DEPTH), "float16")
        b = T.alloc_shared((128, DEPTH), "float16")
        c = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        for k in T.Pipelined(K // DEPTH, num_stages=2):
            T.copy(A[by * 128, k * DEPTH], a)
            T.copy(B[bx * 128, k * DEPTH], b)
            T.gemm(a, b, c, transpose_B=True)
        for i, j in T.Parallel(128, 128):
            c[i, j] = c[i, j] + C[by * 128 + i + 1, 127 - (bx * 128 + j)]
        for i, j in T.Parallel(128, 128):
            C[by * 128 + i, bx * 128 + j] = c[i, j]


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_block_that_reads_what_it_stores_elsewhere_stays_whole(target: str) -> None:
    kernel = tilelang.compile(add_next_row, target=target)
    a, b = (torch.randint(-1, 2, (128, K)).half() for _ in "ab")
    c = torch.randint(-5, 6, (129, 128)).float()
    want = c.clone()
    want[:128] = (a.double() @ b.double().T).float() + c[1:].flip(1)
    kernel(a, b, c)
    assert torch.equal(c, want)


def heads(m: int, count: int):
    @T.prim_func
    def kernel(
        A: T.Tensor((m, count, K), "float16"),
        B: T.Tensor((128, count, K), "float16"),
        C: T.Tensor((m, count, 128), "float32"),
    ):
        with T.Kernel(1, T.ceildiv(m, 128), count, threads=128) as (bx, by, bz):
            a = T.alloc_shared((128, DEPTH), "float16")
            b = T.alloc_shared((128, DEPTH), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(K // DEPTH, num_stages=2):
                T.copy(A[by * 128 : by * 128 + 128, bz, k * DEPTH : k * DEPTH + DEPTH], a)
                T.copy(B[bx * 128 : bx * 128 + 128, bz, k * DEPTH : k * DEPTH + DEPTH], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * 128 : by * 128 + 128, bz, bx * 128 : bx * 128 + 128])

    return kernel


def test_extents_are_those_of_the_dimension_that_tiles_move_along() -> None:
    """A dimension that a tile does not move along is between its two."""
    kernel = tilelang.compile(heads(300, 2), target="sm_90a")
    a, b = torch.randint(-1, 2, (300, 2, K)).half(), torch.randint(-1, 2, (128, 2, K)).half()
    c = torch.full((300, 2, 128), -77.0)
    kernel(a, b, c)
    want = torch.einsum("mhk,nhk->mhn", a.double(), b.double())
    assert torch.equal(c.double(), want)
