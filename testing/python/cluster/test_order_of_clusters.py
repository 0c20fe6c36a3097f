"""Clusters in an order of their own: ``T.use_swizzle``, ``T.PersistentTileScheduler``."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

PLACE = "__device__ int place() { return blockIdx.x + gridDim.x * blockIdx.y; }"


def walk(grid: tuple[int, int], cluster: tuple[int, int], order: str, panel: int) -> list:
    """[x, y, rank] of each block, by its hardware index."""
    columns, rows = grid

    @T.prim_func
    def kernel(Out: T.Tensor((columns * rows, 3), "int32")):
        with T.Kernel(columns, rows, threads=32, cluster_dims=cluster) as (bx, by):
            T.use_swizzle(panel, order=order)
            T.import_source(PLACE)
            place = T.call_extern("int32", "place")
            if T.get_thread_binding() == 0:
                Out[place, 0] = bx
                Out[place, 1] = by
                Out[place, 2] = T.block_rank_in_cluster()

    out = torch.full((columns * rows, 3), -1, dtype=torch.int32)
    tilelang.compile(kernel, target="sm_100a")(out)
    return out.tolist()


def expected(grid: tuple[int, int], cluster: tuple[int, int], order: str, panel: int) -> list:
    (columns, rows), (width, height) = grid, cluster
    across, down = columns // width, rows // height
    along, deep = (across, down) if order == "row" else (down, across)
    places = []
    for first in range(0, deep, panel):
        steps = range(along) if first // panel % 2 == 0 else reversed(range(along))
        for step in steps:
            places += [(step, line) for line in range(first, min(first + panel, deep))]
    found = []
    for block in range(columns * rows):
        x, y = block % columns, block // columns
        step, line = places[x // width + across * (y // height)]
        cx, cy = (step, line) if order == "row" else (line, step)
        rank = x % width + width * (y % height)
        found.append([cx * width + x % width, cy * height + y % height, rank])
    return found


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("panel", [1, 2, 3])
@pytest.mark.parametrize(
    ("grid", "cluster"),
    [((6, 5), (2, 1)), ((4, 6), (1, 2)), ((8, 4), (2, 2)), ((5, 7), (1, 1)), ((4, 3), (4, 1))],
)
def test_clusters_walk_in_panels(grid, cluster, order, panel):
    found = walk(grid, cluster, order, panel)
    assert found == expected(grid, cluster, order, panel)
    assert len({(x, y) for x, y, _ in found}) == grid[0] * grid[1]


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("swizzle", [1, 2])
@pytest.mark.parametrize(("m", "n"), [(8, 3), (7, 5), (1, 1)])
def test_scheduler_of_clusters(size, swizzle, m, n):
    """Blocks of a cluster take neighbouring rows; every tile is worked on once."""
    rows = -(-m // size) * size

    @T.prim_func
    def kernel(Out: T.Tensor((rows, n), "int32"), Ranks: T.Tensor((rows, n), "int32")):
        with T.Kernel(2 * size, threads=32, cluster_dims=size) as block:
            rank = T.block_rank_in_cluster()
            tiles = T.PersistentTileScheduler(m, n, swizzle_size=swizzle, cluster_size=size)
            tiles.init(block // size)
            while tiles.valid():
                if T.get_thread_binding() == 0:
                    T.atomic_add(Out[tiles.m_idx * size + rank, tiles.n_idx], 1)
                    Ranks[tiles.m_idx * size + rank, tiles.n_idx] = rank
                tiles.next_tile()

    out, ranks = torch.zeros(2, rows, n, dtype=torch.int32)
    tilelang.compile(kernel, target="sm_100a")(out, ranks)
    assert (out == 1).all()
    assert (ranks == torch.arange(rows)[:, None] % size).all()


def test_a_cluster_has_blocks():
    with pytest.raises(errors.SemanticsError, match="a positive cluster_size"):

        @T.prim_func
        def kernel(Out: T.Tensor((4,), "int32")):
            with T.Kernel(4, threads=32):
                T.PersistentTileScheduler(4, 4, cluster_size=0)
