"""GEMMs with dynamic rows on targets with tcgen05: several kernels, of which a call runs one."""

from __future__ import annotations

import re

import pytest
import torch
from tiling.gemms import plain_gemm

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count

COLUMNS, DEPTH = 328, 320  # no tile divides the columns
ROWS = (1, 16, 64, 65, 128, 129, 256, 300, 513, 1030)


def program(
    columns=COLUMNS, depth=DEPTH, *, batch=1, order="NT", epilogue="", swapped=False, out="bfloat16"
):
    """C = A B with dynamic rows, in tiles of 128 x 128 x 64."""
    rows = T.dynamic("m")
    by_n = order == "NN"

    @T.prim_func
    def main(
        A: T.Tensor((batch, rows, depth), "bfloat16"),
        B: T.Tensor((depth, columns) if by_n else (columns, depth), "bfloat16"),
        bias: T.Tensor((columns,), "float32"),
        C: T.Tensor((batch, rows, columns), out),
    ):
        grid = T.ceildiv(columns, 128), T.ceildiv(rows, 128)
        with T.Kernel(*(grid[::-1] if swapped else grid), batch, threads=128) as (x, y, z):
            bx, by = (y, x) if swapped else (x, y)
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 128) if by_n else (128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(depth, 64), num_stages=2):
                T.copy(A[z, by * 128, k * 64], a)
                if by_n:
                    T.copy(B[k * 64, bx * 128], b)
                else:
                    T.copy(B[bx * 128, k * 64], b)
                T.gemm(a, b, c, transpose_B=not by_n)
            if epilogue == "bias":
                for i, j in T.Parallel(128, 128):
                    c[i, j] = T.max(c[i, j] + bias[bx * 128 + j], 0)
            T.copy(c, C[z, by * 128, bx * 128])

    return main


def check(kernel, rows, *, batch=1, order="NT", epilogue="", out="bfloat16", **_) -> None:
    torch.manual_seed(rows)
    a = torch.randn(batch, rows, DEPTH).bfloat16()
    b = torch.randn(*((DEPTH, COLUMNS) if order == "NN" else (COLUMNS, DEPTH))).bfloat16()
    bias = torch.randn(COLUMNS)
    c = torch.full((batch, rows, COLUMNS), torch.nan, dtype=getattr(torch, out))
    reports = []
    with kernel.reporting(reports.append):
        kernel(a, b, bias, c)
    wanted = a.double() @ (b if order == "NN" else b.T).double()
    if epilogue == "bias":
        wanted = (wanted + bias).clamp(min=0)
    torch.testing.assert_close(c.double(), wanted, rtol=1e-2, atol=5e-2)
    assert len(reports) == (1 if rows else 0)


def kernels(kernel) -> int:
    return kernel.get_kernel_source().count("__global__")


OPTIONS = [
    {},
    {"epilogue": "bias"},
    {"batch": 2},
    {"order": "NN"},
    {"swapped": True},
    {"out": "float32"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_results_of_all_rows(options) -> None:
    target = with_sm_count(resolve("sm_100a"), 12)  # whose waves a small problem fills
    kernel = tilelang.compile(program(**options), target=target)
    assert 2 <= kernels(kernel) <= 6
    for rows in (0, *ROWS):
        check(kernel, rows, **options)


@pytest.mark.every_schedule
@pytest.mark.parametrize("rows", [40, 128, 300, 700])
def test_results_in_every_order(rows: int) -> None:
    kernel = tilelang.compile(program(), target=with_sm_count(resolve("sm_100a"), 10))
    check(kernel, rows)


def test_few_rows_run_as_fast_as_constant_ones() -> None:
    """The kernel for each range takes about as long as the kernel of constant rows."""
    columns, depth = 4096, 4096
    dynamic = tilelang.compile(plain_gemm(T.dynamic("m"), columns, depth), target="sm_100a")
    for rows in (16, 512):
        tensors = [torch.empty(shape).bfloat16() for shape in ((rows, depth), (columns, depth))]
        result = torch.empty(rows, columns).bfloat16()
        constant = tilelang.compile(plain_gemm(rows, columns, depth), target="sm_100a")
        best = constant.profile().timing.grid_us
        assert sum(g.timing.grid_us for g in dynamic.profile(*tensors, result).grids) < 1.1 * best


def test_options_that_leave_fewer_candidates() -> None:
    func = plain_gemm(T.dynamic("m"), 4096, 4096)

    def said(**configs) -> str:
        kernel = tilelang.compile(func, target="sm_100a", pass_configs=configs)
        return " ".join(r.message for r in kernel.remarks if r.topic == "tiles")

    assert "by clusters of" in said() and "in pairs" in said()
    assert "by clusters of" not in said(**{"tl.disable_split_k": True})
    assert "by clusters of" not in said(**{"tl.batch_invariant": True})
    assert "in pairs" not in said(**{"tl.tile_pairs": False})
    assert "of which a call runs one" not in said(**{"tl.disable_launch_versions": True})
    widths = re.findall(r"128 x (\d+) ", said(**{"tl.tile_columns": 128}))
    assert set(widths) <= {"128"}
