"""Parallel loops that only copy boxes of tensors to shared tiles are copies."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.transform import run_pass

TARGETS = ("sm_100a", "sm_90a", "sm_80", "sm_120a")

#: an element of the tile by the loop's i and j, and the first row and column of the tile in A
COPIES = {
    "plain": lambda A, y, x, i, j: A[y + i, x + j],
    "behind the end": lambda A, y, x, i, j: T.if_then_else(x + j < A.shape[1], A[y + i, x + j], 0),
    "both dimensions": lambda A, y, x, i, j: T.if_then_else(
        T.And(y + i < A.shape[0], A.shape[1] > x + j), A[y + i, x + j], T.float16(0)
    ),
}
OTHERS = {
    "transposed": lambda A, y, x, i, j: A[y + j, x + i],
    "reversed": lambda A, y, x, i, j: A[y + i, x + 31 - j],
    "every second": lambda A, y, x, i, j: A[y + i, x + 2 * j],
    "repeated rows": lambda A, y, x, i, j: A[y + i // 2, x + j],
    "one column": lambda A, y, x, i, j: A[y + i, x],
    "diagonal": lambda A, y, x, i, j: A[y + i, x + i + j],
    "computed": lambda A, y, x, i, j: A[y + i, x + j] * T.float16(2),
    "other fill": lambda A, y, x, i, j: T.if_then_else(
        x + j < A.shape[1], A[y + i, x + j], T.float16(1)
    ),
    "negative zero": lambda A, y, x, i, j: T.if_then_else(
        x + j < A.shape[1], A[y + i, x + j], T.float16(-0.0)
    ),
    "mask inside": lambda A, y, x, i, j: T.if_then_else(i <= j, A[y + i, x + j], T.float16(0)),
    "through float8": lambda A, y, x, i, j: T.cast(A[y + i, x + j], "float8_e4m3"),
}


def moved(element, rows=100, columns=72, out="float16"):
    """B gets 32 x 32 tiles of A by a shared tile, which `element` fills."""

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float16"), B: T.Tensor((rows, columns), out)):
        with T.Kernel(T.ceildiv(columns, 32), T.ceildiv(rows, 32), threads=128) as (bx, by):
            a = T.alloc_shared((32, 32), out)
            for i, j in T.Parallel(32, 32):
                a[i, j] = element(A, by * 32, bx * 32, i, j)
            T.copy(a, B[by * 32, bx * 32])

    return main


def copies_of(program):
    return str(run_pass("name_copies", program)).count("copy(A[")


@pytest.mark.parametrize("name", COPIES)
def test_copies_are_found(name):
    assert copies_of(moved(COPIES[name])) == 1


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_stay(name):
    program = moved(OTHERS[name])
    assert str(run_pass("name_copies", program)) == str(program)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize(("rows", "columns"), [(100, 72), (33, 51)])
def test_results(name, target, rows, columns):
    kernel = tilelang.compile(moved(COPIES[name], rows, columns), target=target)
    a = torch.randn(rows, columns).half()
    b = torch.full_like(a, torch.nan)
    kernel(a, b)
    assert torch.equal(b, a)


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize("out", ["float32", "bfloat16"])
def test_conversions(target, out):
    program = moved(COPIES["behind the end"], 45, 40, out)
    assert copies_of(program) == 1
    a = torch.randn(45, 40).half()
    b = torch.full_like(a, torch.nan, dtype=getattr(torch, out))
    tilelang.compile(program, target=target)(a, b)
    assert torch.equal(b, a.to(b.dtype))


def test_a_loop_of_several_tiles_and_a_branch():
    @T.prim_func
    def main(
        A: T.Tensor((50, 48), "float32"),
        B: T.Tensor((50, 48), "float32"),
        C: T.Tensor((50, 48), "float32"),
    ):
        with T.Kernel(4, threads=128) as by:
            a = T.alloc_shared((16, 48), "float32")
            b = T.alloc_shared((2, 16, 48), "float32")
            for i, j in T.Parallel(16, 48):
                a[i, j] = A[by * 16 + i, j]
                if by * 16 + i < 50:
                    b[1, i, j] = B[by * 16 + i, j]
                else:
                    b[1, i, j] = 0
            for i, j in T.Parallel(16, 48):
                C[by * 16 + i, j] = a[i, j] - b[1, i, j]

    text = str(run_pass("name_copies", main))
    assert text.count("copy(") == 2 and text.count("in Parallel(") == 1
    a, b = torch.randn(2, 50, 48)
    for target in TARGETS:
        c = torch.full_like(a, torch.nan)
        tilelang.compile(main, target=target)(a, b, c)
        assert torch.equal(c, a - b)


def test_a_loop_that_fills_a_tile_twice_stays():
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((16, 32), "float32")
            for i, j in T.Parallel(16, 32):
                a[i, j] = A[i, j]
                a[i, j] = B[i, j]
            T.copy(a, A)

    assert str(run_pass("name_copies", main)) == str(main)


def product(by_loops, m=200, n=136, k=152):
    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float16"),
    ):
        with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 128), threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for s in T.Pipelined(T.ceildiv(k, 64), num_stages=3):
                if by_loops:
                    for i, j in T.Parallel(128, 64):
                        a[i, j] = A[by * 128 + i, s * 64 + j]
                    for i, j in T.Parallel(64, 128):
                        b[i, j] = T.if_then_else(s * 64 + i < k, B[s * 64 + i, bx * 128 + j], 0)
                else:
                    T.copy(A[by * 128, s * 64], a)
                    T.copy(B[s * 64, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 128])

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_a_gemm_is_compiled_as_with_copies(target):
    def code(program):
        lines = tilelang.compile(program, target=target).get_kernel_source().splitlines()
        return [line for line in lines if not line.strip().startswith("//")]

    assert code(product(True)) == code(product(False))
    a, b = torch.randn(200, 152).half(), torch.randn(152, 136).half()
    c = torch.full((200, 136), torch.nan).half()
    tilelang.compile(product(True), target=target)(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=2e-3, atol=2e-2)
