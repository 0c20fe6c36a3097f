"""Tiles that divide the rows of plain gemms evenly, and blocks that share K."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count
from tilelang.transform import remarks_of

WHOLE = {"tl.disable_split_k": True}
AS_WRITTEN = {"tl.disable_block_fitting": True, "tl.disable_tile_widening": True}


def program(
    rows, columns, depth, k=64, dtype="bfloat16", out=None, order="NN", m=128, epilogue=False,
    swapped=False,
):  # fmt: skip
    """C = A B with tiles of m x 128; B as stored, ``swapped``: rows first in the grid."""
    transposed, out = order == "NT", out or dtype

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), dtype),
        B: T.Tensor((columns, depth) if transposed else (depth, columns), dtype),
        C: T.Tensor((rows, columns), out),
    ):
        grid = T.ceildiv(columns, 128), T.ceildiv(rows, m)
        with T.Kernel(*(grid[::-1] if swapped else grid), threads=128) as (x, y):
            bx, by = (y, x) if swapped else (x, y)
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((128, k) if transposed else (k, 128), dtype)
            c = T.alloc_fragment((m, 128), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(depth, k), num_stages=2):
                T.copy(A[by * m, step * k], a)
                if transposed:
                    T.copy(B[bx * 128, step * k], b)
                else:
                    T.copy(B[step * k, bx * 128], b)
                T.gemm(a, b, c, transpose_B=transposed)
            if epilogue:
                for i, j in T.Parallel(m, 128):
                    c[i, j] = T.max(c[i, j], 0.0) + T.cast(bx * 128 + j, "float32")
            T.copy(c, C[by * m, bx * 128])

    return main


def on(sm_count):
    """A Hopper with so many multiprocessors, whose waves a small problem fills."""
    return with_sm_count(resolve("sm_90a"), sm_count)


def said(*sizes, target="sm_90a", config=None, **options) -> str:
    kernel = tilelang.compile(program(*sizes, **options), target=target, pass_configs=config)
    return " ".join(remark.message for remark in kernel.remarks if remark.topic == "tiles")


def run(kernel, rows, columns, depth, order="NN", out="bfloat16"):
    """Returns operands and the result."""
    torch.manual_seed(rows)
    a, b = torch.randn(rows, depth).bfloat16(), torch.randn(depth, columns).bfloat16()
    c = poisoned((rows, columns), out, "cpu")
    kernel(a, b.T.contiguous() if order == "NT" else b, c)
    return a, b, c


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
    assert tile in text and "tl.disable_block_fitting" in text


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("sm_count", "sizes", "options"),
    [
        (6, (150, 5 * 64 - 8, 520), {"epilogue": True}),
        (4, (600, 128, 512), {"order": "NT"}),
        (8, (300, 4 * 128, 520), {"swapped": True}),
    ],
    ids=str,
)
def test_results_have_the_bits_of_the_program(sm_count, sizes, options):
    target = on(sm_count)
    options = {"k": 16, **options}
    assert "evenly" in said(*sizes, target=target, config=WHOLE, **options)
    results = []
    for config in (WHOLE, AS_WRITTEN):
        kernel = tilelang.compile(program(*sizes, **options), target=target, pass_configs=config)
        a, b, c = run(kernel, *sizes, options.get("order", "NN"))
        results.append(c)
    assert torch.equal(*results)
    want = a.double() @ b.double()
    if options.get("epilogue"):
        want = want.clamp(0) + torch.arange(sizes[1])
    torch.testing.assert_close(results[0].double(), want, rtol=1e-2, atol=2e-2)


SPLIT = [
    (8, (16, 256, 2048), {}, 2),
    (16, (16, 256, 2056), {"out": "float32"}, 3),  # 33 iterations: the last block has fewer
    (24, (9, 248, 4096), {"order": "NT"}, 4),
]


@pytest.mark.every_schedule
@pytest.mark.parametrize(("sm_count", "sizes", "options", "parts"), SPLIT, ids=str)
def test_blocks_that_share_k(sm_count, sizes, options, parts):
    target = on(sm_count)
    assert f"a cluster of {parts} instead" in said(*sizes, target=target, **options)
    kernel = tilelang.compile(program(*sizes, **options), target=target)
    order, out = options.get("order", "NN"), options.get("out", "bfloat16")
    a, b, c = run(kernel, *sizes, order, out)
    want = a.double() @ b.double()
    torch.testing.assert_close(c.double(), want, rtol=1e-2, atol=2e-2)
    assert torch.equal(c, run(kernel, *sizes, order, out)[2])  # the same bits each time


def test_sums_of_one_block_on_request():
    sizes, target = (16, 256, 2048), on(8)
    text = said(*sizes, target=target)
    assert "other last bits" in text and "tl.disable_split_k" in text
    for config in (WHOLE, {"tl.batch_invariant": True}, {"tl.disable_block_fitting": True}):
        assert "cluster" not in said(*sizes, target=target, config=config)
    for other in ({"epilogue": True}, {"m": 64}):  # more than a copy; tiles of the program's own
        assert "cluster" not in said(*sizes, target=target, **other)


@pytest.mark.parametrize(
    "sizes",
    [(4096, 4096, 4096), (600, 4096, 1024), (1024, 1024, 4096), (512, 2048, 8192)],
    ids=str,
)
def test_other_grids_keep_their_tiles(sizes):
    """Of many rows, few iterations, or where 128 x 64 elements are as good."""
    assert "evenly" not in said(*sizes)


@pytest.mark.parametrize("target", ["sm_80", "sm_100a"])
def test_targets_without_wgmma_stay_as_they_are(target):
    assert not remarks_of("fit_rows", program(300, 4096, 4096), target)
