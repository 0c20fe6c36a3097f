"""Values with which threads overwrite a loaded operand of a GEMM have a tile of their own."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count
from tilelang.transform import run_pass

every_schedule = pytest.mark.every_schedule

ROWS, COLUMNS, DEPTH = 128, 128, 64


def updates():
    """Returns macros that change a tile between its load and the GEMM, by name."""

    @T.macro
    def relu(tile, rows, columns, k):
        for i, j in T.Parallel(rows, columns):
            tile[i, j] = T.max(tile[i, j], 0)

    @T.macro
    def masked(tile, rows, columns, k):
        for i, j in T.Parallel(rows, columns):
            if (i + j) % 3 == 0:
                tile[i, j] = 0

    @T.macro
    def twice(tile, rows, columns, k):
        for i, j in T.Parallel(rows, columns):
            tile[i, j] = tile[i, j] + 1
        for i, j in T.Parallel(rows, columns):
            tile[i, j] = tile[i, j] * 2

    @T.macro
    def through_fragments(tile, rows, columns, k):
        values = T.alloc_fragment((rows, columns), "float16")
        T.copy(tile, values)
        for i, j in T.Parallel(rows, columns):
            values[i, j] = T.max(values[i, j], 0)
        T.copy(values, tile)

    @T.macro
    def by_iteration(tile, rows, columns, k):
        for i, j in T.Parallel(rows, columns):
            tile[i, j] = T.if_then_else(k % 2 == 0, tile[i, j], -tile[i, j])

    return {
        "relu": relu,
        "masked": masked,
        "twice": twice,
        "through fragments": through_fragments,
        "by iteration": by_iteration,
    }


def after(name, matrix, tile_rows, tile_columns, along):
    """`matrix` as the update leaves it; `along`: the dimension that the loop goes along."""
    values = matrix.float()
    rows, columns = (torch.arange(n) for n in values.shape)
    if name in ("relu", "through fragments"):
        return values.clamp(min=0)
    if name == "masked":
        place = rows[:, None] % tile_rows + columns[None] % tile_columns
        return torch.where(place % 3 == 0, 0, values)
    if name == "twice":
        return (values + 1) * 2
    step = (rows[:, None] if along == 0 else columns[None]) // DEPTH
    return torch.where(step % 2 == 0, values, -values)


def product(m, n, k, of_a=None, of_b=None, threads=128, stages=3, serial=False):
    a_update, b_update = updates().get(of_a), updates().get(of_b)

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, COLUMNS), T.ceildiv(m, ROWS), threads=threads) as (bx, by):
            a = T.alloc_shared((ROWS, DEPTH), "float16")
            b = T.alloc_shared((DEPTH, COLUMNS), "float16")
            c = T.alloc_fragment((ROWS, COLUMNS), "float32")
            T.clear(c)
            for s in T.serial(k // DEPTH) if serial else T.Pipelined(k // DEPTH, num_stages=stages):
                T.copy(A[by * ROWS, s * DEPTH], a)
                T.copy(B[s * DEPTH, bx * COLUMNS], b)
                if of_a:
                    a_update(a, ROWS, DEPTH, s)
                if of_b:
                    b_update(b, DEPTH, COLUMNS, s)
                T.gemm(a, b, c)
            T.copy(c, C[by * ROWS, bx * COLUMNS])

    return main


def check(kernel, m, n, k, of_a, of_b):
    a = torch.randint(-3, 4, (m, k)).half()
    b = torch.randint(-3, 4, (k, n)).half()
    c = torch.full((m, n), torch.nan)
    kernel(a, b, c)
    wanted_a = after(of_a, a, ROWS, DEPTH, 1) if of_a else a.float()
    wanted_b = after(of_b, b, DEPTH, COLUMNS, 0) if of_b else b.float()
    assert torch.equal(c, wanted_a @ wanted_b)


def renames(kernel):
    return sum("a tile of their own" in r.message for r in kernel.remarks)


@every_schedule
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize(("of_a", "of_b"), [(name, None) for name in updates()] + [
    (None, "relu"), (None, "masked"), ("relu", "by iteration")
])  # fmt: skip
def test_results(target, of_a, of_b):
    m, n, k = 150, 200, 256
    kernel = tilelang.compile(product(m, n, k, of_a, of_b), target=target)
    assert renames(kernel) == (of_a is not None) + (of_b is not None)
    check(kernel, m, n, k, of_a, of_b)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize(
    "options",
    [{"threads": 256}, {"stages": 2}, {"serial": True}, {"stages": 1}],
    ids=lambda options: " ".join(f"{key} {value}" for key, value in options.items()),
)
def test_threads_and_stages(target, options):
    kernel = tilelang.compile(product(130, 130, 192, "relu", **options), target=target)
    check(kernel, 130, 130, 192, "relu", None)


@pytest.mark.parametrize("target", ["sm_80", "sm_120a"])
def test_warps_that_read_operands_themselves_update_in_place(target):
    program = product(128, 128, 128, "relu")
    assert str(run_pass("rename_tiles", program, target)) == str(program)


def test_an_option_turns_it_off():
    options = {"tl.disable_tile_renaming": True}
    kernel = tilelang.compile(
        product(128, 128, 128, "relu"), target="sm_100a", pass_configs=options
    )
    assert renames(kernel) == 0
    check(kernel, 128, 128, 128, "relu", None)


def test_shared_memory_without_room():
    """Two stages of both tiles take 192 KiB, and one more tile of A 64 KiB."""

    @T.prim_func
    def main(A: T.Tensor((256, 512), "float16"), C: T.Tensor((256, 128), "float32")):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((256, 128), "float16")
            b = T.alloc_shared((128, 128), "float16")
            c = T.alloc_fragment((256, 128), "float32")
            T.clear(c)
            for s in T.Pipelined(4, num_stages=2):
                T.copy(A[0, s * 128], a)
                T.copy(A[128, s * 128], b)
                for i, j in T.Parallel(256, 128):
                    a[i, j] = T.max(a[i, j], 0)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    assert str(run_pass("rename_tiles", main, "sm_100a")) == str(main)
    kernel = tilelang.compile(main, target="sm_100a")
    a, c = torch.randint(-3, 4, (256, 512)).half(), torch.full((256, 128), torch.nan)
    kernel(a, c)
    assert torch.equal(c, a.float().clamp(min=0) @ a[128:].float().T)


def test_tiles_that_are_read_again_stay():
    """An iteration adds to what the one before left in the tile."""

    @T.prim_func
    def main(A: T.Tensor((128, 256), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            total = T.alloc_shared((128, 64), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            T.copy(A[0, 0], total)
            for s in T.Pipelined(4, num_stages=2):
                T.copy(A[0, s * 64], a)
                for i, j in T.Parallel(128, 64):
                    total[i, j] = total[i, j] + a[i, j]
                T.gemm(total, a, c, transpose_B=True)
            T.copy(c, C)

    assert str(run_pass("rename_tiles", main, "sm_100a")) == str(main)
    a, c = torch.randint(-2, 3, (128, 256)).half(), torch.full((128, 128), torch.nan)
    tilelang.compile(main, target="sm_100a")(a, c)
    parts = a.float().reshape(128, 4, 64).transpose(0, 1)
    sums = parts.cumsum(0) + parts[0]
    assert torch.equal(c, sum(total @ part.T for total, part in zip(sums, parts, strict=True)))


@pytest.mark.parametrize("of", ["a", "b"])
def test_grids_of_several_waves(of):
    """A that threads compute gets wide tiles; blocks with such a B share a multiprocessor."""
    m, n, k = 2048, 3072, 2048
    kernel = tilelang.compile(product(m, n, k, **{f"of_{of}": "relu"}), target="sm_100a")
    messages = " ".join(r.message for r in kernel.remarks)
    assert any(f"tiles of 128 x {n}" in messages for n in (192, 224, 240, 256)) == (of == "a")
    assert ("of 2 stages, 2 blocks fit a multiprocessor" in messages) == (of == "b")


def test_one_warpgroup_where_more_blocks_then_fit():
    kernel = tilelang.compile(product(2048, 3072, 2048, of_b="relu", threads=256), target="sm_100a")
    messages = " ".join(r.message for r in kernel.remarks)
    assert "of 2 stages and 128 threads, 2 blocks fit a multiprocessor" in messages
    off = {"tl.disable_block_fitting": True}
    kept = tilelang.compile(
        product(2048, 3072, 2048, of_b="relu"), target="sm_100a", pass_configs=off
    )
    assert "fit a multiprocessor" not in " ".join(r.message for r in kept.remarks)


def test_results_of_wide_tiles():
    """The grid has two waves on a GPU of four multiprocessors."""
    target = with_sm_count(resolve("sm_100a"), 4)
    for of_a, of_b in (("relu", None), (None, "relu")):
        kernel = tilelang.compile(product(300, 520, 128, of_a, of_b), target=target)
        check(kernel, 300, 520, 128, of_a, of_b)
