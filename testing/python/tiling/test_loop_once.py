"""Tiles of GEMMs whose K is one step: the launch has no loop, or one that is simplified away."""

from __future__ import annotations

import pytest
import torch
from tiling.gemms import plain_gemm

import tilelang
import tilelang.language as T

#: What stands around the loads and the GEMM.
FORMS = (
    "cleared", "clears", "filled", "added", "reads an operand", "second load", "cleared again",
)  # fmt: skip
#: A problem of more tiles than a wave has, so that blocks compute several.
LARGE = (2600, 2304, 64)


def program(rows, columns, depth, form, m=128, n=128, k=64):
    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "bfloat16"),
        B: T.Tensor((depth, columns), "bfloat16"),
        C: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(T.ceildiv(columns, n), T.ceildiv(rows, m), threads=128) as (bx, by):
            a = T.alloc_shared((m, k), "bfloat16")
            b = T.alloc_shared((k, n), "bfloat16")
            c = T.alloc_fragment((m, n), "float32")
            if form == "added":
                T.copy(C[by * m, bx * n], c)
            T.copy(A[by * m, 0], a)
            if form == "filled":
                T.fill(c, 1.0)
            T.copy(B[0, bx * n], b)
            if form not in ("clears", "added", "filled"):
                T.clear(c)
            T.gemm(a, b, c, clear_accum=form == "clears")
            if form == "second load":
                T.copy(A[by * m, depth // 2], a)
                T.gemm(a, b, c)
            if form == "cleared again":
                T.clear(c)
                T.gemm(a, b, c)
            if form == "reads an operand":
                for i, j in T.Parallel(m, n):
                    c[i, j] += a[i, 0]
            T.copy(c, C[by * m, bx * n])

    return main


def expected(form, a, b, c):
    product = a @ b
    if form == "filled":
        return product + 1
    if form == "added":
        return product + c
    if form == "reads an operand":
        return product + a[:, :1]
    if form == "second load":
        half = a.shape[1] // 2
        return product + a[:, half:] @ b[:half]
    return product


def has_choice(kernel):
    return any("chosen" in line for line in str(kernel.schedule()).splitlines())


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("shape", [LARGE, (500, 344, 40), (1000, 1000, 24)], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_programs_without_a_loop(target, shape, form):
    kernel = tilelang.compile(program(*shape, form), target=target)
    assert has_choice(kernel) or form in ("added", "second load", "cleared again")
    rows, columns, depth = shape
    a = torch.randint(-4, 5, (rows, depth)).bfloat16()
    b = torch.randint(-4, 5, (depth, columns)).bfloat16()
    c = torch.randint(-4, 5, (rows, columns)).float()
    want = expected(form, a.float(), b.float(), c)
    if form != "added":
        c.fill_(torch.nan)
    kernel(a, b, c)
    assert torch.equal(c, want)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
def test_few_blocks_stay_as_they_are(target):
    kernel = tilelang.compile(program(256, 384, 64, "cleared"), target=target)
    assert not has_choice(kernel)


def test_stores_of_other_tiles_stand_between():
    """The copy of A into C runs before the loads of the GEMM, so that there is no loop."""

    @T.prim_func
    def main(
        A: T.Tensor((1280, 64), "bfloat16"),
        B: T.Tensor((1280, 64), "bfloat16"),
        C: T.Tensor((1280, 64), "bfloat16"),
    ):
        with T.Kernel(10, threads=128) as bx:
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((128, 64), "float32")
            T.copy(A[bx * 128, 0], a)
            T.copy(a, B[bx * 128, 0])
            T.copy(A[0:64, 0:64], b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C[bx * 128, 0])

    kernel = tilelang.compile(main, target="sm_100a")
    a = torch.randint(-4, 5, (1280, 64)).bfloat16()
    b, c = torch.full_like(a, torch.nan), torch.full_like(a, torch.nan)
    kernel(a, b, c)
    assert torch.equal(b, a)
    assert torch.equal(c.float(), (a.float() @ a[:64].float()).bfloat16().float())


def test_blocks_of_short_loops_load_the_next_tile():
    """Two iterations a tile, but more stages; the result goes through shared memory to TMA."""
    shape = (4096, 4096, 128)
    kernel = tilelang.compile(plain_gemm(*shape), target="sm_100a")
    schedule = str(kernel.schedule())
    assert "staged in 2 slots" in schedule
    slots = next(line.split()[2] for line in schedule.splitlines() if line.startswith("a, b"))
    assert int(slots) > 2
