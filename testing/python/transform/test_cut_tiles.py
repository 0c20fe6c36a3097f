"""Tiles of plain gemms, cut where rows are few or blocks are."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T
from tilelang.transform import remarks_of

ROWS, COLUMNS, DEPTH = 5, 200, 1024 + 8  # 33 steps of 32, the last one ragged


def program(
    rows=ROWS, columns=COLUMNS, depth=DEPTH, m=128, n=128, threads=128, order="NN", epilogue="",
):  # fmt: skip
    """C = A B, and what ``epilogue`` says; B (depth, columns), or (columns, depth) of "NT"."""
    transposed = order == "NT"

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "float16"),
        B: T.Tensor((columns, depth) if transposed else (depth, columns), "float16"),
        bias: T.Tensor((columns,), "float32"),
        scale: T.Tensor((rows,), "float32"),
        C: T.Tensor((rows, columns), "float16"),
        S: T.Tensor((rows,), "float32"),
    ):
        with T.Kernel(T.ceildiv(columns, n), T.ceildiv(rows, m), threads=threads) as (bx, by):
            a = T.alloc_shared((m, 32), "float16")
            b = T.alloc_shared((n, 32) if transposed else (32, n), "float16")
            c = T.alloc_fragment((m, n), "float32")
            column = bx * n
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(depth, 32), num_stages=3):
                T.copy(A[by * m, k * 32], a)
                if transposed:
                    T.copy(B[column, k * 32], b)
                else:
                    T.copy(B[k * 32, bx * n], b)
                T.gemm(a, b, c, transpose_B=transposed)
            if epilogue == "elements":
                for i, j in T.Parallel(m, n):
                    if (by * m + i < rows) & (column + j < columns):
                        x = c[i, j] * scale[by * m + i] + bias[bx * n + j]
                        C[by * m + i, column + j] = T.if_then_else(column + j < 7, x, -x)
            elif epilogue == "fragments":
                row_scale = T.alloc_fragment((m,), "float32")
                own_bias = T.alloc_fragment((n,), "float32")
                staged = T.alloc_shared((m, n), "float16")
                T.copy(scale[by * m], row_scale)
                T.copy(bias[column], own_bias)
                for i, j in T.Parallel(m, n):
                    c[i, j] = c[i, j] * row_scale[i] + own_bias[j]
                T.copy(c, staged)
                T.copy(staged, C[by * m, column])
            elif epilogue == "sums":
                sums = T.alloc_fragment((m,), "float32")
                T.reduce_sum(c, sums, dim=1)
                T.copy(sums, S[by * m])
            elif epilogue == "mirrored":
                for i, j in T.Parallel(m, n):
                    C[by * m + i, column + n - 1 - j] = c[i, j]
            elif epilogue == "parity":
                for i, j in T.Parallel(m, n):
                    C[by * m + i, column + j] = T.if_then_else(j % 64 == 0, c[i, j], 0)
            else:
                if epilogue == "rows":
                    T.copy(scale[by * m], S[by * m])
                T.copy(c, C[by * m, column])

    return main


def cuts(**options) -> list[str]:
    return [remark.message for remark in remarks_of("cut_tiles", program(**options), "sm_90a")]


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    "options",
    [
        {"epilogue": "elements"},
        {"epilogue": "fragments", "order": "NT", "threads": 256},
        {"rows": 70, "m": 256, "n": 96, "threads": 256},
        {"rows": 130, "epilogue": "fragments"},
    ],
    ids=str,
)
def test_results_are_those_of_a_float64_product(options):
    assert cuts(**options)
    rows = options.get("rows", ROWS)
    kernel = tilelang.compile(program(**options), target="sm_90a")
    torch.manual_seed(0)
    a, b = torch.randn(rows, DEPTH).half(), torch.randn(DEPTH, COLUMNS).half()
    bias, scale = torch.randn(COLUMNS), torch.randn(rows)
    c, s = poisoned((rows, COLUMNS), "float16", "cpu"), torch.zeros(rows)
    kernel(a, b.T.contiguous() if options.get("order") == "NT" else b, bias, scale, c, s)
    want = a.double() @ b.double()
    if "epilogue" in options:
        want = want * scale.double()[:, None] + bias.double()
    if options.get("epilogue") == "elements":
        want[:, 7:] *= -1
    torch.testing.assert_close(c.double(), want, rtol=2e-3, atol=2e-2)


def test_tiles_have_the_rows_that_exist_and_all_multiprocessors_columns():
    rows, columns = cuts(rows=16, columns=4096)
    assert "tiles of 64 rows instead of 128, of which tensors have 16" in rows
    assert "128 blocks of 32 columns compute what 32 of 128 would" in columns
    assert "tl.disable_block_fitting" in rows and "tl.disable_block_fitting" in columns
    (columns,) = cuts(rows=512, columns=2048)  # 64 blocks
    assert "128 blocks of 64 columns" in columns
    source = tilelang.compile(program(rows=512, columns=2048), target="sm_90a").get_kernel_source()
    assert "__launch_bounds__(384, 1)" in source  # two warpgroups multiply, one loads
    kernel = tilelang.compile(program(rows=16, columns=8192, threads=256), target="sm_90a")
    assert "m64n64k16" in kernel.get_kernel_source()
    off = {tilelang.PassConfigKey.TL_DISABLE_BLOCK_FITTING: True}
    whole = tilelang.compile(program(rows=16, columns=8192), target="sm_90a", pass_configs=off)
    assert "m64n128k16" in whole.get_kernel_source()


@pytest.mark.parametrize(
    "options",
    [
        {"rows": 512, "columns": 8192},  # blocks for all multiprocessors
        {"rows": T.dynamic("rows")},
        {"depth": 512},  # as long to begin and to end
        {"n": 32, "m": 64},
        {"epilogue": "sums", "m": 64},  # of all columns of a block
        {"epilogue": "mirrored", "m": 64},
        {"epilogue": "parity", "m": 64},
        {"epilogue": "rows", "m": 64},  # who writes them is another block
    ],
    ids=str,
)
def test_other_programs_keep_their_tiles(options):
    assert not cuts(**options)


@pytest.mark.parametrize("target", ["sm_80", "sm_100a"])
def test_targets_without_wgmma_stay_as_they_are(target):
    assert not remarks_of("cut_tiles", program(), target)


@pytest.mark.parametrize(("rows", "blocks"), [(5, 1), (512, 4)], ids=["rows", "columns"])
def test_a_tile_times_itself_stays_whole(rows, blocks):
    """Its rows are those of A, and the columns of B transposed."""

    @T.prim_func
    def gram(A: T.Tensor((rows, DEPTH), "float16"), C: T.Tensor((128, 128 * blocks), "float32")):
        with T.Kernel(blocks, threads=128) as bx:
            a = T.alloc_shared((128, 32), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(DEPTH, 32), num_stages=3):
                T.copy(A[bx * 128, k * 32], a)
                T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C[0, bx * 128])

    assert not remarks_of("cut_tiles", gram, "sm_90a")
    kernel = tilelang.compile(gram, target="sm_90a")
    torch.manual_seed(0)
    a, c = torch.randn(rows, DEPTH).half(), poisoned((128, 128 * blocks), "float32", "cpu")
    kernel(a, c)
    whole = torch.nn.functional.pad(a.double(), (0, 0, 0, 128 * blocks - rows))
    want = torch.cat([each @ each.T for each in whole.split(128)], 1)
    torch.testing.assert_close(c.double(), want, rtol=1e-3, atol=1e-2)
