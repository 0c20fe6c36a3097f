"""Tiles of plain GEMMs whose blocks all run at the same time, and blocks that share K."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count
from tilelang.transform import remarks_of

WHOLE = {"tl.disable_split_k": True}
AS_WRITTEN = {"tl.disable_tile_choice": True}


def program(
    rows, columns, depth, k=64, dtype="bfloat16", out=None, order="NN", m=128, epilogue="",
    swapped=False,
):  # fmt: skip
    """f(A B) with tiles of m x 128; ``order``: as stored; ``swapped``: rows first in the grid."""
    (ta, tb), out = order, out or dtype

    def at(stored, row, column):
        return (column, row) if stored == "T" else (row, column)

    @T.prim_func
    def main(
        A: T.Tensor(at(ta, rows, depth), dtype),
        B: T.Tensor(at(tb, depth, columns), dtype),
        R: T.Tensor((rows, columns), "float32"),
        C: T.Tensor((rows, columns), out),
        D: T.Tensor((rows, columns), "float32"),
    ):
        grid = T.ceildiv(columns, 128), T.ceildiv(rows, m)
        with T.Kernel(*(grid[::-1] if swapped else grid), threads=128) as (x, y):
            bx, by = (y, x) if swapped else (x, y)
            a = T.alloc_shared(at(ta, m, k), dtype)
            b = T.alloc_shared(at(tb, k, 128), dtype)
            c = T.alloc_fragment((m, 128), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(depth, k), num_stages=2):
                T.copy(A[at(ta, by * m, step * k)], a)
                T.copy(B[at(tb, step * k, bx * 128)], b)
                T.gemm(a, b, c, transpose_A=ta == "T", transpose_B=tb == "T")
            if epilogue == "relu":
                for i, j in T.Parallel(m, 128):
                    c[i, j] = T.max(c[i, j], 0.0) + T.cast(bx * 128 + j, "float32")
            elif epilogue == "residual":
                for i, j in T.Parallel(m, 128):
                    c[i, j] = c[i, j] + R[by * m + i, bx * 128 + j]
            elif epilogue == "two":
                T.copy(c, D[by * m, bx * 128])
                for i, j in T.Parallel(m, 128):
                    c[i, j] = c[i, j] * 2.0
            elif epilogue == "sums":
                total = T.alloc_fragment((m,), "float32")
                T.reduce_sum(c, total, dim=1)
                for i, j in T.Parallel(m, 128):
                    c[i, j] = c[i, j] + total[i]
            T.copy(c, C[by * m, bx * 128])

    return main


class Run(NamedTuple):
    """Operands and results of a call."""

    a: torch.Tensor
    b: torch.Tensor
    r: torch.Tensor
    c: torch.Tensor
    d: torch.Tensor


def on(sm_count):
    """A Hopper with so many multiprocessors, whose waves a small problem fills."""
    return with_sm_count(resolve("sm_90a"), sm_count)


def kernel_text(kernel) -> str:
    return " ".join(remark.message for remark in kernel.remarks if remark.topic == "tiles")


def said(*sizes, target="sm_90a", config=None, **options) -> str:
    return kernel_text(
        tilelang.compile(program(*sizes, **options), target=target, pass_configs=config)
    )


def run(kernel, rows, columns, depth, order="NN", out="bfloat16", **_) -> Run:
    torch.manual_seed(rows)
    a, b = torch.randn(rows, depth).bfloat16(), torch.randn(depth, columns).bfloat16()
    r = torch.randn(rows, columns)
    c, d = poisoned((rows, columns), out, "cpu"), poisoned((rows, columns), "float32", "cpu")
    stored = [x.T.contiguous() if t == "T" else x for x, t in zip((a, b), order, strict=True)]
    kernel(*stored, r, c, d)
    return Run(a, b, r, c, d)


def check(got: Run, options):
    want = got.a.double() @ got.b.double()
    epilogue = options.get("epilogue")
    if epilogue == "two":
        torch.testing.assert_close(got.d.double(), want, rtol=1e-2, atol=2e-2)
        want = 2 * want
    elif epilogue == "relu":
        want = want.clamp(0) + torch.arange(want.shape[1])
    elif epilogue == "residual":
        want = want + got.r.double()
    torch.testing.assert_close(got.c.double(), want, rtol=1e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ((600, 4096, 4096), "128 blocks of 256 threads compute 152 x 128"),
        ((400, 8192, 4096), "128 blocks of 256 threads compute 200 x 128"),
        ((200, 4096, 4096), "128 blocks of 128 threads compute 104 x 64"),
    ],
    ids=str,
)
def test_tiles_of_chosen_shapes(sizes, tile):
    text = said(*sizes, config=WHOLE)
    assert tile in text and "tl.disable_tile_" in text


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("sm_count", "sizes", "options"),
    [
        (6, (150, 5 * 64 - 8, 520), {"epilogue": "relu"}),
        (4, (600, 128, 512), {"order": "NT"}),
        (8, (300, 4 * 128, 520), {"swapped": True}),
        (6, (152, 5 * 64 - 8, 520), {"order": "TN", "epilogue": "residual"}),
    ],
    ids=str,
)
def test_results_have_the_bits_of_the_program(sm_count, sizes, options):
    target = on(sm_count)
    options = {"k": 16, **options}
    assert "elements each instead" in said(*sizes, target=target, config=WHOLE, **options)
    results = []
    for config in (WHOLE, AS_WRITTEN):
        kernel = tilelang.compile(program(*sizes, **options), target=target, pass_configs=config)
        results.append(run(kernel, *sizes, **options))
        check(results[-1], options)
    assert torch.equal(results[0].c, results[1].c)


SPLIT = [
    (16, (16, 256, 2048), {}),
    (16, (16, 256, 2056), {"out": "float32"}),  # 33 iterations: the last block has fewer
    (24, (9, 248, 4096), {"order": "NT"}),
    (24, (64, 128, 4096), {"order": "TN"}),
    (32, (70, 136, 3000), {"order": "TT", "epilogue": "relu"}),
    (16, (16, 256, 2048), {"epilogue": "relu"}),
    (16, (40, 72, 2048), {"epilogue": "residual", "out": "float32"}),
    (32, (100, 136, 4096), {"epilogue": "two"}),
    (16, (16, 256, 2048), {"m": 64, "epilogue": "residual"}),
    (16, (16, 256, 2048), {"swapped": True}),
]


@pytest.mark.every_schedule
@pytest.mark.parametrize(("sm_count", "sizes", "options"), SPLIT, ids=str)
def test_blocks_that_share_k(sm_count, sizes, options):
    target = on(sm_count)
    assert "elements a cluster of" in said(*sizes, target=target, **options)
    kernel = tilelang.compile(program(*sizes, **options), target=target)
    first = run(kernel, *sizes, **options)
    check(first, options)
    assert torch.equal(first.c, run(kernel, *sizes, **options).c)  # the same bits each time


def test_sums_of_one_block_on_request():
    sizes, target = (16, 256, 2048), on(16)
    text = said(*sizes, target=target)
    assert "other last bits" in text and "tl.disable_split_k" in text
    for config in (WHOLE, {"tl.batch_invariant": True}, {"tl.disable_block_fitting": True}):
        assert "elements a cluster" not in said(*sizes, target=target, config=config)


def test_what_excludes_blocks_that_share_k():
    text = said(16, 256, 2048, target=on(16), epilogue="sums")
    assert "elements a cluster" not in text
    assert "less time" in text and "each belong to one row or column" in text


def test_options_fix_the_choice():
    sizes, target = (16, 256, 2048), on(36)
    assert "64 elements a cluster of 3" in said(
        *sizes, target=target, config={"tl.tile_columns": 64, "tl.tile_parts": 3}
    )
    assert "cluster" not in said(*sizes, target=target, config={"tl.tile_parts": 1})


@pytest.mark.parametrize("order", ["TN", "TT"])
def test_rows_of_a_transposed_a_fill_swizzles(order):
    """No tile of 40 rows, whose A would be loaded in boxes of 8 columns."""
    kernel = tilelang.compile(program(168, 568, 7560, order=order), target="sm_90a")
    (tile,) = re.findall(r"compute (\d+) x \d+", kernel_text(kernel))
    assert int(tile) % 32 == 0


@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (1024, 4096, 4096)], ids=str)
def test_other_grids_keep_their_tiles(sizes):
    """Programs keep their tiles if they have many rows, or if 128 x 128 elements are as good."""
    assert "all of them run at a time" not in said(*sizes)


@pytest.mark.parametrize("target", ["sm_80", "sm_120a"])
def test_targets_without_wgmma_stay_as_they_are(target):
    assert not remarks_of("choose_tiles", program(300, 4096, 4096), target)
