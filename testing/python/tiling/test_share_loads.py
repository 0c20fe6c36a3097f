"""Pairs of blocks of one wave that load tiles of B together."""

from __future__ import annotations

import re

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count

TOGETHER = "two blocks, a cluster, load tiles of B together"
AS_WRITTEN = {"tl.disable_tile_choice": True}
ALONE = {"tl.disable_load_sharing": True}


def on(sm_count):
    return with_sm_count(resolve("sm_90a"), sm_count)


def program(rows, columns, depth, order="NT", out="bfloat16", grid_rows=None, epilogue="", panel=0):
    """f(A B) with tiles of 64 x 256; ``grid_rows``: rows of tiles that are computed."""
    ta, tb = order

    def at(stored, row, column):
        return (column, row) if stored == "T" else (row, column)

    @T.prim_func
    def main(
        A: T.Tensor(at(ta, rows, depth), "bfloat16"),
        B: T.Tensor(at(tb, depth, columns), "bfloat16"),
        C: T.Tensor((rows, columns), out),
        D: T.Tensor((rows, columns), "float32"),
    ):
        grid = T.ceildiv(columns, 256), grid_rows or T.ceildiv(rows, 64)
        with T.Kernel(*grid, threads=128) as (bx, by):
            a = T.alloc_shared(at(ta, 64, 64), "bfloat16")
            b = T.alloc_shared(at(tb, 64, 256), "bfloat16")
            c = T.alloc_fragment((64, 256), "float32")
            if panel:
                T.use_swizzle(panel)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(depth, 64), num_stages=3):
                T.copy(A[at(ta, by * 64, step * 64)], a)
                T.copy(B[at(tb, step * 64, bx * 256)], b)
                T.gemm(a, b, c, transpose_A=ta == "T", transpose_B=tb == "T")
            if epilogue == "relu":
                for i, j in T.Parallel(64, 256):
                    c[i, j] = T.max(c[i, j], 0.0)
            elif epilogue == "two":
                T.copy(c, D[by * 64, bx * 256])
            elif epilogue == "added":
                T.atomic_add(D[by * 64, bx * 256], c)
            T.copy(c, C[by * 64, bx * 256])

    return main


def compiled(given, target, config=None):
    return tilelang.compile(given, target=target, pass_configs=AS_WRITTEN | (config or {}))


def remarks(kernel):
    return " ".join(remark.message for remark in kernel.remarks)


def run(kernel, rows, columns, depth, order):
    """The operands as matrices of float64, and both results, which held NaN (C) and 1 (D)."""
    torch.manual_seed(rows + columns)
    (ta, tb) = order
    a = torch.randn((depth, rows) if ta == "T" else (rows, depth)).bfloat16()
    b = torch.randn((columns, depth) if tb == "T" else (depth, columns)).bfloat16()
    c, d = poisoned((rows, columns), "bfloat16"), torch.ones(rows, columns)
    kernel(a, b, c, d)
    return (a.T if ta == "T" else a).double() @ (b.T if tb == "T" else b).double(), c, d


@pytest.mark.every_schedule
@pytest.mark.parametrize("order", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(("rows", "epilogue"), [(2 * 64, "two"), (5 * 64 - 16, "relu")], ids=str)
def test_pairs_compute_the_same(order, rows, epilogue):
    """Five rows of tiles become six, of which the last stores nothing."""
    columns, depth = 2 * 256 - 8, 7 * 64 - 8
    kernel = compiled(program(rows, columns, depth, order, epilogue=epilogue), on(16))
    assert TOGETHER in remarks(kernel)
    assert "multicast::cluster" in kernel.get_ptx()
    expected, c, d = run(kernel, rows, columns, depth, order)
    sums = expected.relu() if epilogue == "relu" else expected
    torch.testing.assert_close(c.double(), sums, rtol=1e-2, atol=1e-2)
    before = expected if epilogue == "two" else torch.ones_like(expected)
    torch.testing.assert_close(d.double(), before, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "together"),
    [
        ({}, True),
        ({"panel": 3}, True),
        ({"rows": 5 * 64}, True),
        ({"columns": 3 * 256, "depth": 512, "order": "NN"}, False),  # whole lines
        ({"depth": 30 * 16, "order": "NT"}, False),  # whole sectors
        ({"depth": 120}, False),  # beginning together takes longer than it gains
        ({"rows": 5 * 64, "grid_rows": 3}, False),  # a fourth row of blocks would store
        ({"rows": 5 * 64, "grid_rows": 4}, True),
        ({"epilogue": "added"}, False),
        ({"rows": 64}, False),
        ({"sm_count": 7}, False),  # not all SMs have pairs
        ({"rows": 5 * 64, "columns": 1000, "sm_count": 22}, False),  # 24 blocks with the sixth row
        ({"rows": T.dynamic("rows")}, False),
    ],
    ids=str,
)
def test_where_pairs_load_together(options, together):
    options = {"rows": 4 * 64, "columns": 504, "depth": 7 * 64 - 8, **options}
    target = on(options.pop("sm_count", 132))
    given = program(**options)
    assert (TOGETHER in remarks(compiled(given, target))) == together
    assert TOGETHER not in remarks(compiled(given, target, ALONE))
    for other in ("sm_100a", "sm_120a", "sm_80"):
        assert TOGETHER not in remarks(compiled(given, other))


def test_the_estimate_knows_pairs():
    """The chosen tiles take longer by the estimate where their blocks load alone."""
    given = program(4072, 1008, 2120)
    pairs, alone = (
        str(tilelang.compile(given, target="sm_90a", pass_configs=config).schedule())
        for config in ({}, ALONE)
    )
    predicted = [float(re.search(r"([\d.]+) us +chosen", text)[1]) for text in (pairs, alone)]
    assert predicted[0] < 0.97 * predicted[1]
