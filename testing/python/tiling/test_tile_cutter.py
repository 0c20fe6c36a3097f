"""Programs whose tiles can be cut along their rows or columns."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T

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
    return cut_of(program(**options))


def cut_of(function) -> list[str]:
    """The remarks about other tiles than those of the program."""
    lowered = tilelang.lower(function, target="sm_90a")
    return [r.message for r in lowered.remarks if r.topic == "tiles" and "instead of" in r.message]


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    "options",
    [
        {"epilogue": "elements"},
        {"epilogue": "fragments", "order": "NT", "threads": 256},
        {"rows": 70, "m": 256, "n": 96, "threads": 256},
        {"rows": 130, "epilogue": "fragments"},
        {"epilogue": "parity", "m": 64},
        {"epilogue": "mirrored", "m": 64, "columns": 256},
    ],
    ids=str,
)
def test_results_are_those_of_a_float64_product(options):
    assert cuts(**options)
    rows, columns = options.get("rows", ROWS), options.get("columns", COLUMNS)
    kernel = tilelang.compile(program(**options), target="sm_90a")
    torch.manual_seed(0)
    a, b = torch.randn(rows, DEPTH).half(), torch.randn(DEPTH, columns).half()
    bias, scale = torch.randn(columns), torch.randn(rows)
    c, s = poisoned((rows, columns), "float16", "cpu"), torch.zeros(rows)
    kernel(a, b.T.contiguous() if options.get("order") == "NT" else b, bias, scale, c, s)
    want, epilogue = a.double() @ b.double(), options.get("epilogue")
    if epilogue in {"elements", "fragments"}:
        want = want * scale.double()[:, None] + bias.double()
    if epilogue == "elements":
        want[:, 7:] *= -1
    elif epilogue == "parity":
        want[:, torch.arange(columns) % 64 != 0] = 0
    elif epilogue == "mirrored":
        want = torch.cat([tile.flip(1) for tile in want.split(128, 1)], 1)
    torch.testing.assert_close(c.double(), want, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize(
    "options",
    [
        {"rows": 4096, "columns": 8192},  # blocks for all multiprocessors
        {"rows": T.dynamic("rows"), "columns": 8192},
        {"epilogue": "sums", "m": 64},  # of all columns of a block
        {"epilogue": "rows", "m": 64},  # who writes them is another block
    ],
    ids=str,
)
def test_other_programs_keep_their_tiles(options):
    assert not any(
        "elements each instead" in text and "at a time" in text for text in cuts(**options)
    )


def test_columns_that_turn_around_in_the_tile_stay_together():
    (text,) = cuts(epilogue="mirrored", m=64)
    assert "x 128 elements" in text


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

    assert not cut_of(gram)
    kernel = tilelang.compile(gram, target="sm_90a")
    torch.manual_seed(0)
    a, c = torch.randn(rows, DEPTH).half(), poisoned((128, 128 * blocks), "float32", "cpu")
    kernel(a, c)
    whole = torch.nn.functional.pad(a.double(), (0, 0, 0, 128 * blocks - rows))
    want = torch.cat([each @ each.T for each in whole.split(128)], 1)
    torch.testing.assert_close(c.double(), want, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("stored_by", ["copy", "elements"])
def test_the_result_goes_on_behind_the_only_tile(stored_by):
    """The program stores 128 columns of 135: a wider tile would store the other seven as well."""
    depth = T.dynamic("depth")

    @T.prim_func
    def main(
        A: T.Tensor((136, depth), "float16"),
        B: T.Tensor((128, depth), "float16"),
        C: T.Tensor((136, 135), "float16"),
    ):
        with T.Kernel(1, T.ceildiv(136, 128), threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((128, 64), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(depth, 64), num_stages=3):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[bx * 128, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            if stored_by == "copy":
                T.copy(c, C[by * 128, bx * 128])
            else:
                for i, j in T.Parallel(128, 128):
                    C[by * 128 + i, bx * 128 + j] = c[i, j]

    kernel = tilelang.compile(main, target="sm_100a", pass_configs={"tl.tile_columns": 256})
    torch.manual_seed(0)
    a, b = torch.randn(136, 512).half(), torch.randn(128, 512).half()
    c = torch.full((136, 135), -7.0).half()
    kernel(a, b, c)
    want = torch.cat([a.double() @ b.double().T, torch.full((136, 7), -7.0)], 1)
    torch.testing.assert_close(c.double(), want, rtol=2e-3, atol=2e-2)
