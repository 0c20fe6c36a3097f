"""T.Persistent whose tiles a scheduler gives out: each is computed once, by whoever comes to it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ["sm_80", "sm_90a", "sm_100a"]


def _gemm(tiles: tuple[int, int], k: int, blocks: int, scheduler: str, odd: int = 3) -> Any:
    """C = A @ B^T by tiles of 64 x 64, the last of which are cut, with deeper ones to the right."""
    m, n = 64 * tiles[0] - odd * 8, 64 * tiles[1] - odd * 8

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((n, k), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(blocks, threads=128) as block:
            a = T.alloc_shared((64, 32), "bfloat16")
            b = T.alloc_shared((64, 32), "bfloat16")
            c = T.alloc_fragment((64, 64), "float32")
            for y, x in T.Persistent(tiles, blocks, block, scheduler=scheduler):
                T.clear(c)
                for i in T.Pipelined(T.min(x + 1, k // 32), num_stages=2):
                    T.copy(A[y * 64, i * 32], a)
                    T.copy(B[x * 64, i * 32], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[y * 64, x * 64])

    return main


def _expected(a: Any, b: Any) -> Any:
    """The product, to whose columns of tile x only the first x + 1 parts of k contribute."""
    result = a.double() @ b.double().T
    for x in range((b.shape[0] + 63) // 64):
        depth = min(32 * (x + 1), a.shape[1])
        columns = b[64 * x : 64 * x + 64, :depth]
        result[:, 64 * x : 64 * x + 64] = a[:, :depth].double() @ columns.double().T
    return result


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("tiles", "blocks", "target"),
    [*(((3, 3), 4, t) for t in TARGETS), ((1, 3), 5, "sm_90a"), ((2, 2), 1, "sm_100a")],
)
def test_counter(tiles: tuple[int, int], blocks: int, target: str) -> None:
    func = _gemm(tiles, 96, blocks, "counter")
    kernel = tilelang.compile(func, target=target)
    for _ in range(2):  # the counter is zero again
        a = torch.randn(*map(int, func.params[0].shape)).bfloat16()
        b = torch.randn(*map(int, func.params[1].shape)).bfloat16()
        c = torch.full((a.shape[0], b.shape[0]), float("nan"))
        kernel(a, b, c)
        torch.testing.assert_close(c.double(), _expected(a, b), rtol=1e-4, atol=1e-4)


@pytest.mark.every_schedule
@pytest.mark.parametrize("tiles", [(3, 3), (7, 5)])
def test_launch_control(tiles: tuple[int, int]) -> None:
    func = _gemm(tiles, 96, tiles[0] * tiles[1], "clc")
    kernel = tilelang.compile(func, target="sm_100a")
    a = torch.randn(*map(int, func.params[0].shape)).bfloat16()
    b = torch.randn(*map(int, func.params[1].shape)).bfloat16()
    c = torch.full((a.shape[0], b.shape[0]), float("nan"))
    kernel(a, b, c)
    torch.testing.assert_close(c.double(), _expected(a, b), rtol=1e-4, atol=1e-4)


@pytest.mark.every_schedule
def test_blocks_are_taken_over() -> None:
    rows, places = T.dynamic("rows"), T.dynamic("places")

    @T.prim_func
    def main(
        X: T.Tensor((rows, 2), "int32"),
        by: T.Tensor((places,), "int32"),
        order: T.Tensor((places,), "int32"),
    ):
        with T.Kernel(places, threads=64) as block:
            t = T.get_thread_binding()
            for i, j in T.Persistent((rows, 2), places, block, scheduler="clc", table=order):
                if t == 0:
                    T.atomic_add(X[i, j], 1)
                    T.atomic_add(by[block], 1)

    kernel = tilelang.compile(main, target="sm_100a")
    for size in (0, 1, 7, 30):
        x = torch.zeros(size, 2, dtype=torch.int32)
        by = torch.zeros(2 * size, dtype=torch.int32)
        kernel(x, by, torch.randperm(2 * size).int())
        assert torch.equal(x, torch.ones_like(x))
        assert by.sum() == 2 * size
    assert by.max() > 1, "nothing was taken over"


def _counts(target: str, scheduler: str) -> Any:
    """Adds 1 to an element for each tile of a loop, and 2 for each of another."""
    rows = T.dynamic("rows")

    @T.prim_func
    def main(X: T.Tensor((rows, 3, 2), "int32"), Y: T.Tensor((rows,), "int32")):
        with T.Kernel(4, threads=64) as block:
            t = T.get_thread_binding()
            for i, j, k in T.Persistent((rows, 3, 2), 4, block, scheduler=scheduler):
                if (i + j) % 3 == 0:
                    continue
                if t == 0:
                    T.atomic_add(X[i, j, k], 1)
            for i in T.Persistent((rows,), 4, block, scheduler=scheduler):
                if t == 1:
                    T.atomic_add(Y[i], 2)

    return tilelang.compile(main, target=target)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_100a"])
def test_every_tile_once(target: str) -> None:
    kernel = _counts(target, "counter")
    for rows in (0, 1, 3, 10, 0, 7):
        x = torch.zeros(rows, 3, 2, dtype=torch.int32)
        y = torch.zeros(rows, dtype=torch.int32)
        kernel(x, y)
        i, j = torch.meshgrid(torch.arange(rows), torch.arange(3), indexing="ij")
        assert torch.equal(x, ((i + j) % 3 != 0).int()[:, :, None].expand(-1, -1, 2))
        assert torch.equal(y, torch.full_like(y, 2))


def _listed(scheduler: str, target: str = "sm_90a", blocks: int = 4) -> Any:
    """Adds 1 to an element for each tile that a table lists."""
    places = T.dynamic("places")
    blocks = places if scheduler == "clc" else blocks

    @T.prim_func
    def main(X: T.Tensor((5, 3, 2), "int32"), order: T.Tensor((places,), "int32")):
        with T.Kernel(blocks, threads=64) as block:
            for i, j, k in T.Persistent((5, 3, 2), blocks, block, scheduler=scheduler, table=order):
                if T.get_thread_binding() == 0:
                    T.atomic_add(X[i, j, k], 1)

    return tilelang.compile(main, target=target)


@pytest.mark.every_schedule
@pytest.mark.parametrize("scheduler", ["table", "counter"])
def test_tiles_of_a_table(scheduler: str) -> None:
    kernel = _listed(scheduler)
    for order in ([], [3], [5, 2, 29, 0, 1], [1] * 9, list(range(29, -1, -1)), [0, 7, 3, 9, 4]):
        for end in ([], [-1], [-1, -1, 30, -5, -1, -1, -1]):
            x = torch.zeros(5, 3, 2, dtype=torch.int32)
            kernel(x, torch.tensor(order + end, dtype=torch.int32))
            expected = torch.bincount(torch.tensor(order, dtype=torch.int64), minlength=30)
            assert torch.equal(x.flatten().long(), expected), (order, end)


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("scheduler", "target", "blocks"),
    [
        *((name, target, 4) for name in ("table", "counter") for target in TARGETS),
        *(("table", "sm_120a", blocks) for blocks in (1, 3, 40, 70)),
        *(("counter", "sm_120a", blocks) for blocks in (1, 70)),
        ("clc", "sm_100a", 0),
    ],
)
def test_nothing_behind_the_end_of_a_table(scheduler: str, target: str, blocks: int) -> None:
    """A list ends at its first entry that is no tile, for the blocks that do not meet it, too."""
    kernel = _listed(scheduler, target, blocks)
    for length, size in ((0, 1), (1, 4), (7, 100), (64, 65), (90, 200)):
        order = torch.randint(0, 30, (size,), dtype=torch.int32)
        order[length] = (-1, 30, 2**31 - 1, -(2**31))[length % 4]
        x = torch.zeros(5, 3, 2, dtype=torch.int32)
        kernel(x, order)
        expected = torch.bincount(order[:length].long(), minlength=30)
        assert torch.equal(x.flatten().long(), expected), (length, size)


@pytest.mark.every_schedule
@pytest.mark.parametrize("scheduler", ["counter", "table"])
def test_tables_of_roles(scheduler: str) -> None:
    """The roles of a kernel that loads ahead follow the table, too."""
    tiles, blocks, k = (5, 4), 3, 96

    @T.prim_func
    def main(
        A: T.Tensor((320, k), "bfloat16"),
        B: T.Tensor((256, k), "bfloat16"),
        C: T.Tensor((320, 256), "float32"),
        order: T.Tensor((20,), "int32"),
    ):
        with T.Kernel(blocks, threads=128) as block:
            a = T.alloc_shared((64, 32), "bfloat16")
            b = T.alloc_shared((64, 32), "bfloat16")
            c = T.alloc_fragment((64, 64), "float32")
            for y, x in T.Persistent(tiles, blocks, block, scheduler=scheduler, table=order):
                T.clear(c)
                for i in T.Pipelined(k // 32, num_stages=2):
                    T.copy(A[y * 64, i * 32], a)
                    T.copy(B[x * 64, i * 32], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[y * 64, x * 64])

    a, b = torch.randn(320, k).bfloat16(), torch.randn(256, k).bfloat16()
    order = torch.randperm(20).int()
    order[17] = -1  # what stands behind it is old
    for target in TARGETS[1:]:
        c = torch.zeros(320, 256)
        kernel = tilelang.compile(main, target=target)
        assert ("scheduler" in str(kernel.schedule())) == (scheduler == "counter")
        assert "load" in str(kernel.schedule())
        kernel(a, b, c, order)
        expected = torch.zeros(5, 64, 4, 64, dtype=torch.float64)
        product = (a.double() @ b.double().T).view(5, 64, 4, 64)
        for tile in order[:17].tolist():
            expected[tile // 4, :, tile % 4] = product[tile // 4, :, tile % 4]
        torch.testing.assert_close(c.double(), expected.view(320, 256), rtol=1e-4, atol=1e-4)


def test_roles_are_told() -> None:
    kernel = tilelang.compile(_gemm((4, 4), 96, 4, "counter"), target="sm_90a")
    text = str(kernel.schedule())
    assert "scheduler  5 " in text
    assert "scheduler  load, threads  tile_full" in text
    assert "as many steps" not in text


def _of_clusters(size: int, tiles: tuple[int, int], clusters: int, scheduler: str) -> Any:
    """A tile is 64 x 64 for each block of a cluster, deeper to the right; all share those of B."""
    m, n, k = 64 * size * tiles[0] - 24, 64 * tiles[1] - 24, 96

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((n, k), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(clusters * size, threads=128, cluster_dims=size) as block:
            a = T.alloc_shared((64, 32), "bfloat16")
            b = T.alloc_shared((64, 32), "bfloat16")
            c = T.alloc_fragment((64, 64), "float32")
            for y, x in T.Persistent(tiles, clusters, block // size, scheduler=scheduler):
                row = (y * size + block % size) * 64
                T.clear(c)
                for i in T.Pipelined(T.min(x + 1, k // 32), num_stages=2):
                    T.copy(A[row, i * 32], a)
                    T.copy_cluster(B[x * 64, i * 32], b, cluster_mask=(1 << size) - 1)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[row, x * 64])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("size", "tiles", "clusters", "scheduler", "target"),
    [
        (2, (2, 3), 2, "counter", "sm_90a"),
        (4, (1, 3), 2, "counter", "sm_100a"),
        (2, (2, 3), 6, "clc", "sm_100a"),
    ],
)
def test_clusters(
    size: int, tiles: tuple[int, int], clusters: int, scheduler: str, target: str
) -> None:
    func = _of_clusters(size, tiles, clusters, scheduler)
    kernel = tilelang.compile(func, target=target)
    assert "scheduler  load, " in str(kernel.schedule())
    # Only the numbers of tiles, which each role reads, are ordered for the whole cluster.
    roles = 2 if target == "sm_90a" else 3
    assert kernel.get_kernel_source().count("mbarrier_wait_cluster(") == roles
    for _ in range(2):
        a = torch.randn(*map(int, func.params[0].shape)).bfloat16()
        b = torch.randn(*map(int, func.params[1].shape)).bfloat16()
        c = torch.full((a.shape[0], b.shape[0]), float("nan"))
        kernel(a, b, c)
        torch.testing.assert_close(c.double(), _expected(a, b), rtol=1e-4, atol=1e-4)


@pytest.mark.every_schedule
@pytest.mark.parametrize("scheduler", ["counter", "clc"])
def test_pairs(scheduler: str) -> None:
    tiles, k = (2, 3), 128
    pairs = 2 if scheduler == "counter" else 6

    @T.prim_func
    def main(
        A: T.Tensor((512, k), "bfloat16"),
        B: T.Tensor((192, k), "bfloat16"),
        C: T.Tensor((512, 192), "float32"),
    ):
        with T.Kernel(2 * pairs, threads=128, cluster_dims=2) as block:
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((32, 64), "bfloat16")
            c = T.alloc_fragment((128, 64), "float32")
            rank = T.block_rank_in_cluster()
            for y, x in T.Persistent(tiles, pairs, block // 2, scheduler=scheduler):
                row = y * 256 + rank * 128
                T.clear(c)
                for i in T.Pipelined(T.min(x + 1, k // 64), num_stages=2):
                    T.copy(A[row, i * 64], a)
                    T.copy(B[x * 64 + rank * 32, i * 64], b)
                    T.gemm(a, b, c, transpose_B=True, use_2cta=True)
                T.copy(c, C[row, x * 64])

    kernel = tilelang.compile(main, target="sm_100a")
    assert "scheduler  load, mma, threads" in str(kernel.schedule())
    a, b = torch.randn(512, k).bfloat16(), torch.randn(192, k).bfloat16()
    c = torch.full((512, 192), float("nan"))
    kernel(a, b, c)
    expected = a.double() @ b.double().T
    expected[:, :64] = a[:, :64].double() @ b[:64, :64].double().T
    torch.testing.assert_close(c.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.every_schedule
@pytest.mark.parametrize("scheduler", ["counter", "clc"])
def test_clusters_without_roles(scheduler: str) -> None:
    rows, clusters = T.dynamic("rows"), T.dynamic("clusters")
    places = clusters if scheduler == "clc" else rows

    @T.prim_func
    def main(X: T.Tensor((rows, 2), "int32"), by: T.Tensor((clusters,), "int32")):
        with T.Kernel(2 * clusters, threads=64, cluster_dims=2) as block:
            t = T.get_thread_binding()
            for i in T.Persistent((places,), clusters, block // 2, scheduler=scheduler):
                if t == 40:
                    T.atomic_add(X[i, block % 2], 1)
                    T.atomic_add(by[block // 2], 1)

    kernel = tilelang.compile(main, target="sm_100a")
    row = next(line for line in str(kernel.schedule()).splitlines() if line.startswith("tile"))
    assert "threads  threads" in row and "the barrier of an iteration" in row
    for size, number in ((1, 3), (9, 2), (2, 2)):
        number = size if scheduler == "clc" else number
        x, by = torch.zeros(size, 2, dtype=torch.int32), torch.zeros(number, dtype=torch.int32)
        kernel(x, by)
        assert torch.equal(x, torch.ones_like(x))
        assert by.sum() == 2 * size


def test_a_product_that_nobody_reads() -> None:
    """The workspace of the counter stands beside the launch: accumulators are staged inside it."""

    @T.prim_func
    def main(A: T.Tensor((128, 64), "bfloat16"), B: T.Tensor((64, 32), "bfloat16")):
        with T.Kernel(3, threads=256) as block:
            a = T.alloc_shared((128, 32), "bfloat16")
            b = T.alloc_shared((32, 32), "bfloat16")
            c = T.alloc_fragment((128, 32), "float32")
            for i in T.Persistent((2,), 3, block, scheduler="counter"):
                T.copy(A[0, i * 32], a)
                T.copy(B[i * 32, 0], b)
                T.gemm(a, b, c, clear_accum=True)

    tilelang.compile(main, target="sm_100a")


def test_even_tiles_are_told() -> None:
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float32"), order: T.Tensor((32,), "int32")):
        with T.Kernel(4, threads=32) as block:
            for i in T.Persistent((32,), 4, block, 4, scheduler="counter", table=order):
                for j in T.Parallel(64):
                    A[i, j] = i

    remarks = "\n".join(map(str, tilelang.compile(main, target="sm_80").remarks))
    assert "every tile takes as many steps" in remarks
    assert "group_size=4" in remarks


def test_uneven_tiles_are_told() -> None:
    def remarks(tiles: tuple[int, int], blocks: int, k: int) -> str:
        kernel = tilelang.compile(_gemm(tiles, k, blocks, "static"), target="sm_90a")
        return "\n".join(map(str, kernel.remarks))

    assert "how often `i` at line" in remarks((3, 3), 4, 96)
    assert "depends on the tile" not in remarks((3, 3), 4, 32)  # one step each
    assert "depends on the tile" not in remarks((3, 3), 9, 96)  # one tile each


@pytest.mark.parametrize("scheduler", ["static", "counter"])
def test_one_column_of_tiles(scheduler: str) -> None:
    """Its number is 0 where blocks have tiles beyond the last one, too."""

    @T.prim_func
    def main(A: T.Tensor((3, 64), "int32")):
        with T.Kernel(2, threads=64) as block:
            for i, j in T.Persistent((3, 1), 2, block, scheduler=scheduler):
                for _ in range(j + 1):
                    for k in T.Parallel(64):
                        A[i, j * 64 + k] += i + 1

    a = torch.zeros(3, 64, dtype=torch.int32)
    tilelang.compile(main, target="sm_90a")(a)
    assert torch.equal(a, torch.tensor([1, 2, 3]).int()[:, None].expand(3, 64))


@pytest.mark.parametrize("m", [11, None], ids=["static", "dynamic"])
def test_groups_that_do_not_divide_the_rows_are_copied_by_tma(m: int | None) -> None:
    """Coordinates fit in 32 bits and are not negative, also in the last group, of fewer rows."""
    rows = T.dynamic("rows") if m is None else 64 * m

    @T.prim_func
    def main(
        A: T.Tensor((rows, 64), "bfloat16"),
        B: T.Tensor((128, 64), "bfloat16"),
        C: T.Tensor((rows, 128), "bfloat16"),
    ):
        with T.Kernel(3, threads=128) as block:
            a = T.alloc_shared((64, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            out = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((64, 64), "float32")
            for y, x in T.Persistent([T.ceildiv(rows, 64), 2], 3, block, group_size=8):
                T.copy(A[y * 64, 0], a)
                T.copy(B[x * 64, 0], b)
                T.gemm(a, b, c, transpose_B=True, clear_accum=True)
                T.copy(c, out)
                T.copy(out, C[y * 64, x * 64])

    kernel = tilelang.compile(main, target="sm_90a")
    copies = [remark.message for remark in kernel.remarks if remark.topic == "copy"]
    assert sum("by TMA" in text for text in copies) == 3, copies
    a, b = torch.randn(64 * 11, 64).bfloat16(), torch.randn(128, 64).bfloat16()
    c = torch.full((64 * 11, 128), float("nan")).bfloat16()
    kernel(a, b, c)
    torch.testing.assert_close(c, (a.double() @ b.double().T).bfloat16())
