"""Loads of a role that threads do after all, because TMA does not fit the layout of a tile."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

AS_WRITTEN = {"tl.disable_tile_choice": True}


def program(order: str, columns: int = 64):
    """C = A B of float32 with tiles of 64 x ``columns``."""
    M, N, K = (T.dynamic(name) for name in "MNK")
    ta, tb = (each == "T" for each in order)

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if ta else (M, K), "float32"),
        B: T.Tensor((N, K) if tb else (K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((32, 64) if ta else (64, 32), "float32")
            b = T.alloc_shared((columns, 32) if tb else (32, columns), "float32")
            c = T.alloc_fragment((64, columns), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                if ta:
                    T.copy(A[k * 32, by * 64], a)
                else:
                    T.copy(A[by * 64, k * 32], a)
                if tb:
                    T.copy(B[bx * columns, k * 32], b)
                else:
                    T.copy(B[k * 32, bx * columns], b)
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
            T.copy(c, C[by * 64, bx * columns])

    return main


def check(kernel, order: str) -> None:
    torch.manual_seed(0)
    for m, n, k in [(1, 8, 24), (130, 72, 200), (65, 132, 68)]:
        a, b = (torch.randint(-4, 5, shape).float() for shape in ((m, k), (k, n)))
        stored = [x.T.contiguous() if t == "T" else x for x, t in zip((a, b), order, strict=True)]
        c = torch.full((m, n), torch.nan)
        kernel(*stored, c)
        assert torch.equal(c, a @ b)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("order", ["NN", "TN", "TT"])
def test_results(target, order):
    check(tilelang.compile(program(order), target=target), order)


@pytest.mark.every_schedule
@pytest.mark.parametrize("order", ["NN", "TN"])
def test_consumers_are_told_of_tiles_that_threads_load(order):
    """Tiles of 48 columns along N have no layout that TMA fills."""
    kernel = tilelang.compile(program(order, 48), target="sm_100a", pass_configs=AS_WRITTEN)
    assert any("is done by threads after all" in remark.message for remark in kernel.remarks)
    check(kernel, order)


def test_chosen_tiles_are_loaded_by_tma():
    kernel = tilelang.compile(program("NN"), target="sm_100a")
    assert not any("is done by threads after all" in remark.message for remark in kernel.remarks)


def of_parts(rows: int, cuts: tuple[int, ...], width: int, dtype: str, reverse: bool):
    """C = A B^T with 5 blocks of K; each part of the rows of B has a copy."""
    ends = (*cuts, rows)
    parts = list(zip((0, *cuts), ends, strict=True))
    if reverse:
        parts.reverse()

    @T.prim_func
    def main(
        A: T.Tensor((64, 5 * width), dtype),
        B: T.Tensor((rows, 5 * width), dtype),
        C: T.Tensor((64, rows), "float32"),
        steps: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, width), dtype)
            b = T.alloc_shared((rows, width), dtype)
            c = T.alloc_fragment((64, rows), "float32")
            T.clear(c)
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(A[0, k * width], a)
                for first, last in parts:
                    T.copy(B[first:last, k * width : (k + 1) * width], b[first:last, :])
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("rows", "cuts", "width", "dtype"),
    [
        (40, (20,), 32, "bfloat16"),
        (40, (3, 37), 64, "float16"),
        (48, (8, 21, 32, 44), 32, "bfloat16"),
        (16, (1,), 64, "float8_e4m3fn"),
        (72, (30,), 16, "float32"),
    ],
)
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
def test_parts_that_begin_within_a_swizzle_atom(target, rows, cuts, width, dtype, reverse):
    """TMA loads the parts that begin at multiples of 8 rows, the threads of its role the others."""
    if (target, dtype) == ("sm_80", "float8_e4m3fn"):
        pytest.skip("sm_80 has no tensor core for float8")
    kernel = tilelang.compile(of_parts(rows, cuts, width, dtype, reverse), target=target)
    a, b = (torch.randint(-4, 5, (n, 5 * width)).float() for n in (64, rows))
    kind = getattr(torch, dtype)
    for steps in (1, 5):
        c = torch.full((64, rows), torch.nan)
        kernel(a.to(kind), b.to(kind), c, steps)
        k = steps * width
        assert torch.equal(c, a[:, :k] @ b[:, :k].T)
