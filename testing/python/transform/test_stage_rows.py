"""Narrow rows of matrices go to and from fragments through shared memory."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.transform import remarks_of

DYNAMIC = T.dynamic("rows")


def scaled(rows, columns, block=16, dtype="bfloat16", first=0, threads=128, batch=None):
    """Y = 2 X + 1, ``block`` rows of ``columns`` elements at a time, from row ``first`` on."""
    shape = (rows, columns) if batch is None else (batch, rows, columns)

    @T.prim_func
    def main(X: T.Tensor(shape, dtype), Y: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(rows, block), batch or 1, threads=threads) as (bx, bz):
            x = T.alloc_fragment((block, columns), "float32")
            if batch is None:
                T.copy(X[bx * block + first, 0], x)
            else:
                T.copy(X[bz, bx * block + first, 0], x)
            for i, j in T.Parallel(block, columns):
                x[i, j] = x[i, j] * 2.0 + 1.0
            if batch is None:
                T.copy(x, Y[bx * block + first, 0])
            else:
                T.copy(x, Y[bz, bx * block + first, 0])

    return main


def is_staged(program, target="sm_100a") -> bool:
    """Whether loads or stores go through shared memory."""
    found = [r.message for r in remarks_of("stage_rows", program, target)]
    return any("goes through shared memory" in text for text in found)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(
    ("rows", "columns", "block", "dtype"),
    [
        (64, 13, 16, "bfloat16"),  # whole blocks
        (61, 25, 8, "float16"),  # the number of elements is odd
        (7, 37, 24, "bfloat16"),  # one block, most of whose rows do not exist
        (100, 3, 64, "float32"),
        (33, 45, 16, "float8_e4m3fn"),
        (50, 1, 32, "int32"),
    ],
)
def test_results_of_narrow_rows(rows, columns, block, dtype, target):
    program = scaled(rows, columns, block, dtype)
    assert is_staged(program, target)
    torch.manual_seed(0)
    x = torch.randint(-8, 8, (rows, columns)).to(T.dtype(dtype).as_torch())
    y = torch.full((rows, columns), 99).to(x.dtype)
    tilelang.compile(program, target=target)(x, y)
    torch.testing.assert_close(y.float(), x.float() * 2 + 1, rtol=0, atol=0)


@pytest.mark.parametrize("rows", [5, 16, 41])
def test_the_number_of_rows_is_dynamic(rows):
    program = scaled(DYNAMIC, 21)
    assert is_staged(program)
    x, y = torch.randn(rows, 21).bfloat16(), torch.full((rows, 21), float("nan")).bfloat16()
    tilelang.compile(program, target="sm_100a")(x, y)
    torch.testing.assert_close(y, (x.float() * 2 + 1).bfloat16())


def test_whole_blocks_move_by_vectors():
    source = tilelang.compile(scaled(512, 13, 128), target="sm_100a").get_kernel_source()
    assert "tl::load<8>(X + " in source
    assert "tl::store(Y + " in source


def test_rows_of_a_batch():
    """The rows behind those of a matrix belong to the next one, and stay as they are."""
    assert is_staged(scaled(32, 13, batch=3))
    assert not is_staged(scaled(30, 13, batch=3))
    x = torch.randn(3, 30, 13).bfloat16()
    y = torch.full_like(x, float("nan"))
    tilelang.compile(scaled(30, 13, batch=3), target="sm_100a")(x, y)
    torch.testing.assert_close(y, (x.float() * 2 + 1).bfloat16())


@pytest.mark.parametrize(
    "program",
    [
        scaled(64, 16),  # each row begins at a vector
        scaled(64, 129),  # wide rows
        scaled(64, 13, block=12),  # 312 bytes are no whole vectors
        scaled(64, 13, first=1),  # no block begins at a vector
    ],
    ids=["aligned", "wide", "odd block", "shifted"],
)
def test_other_rows_are_copied_directly(program):
    assert not is_staged(program)


def test_the_option_copies_directly():
    options = {"tl.disable_row_staging": True}
    kernel = tilelang.compile(scaled(64, 13), target="sm_100a", pass_configs=options)
    assert "X_rows" not in kernel.get_kernel_source()
