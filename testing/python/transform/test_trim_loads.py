"""Loads of tiles with more rows than their tensor has."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned
from tiling.gemms import plain_gemm

import tilelang
import tilelang.language as T
from tilelang.transform import remarks_of

OFF = {tilelang.PassConfigKey.TL_DISABLE_LOAD_TRIMMING: True}
N, K = 200, 72


def program(
    rows,
    m=64,
    n=64,
    depth=32,
    threads=128,
    batch=0,
    first=0,
    transposed=False,
    stages=2,
    sums=False,
    most=None,
):
    """C = A B with A (rows, K), or (batch, rows, K), or (K, rows); ``sums``: over all rows of C;
    ``most``: rows of the call are no more."""
    shape = (K, rows) if transposed else (batch, rows, K) if batch else (rows, K)

    @T.prim_func
    def main(
        A: T.Tensor(shape, "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((max(batch, 1), rows, N), "float16"),
        S: T.Tensor((N,), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(rows, m), max(batch, 1), threads=threads) as (
            bx, by, bz,
        ):  # fmt: skip
            if most is not None:
                T.assume(rows <= most)
            a = T.alloc_shared((depth, m) if transposed else (m, depth), "float16")
            b = T.alloc_shared((depth, n), "float16")
            c = T.alloc_fragment((m, n), "float32")
            s = T.alloc_fragment((n,), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, depth), num_stages=stages):
                if transposed:
                    T.copy(A[k * depth, by * m], a)
                elif batch:
                    T.copy(A[bz, by * m, k * depth], a)
                else:
                    T.copy(A[by * m + first, k * depth], a)
                T.copy(B[k * depth, bx * n], b)
                T.gemm(a, b, c, transpose_A=transposed)
            if sums:
                T.reduce_sum(c, s, dim=0)
                T.copy(s, S[bx * n])
            T.copy(c, C[bz, by * m, bx * n])

    return main


def trims(**options) -> bool:
    return bool(remarks_of("trim_loads", program(**options), "sm_90a"))


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    "options",
    [
        {"rows": 1},
        {"rows": 5, "m": 128, "threads": 256},
        {"rows": 9, "batch": 2},
        # mma.sync by two warps, of which one has none of the rows
        {"rows": 16, "n": 32, "depth": 16, "threads": 64},
    ],
    ids=str,
)
def test_results_are_those_of_a_float64_product(options):
    assert trims(**options)
    rows, batch = options["rows"], options.get("batch", 1)
    kernel = tilelang.compile(program(**options, sums="batch" not in options), target="sm_90a")
    torch.manual_seed(0)
    a, b = torch.randn(batch, rows, K).half(), torch.randn(K, N).half()
    c, s = poisoned((batch, rows, N), "float16", "cpu"), poisoned((N,), "float32", "cpu")
    kernel(a if "batch" in options else a[0], b, c, s)
    want = a.double() @ b.double()
    torch.testing.assert_close(c.double(), want, rtol=2e-3, atol=1e-3)
    if "batch" not in options:  # the rows beyond are zeros
        torch.testing.assert_close(s.double(), want[0].sum(0), rtol=1e-5, atol=1e-4)


def test_rows_of_the_call_are_as_many_as_an_assumption_says():
    rows = T.dynamic("rows")
    assert trims(rows=rows, most=9) and not trims(rows=rows, most=64)
    kernel = tilelang.compile(program(rows, most=9, sums=True), target="sm_90a")
    for count in (1, 9):
        a, b = torch.randn(count, K).half(), torch.randn(K, N).half()
        c, s = poisoned((1, count, N), "float16", "cpu"), poisoned((N,), "float32", "cpu")
        kernel(a, b, c, s)
        want = a.double() @ b.double()
        torch.testing.assert_close(c[0].double(), want, rtol=2e-3, atol=1e-3)
        torch.testing.assert_close(s.double(), want.sum(0), rtol=1e-5, atol=1e-4)


def test_no_more_bytes_come_than_exist():
    kernels = [tilelang.lower(program(5), target="sm_90a", pass_configs=c) for c in (None, OFF)]
    trimmed, whole = (kernel.source for kernel in kernels)
    assert f"expect_tx(a_full[a_slot], {(5 + 64) * 32 * 2}u)" in trimmed
    assert f"expect_tx(a_full[a_slot], {(64 + 64) * 32 * 2}u)" in whole


@pytest.mark.parametrize(
    "options",
    [
        {"rows": 64},
        {"rows": 100},
        {"rows": T.dynamic("rows")},
        {"rows": 8, "transposed": True},  # they are columns
        {"rows": 8, "first": -1},  # rows of the tensor that are not the first ones of the tile
    ],
    ids=str,
)
def test_tiles_whose_rows_may_exist_are_loaded_whole(options):
    assert not trims(**options)


def test_the_remark_says_what_was_done_and_how_to_turn_it_off():
    (remark,) = remarks_of("trim_loads", program(5), "sm_90a")
    assert "loads 5 rows, all that the tensor can have" in remark.message
    assert "tl.disable_load_trimming" in remark.message


def test_rows_along_k_are_loaded_whole():
    """A tile of B has 64 rows of K, of which 56 exist: the blocks are persistent as others are."""
    kernel = tilelang.compile(plain_gemm(3072, 2048, 56, order="NN"), target="sm_90a")
    said = " ".join(remark.message for remark in kernel.remarks)
    assert "all that the tensor can have" not in said and "as by T.Persistent" in said
    a, b = torch.randint(-4, 5, (3072, 56)).bfloat16(), torch.randint(-4, 5, (56, 2048)).bfloat16()
    c = torch.full((3072, 2048), torch.nan, dtype=torch.bfloat16)
    kernel(a, b, c)
    assert torch.equal(c.float(), (a.float() @ b.float()).bfloat16().float())
