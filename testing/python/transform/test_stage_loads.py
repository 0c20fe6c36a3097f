"""Tensors that T.Parallel loops of pipelined loops read, which TMA loads ahead."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

ROWS, COLUMNS, DIM = 128, 64, 64


def scores(
    rows=ROWS, length=4 * COLUMNS, dtype="bfloat16", flipped=False, hidden=0, stages=2,
    output=False, named=False, skipped=False,
):  # fmt: skip
    """Stores Q K^T + Bias, and the same with a bias that the loop reads otherwise.

    ``flipped``: the bias is transposed; ``hidden``: as many last rows have no bias; ``output``: the
    launch writes the bias as well; ``named``: indices have names; ``skipped``: the first tile has
    no bias.
    """
    shape = (length, rows) if flipped else (rows, length)

    @T.prim_func
    def main(
        Q: T.Tensor((rows, DIM), "bfloat16"),
        K: T.Tensor((length, DIM), "bfloat16"),
        Bias: T.Tensor(shape, dtype),
        S: T.Tensor((rows, length), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, ROWS), threads=128) as block:
            q = T.alloc_shared((ROWS, DIM), "bfloat16")
            k = T.alloc_shared((COLUMNS, DIM), "bfloat16")
            s = T.alloc_fragment((ROWS, COLUMNS), "float32")
            first = block * ROWS
            T.copy(Q[first, 0], q)
            for n in T.Pipelined(T.ceildiv(length, COLUMNS), num_stages=stages):
                T.copy(K[n * COLUMNS, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                if skipped:
                    if n > 0:
                        for i, j in T.Parallel(ROWS, COLUMNS):
                            s[i, j] += Bias[first + i, n * COLUMNS + j]
                elif named:
                    for i, j in T.Parallel(ROWS, COLUMNS):
                        row = first + i
                        at = n * COLUMNS + j
                        s[i, j] += T.cast(Bias[row, at], "float32") * Bias[row, at]
                elif flipped:
                    for i, j in T.Parallel(ROWS, COLUMNS):
                        s[i, j] += Bias[n * COLUMNS + j, first + i]
                else:
                    for i, j in T.Parallel(ROWS, COLUMNS):
                        seen = first + i < rows - hidden
                        added = T.if_then_else(seen, Bias[first + i, n * COLUMNS + j], 0)
                        s[i, j] += T.cast(added, "float32")
                if output:
                    Bias[0, 0] = 1
                T.copy(s, S[first, n * COLUMNS])

    return main


def staged(kernel):
    return any("TMA loads the tile of Bias" in remark.message for remark in kernel.remarks)


def check(kernel, rows, length, dtype="bfloat16", flipped=False, hidden=0, square=False, first=0):
    q, k = torch.randn(rows, DIM).bfloat16(), torch.randn(length, DIM).bfloat16()
    bias = torch.randn(rows, length).to(getattr(torch, dtype))
    added = bias.double() ** (2 if square else 1)
    added[rows - hidden :] = 0
    added[:, :first] = 0
    out = torch.full((rows, length), float("nan"))
    kernel(q, k, bias.T.contiguous() if flipped else bias, out)
    want = q.double() @ k.double().T + added
    torch.testing.assert_close(out.double(), want, rtol=1e-2, atol=1e-2)


@pytest.mark.every_schedule
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(("rows", "length", "hidden"), [(128, 256, 0), (200, 328, 9), (72, 104, 1)])
def test_scores_with_a_bias(dtype, rows, length, hidden):
    kernel = tilelang.compile(scores(rows, length, dtype, hidden=hidden), target="sm_100a")
    assert staged(kernel)
    check(kernel, rows, length, dtype, hidden=hidden)


def test_one_tile_serves_two_loads_with_names():
    kernel = tilelang.compile(scores(named=True), target="sm_100a")
    assert staged(kernel)
    assert kernel.get_kernel_source().count("&Bias_map, ") == 1
    check(kernel, ROWS, 4 * COLUMNS, square=True)


@pytest.mark.parametrize(
    ("options", "first"),
    [({"flipped": True}, 0), ({"skipped": True}, COLUMNS), ({"stages": 1}, 0)],
)
def test_other_loads_stay(options, first):
    kernel = tilelang.compile(scores(**options), target="sm_100a")
    assert not staged(kernel)
    check(kernel, ROWS, 4 * COLUMNS, flipped="flipped" in options, first=first)


def test_tensors_that_the_launch_writes_stay():
    assert not staged(tilelang.lower(scores(output=True), target="sm_100a"))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_other_targets_stay(target):
    assert not staged(tilelang.lower(scores(), target=target))


def test_the_option_turns_it_off():
    options = {"tl.disable_load_staging": True}
    assert not staged(tilelang.lower(scores(), target="sm_100a", pass_configs=options))
