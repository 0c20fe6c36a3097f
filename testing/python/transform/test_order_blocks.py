"""The order of the blocks of a grid of gemms, where the program says nothing about it."""

from __future__ import annotations

import itertools
import re

import pytest

import tilelang
import tilelang.language as T
from tilelang.transform import remarks_of

SMS = 132  # of the H200
M, N, K = 4096, 14336, 512


def tiled(
    rows=M, columns=N, m=128, n=128, panel=None, enable=True, spelled=None, threads=128, batch=0
):
    """A gemm of one tile a block; ``spelled`` makes its blocks see each other."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, K), "float16"),
        B: T.Tensor((K, columns), "float16"),
        C: T.Tensor((rows, columns), "float16"),
        S: T.Tensor((1,), "int32"),
    ):
        grid = T.ceildiv(columns, n), T.ceildiv(rows, m), *([batch] if batch else [])
        with T.Kernel(*grid, threads=threads) as index:
            bx, by = index[0], index[1]
            a = T.alloc_shared((m, 64), "float16")
            b = T.alloc_shared((64, n), "float16")
            c = T.alloc_fragment((m, n), "float32")
            if panel is not None:
                T.use_swizzle(panel, enable=enable)
            T.clear(c)
            for k in T.Pipelined(K // 64, num_stages=3):
                T.copy(A[by * m, k * 64], a)
                T.copy(B[k * 64, bx * n], b)
                T.gemm(a, b, c)
            if spelled == "count":
                T.atomic_add(S[0], 1)
            if spelled == "wait":
                while S[0] < by:
                    T.sync_threads()
            if spelled == "read":
                S[0] = T.cast(C[0, 0], "int32")
            T.copy(c, C[by * m, bx * n])

    return main


def panel_of(func, target="sm_90a") -> int:
    """The rows of a panel that the compiled kernel walks; 0 for the order of the grid."""
    grid_stays = {"tl.disable_tile_choice": True, "tl.disable_persistent_blocks": True}
    source = tilelang.lower(func, target=target, pass_configs=grid_stays).source
    at = source.find("tl::swizzle_rows<")
    return int(source[at:].split("<")[1].split(">")[0]) if at >= 0 else 0


def bytes_of_waves(panel: int, rows: int, columns: int, wave: int, m: int, n: int) -> float:
    """Tiles of A and B that the blocks of a wave load on average, by walking the grid."""
    order = [
        (row, column)
        for first in range(0, rows, panel)
        for column in range(columns)
        for row in range(first, min(first + panel, rows))
    ]
    if panel == 0 or panel == 1:
        order = list(itertools.product(range(rows), range(columns)))
    total, waves = 0.0, 0
    for begin in range(0, len(order) - wave + 1, wave):
        blocks = order[begin : begin + wave]
        total += m * len({row for row, _ in blocks}) + n * len({column for _, column in blocks})
        waves += 1
    return total / waves


@pytest.mark.parametrize(
    ("rows", "columns", "m", "n", "resident"),
    [
        (4096, 14336, 128, 128, 2),
        (3072, 5120, 128, 128, 2),
        (8192, 8192, 128, 64, 3),
        (1000, 30000, 128, 128, 2),
    ],
)
def test_a_wave_loads_few_different_tiles(rows, columns, m, n, resident):
    panel = panel_of(tiled(rows, columns, m, n))
    grid = -(-rows // m), -(-columns // n)
    measured = {p: bytes_of_waves(p, *grid, SMS * resident, m, n) for p in range(1, grid[0] + 1)}
    assert panel > 1
    assert measured[panel] <= 0.9 * measured[1]
    assert measured[panel] <= 1.15 * min(measured.values())


def test_a_remark_says_what_was_done_and_how_to_decide_otherwise():
    (remark,) = remarks_of("order_blocks", tiled(), "sm_90a")
    assert remark.topic == "order"
    assert "panels of 11 rows" in remark.message
    assert "T.use_swizzle" in remark.message
    assert "tl.disable_block_order" in remark.message


def test_the_option_leaves_the_order_of_the_grid():
    off = {tilelang.PassConfigKey.TL_DISABLE_BLOCK_ORDER: True}
    assert "swizzle" not in tilelang.lower(tiled(), target="sm_90a", pass_configs=off).source


def test_the_program_decides_first():
    assert panel_of(tiled(panel=3)) == 3
    assert panel_of(tiled(panel=3, enable=False)) == 0


@pytest.mark.parametrize("spelled", ["count", "wait", "read"])
def test_blocks_that_see_each_other_keep_their_order(spelled):
    assert panel_of(tiled(spelled=spelled)) == 0


@pytest.mark.parametrize(
    ("rows", "columns", "panel"),
    [
        (300, 4096, 3),  # 3 x 32
        (512, 2048 + 1024, 4),
        (128, 4096 * 4, 0),  # one row
        (4096, 384, 0),  # 32 x 3: neighbours are those of a row already
        (300, 2048, 0),  # 48 blocks
    ],
)
def test_neighbours_of_one_wave_load_the_same_columns(rows, columns, panel):
    assert panel_of(tiled(rows=rows, columns=columns)) == panel


def test_rows_of_the_call_are_a_panel_of_one_wave():
    rows = T.dynamic("rows")
    said = " ".join(
        remark.message
        for remark in tilelang.lower(tiled(rows=rows, columns=4096), target="sm_90a").remarks
    )
    assert re.search(r"panels of \d+ rows, as by T.use_swizzle\(\d+\): neighbouring", said)


def test_a_grid_of_one_wave_keeps_its_order():
    assert panel_of(tiled(1536, 1536)) == 0  # 144 blocks, two an SM


def test_a_grid_that_is_compact_already_keeps_its_order():
    assert panel_of(tiled(16384, 1024)) == 0


def test_batches_are_ordered_each():
    assert panel_of(tiled(batch=2)) > 1


def test_sizes_of_the_call_count_as_large():
    assert panel_of(tiled(T.dynamic("rows"), T.dynamic("columns"))) > 1


def test_the_order_does_not_change_on_loads_of_rows_alone():
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(N // 128, M // 128, threads=128) as (bx, by):
            tile = T.alloc_shared((128, 32), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(X[by * 128, bx * 128 + k * 32], tile)
                T.copy(tile, Y[by * 128, bx * 128 + k * 32])

    assert panel_of(main) == 0
