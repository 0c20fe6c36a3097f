"""GEMMs with dynamic sizes: the host runs the kernel whose tiles suit the call."""

from __future__ import annotations

import re

import pytest
import torch
from sm90.gemm_kernels import poisoned
from tiling.gemms import plain_gemm

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count
from tilelang.transform import remarks_of

M, N, K = (T.dynamic(name) for name in "MNK")


def program(rows=M, columns=4096, depth=2048, **options):
    """A B with B (depth, columns)."""
    return plain_gemm(rows, columns, depth, order="NN", **options)


def on(sm_count):
    """A Hopper with so many multiprocessors, whose waves a small problem fills."""
    return with_sm_count(resolve("sm_90a"), sm_count)


def tiles_of(target="sm_90a", **options) -> list[str]:
    """The tiles of the kernels of which a call runs one."""
    return tiles_in(remarks_of("choose_tiles", program(**options), target))


def tiles_in(remarks) -> list[str]:
    said = [r.message for r in remarks if "of which a call runs one" in r.message]
    kernels = " ".join(re.findall(r"runs one: (.*?)\. (?:Clusters|The pass)", " ".join(said)))
    return re.findall(r"\d+ x \d+(?: in pairs)?(?: by clusters of \d+)?(?: \([^)]*\))?", kernels)


def check(kernel, rows, columns, depth, twice=False):
    """Checks the result, and that one kernel ran."""
    torch.manual_seed(rows)
    a, b = torch.randn(rows, depth).bfloat16(), torch.randn(depth, columns).bfloat16()
    c = poisoned((rows, columns), "bfloat16", "cpu")
    reports = []
    with kernel.reporting(reports.append):
        kernel(a, b, c)
    wanted = a.double() @ b.double()
    wanted = 2 * wanted if twice else wanted
    torch.testing.assert_close(c.double(), wanted, rtol=1e-2, atol=2e-2)
    assert len(reports) == (1 if rows else 0)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, (5, 16, 17, 33, 64, 65, 97, 129, 300, 900, 0)),
        ({"twice": True}, (1, 128, 300)),
        ({"swapped": True}, (1, 16, 200, 500)),
    ],
    ids=str,
)
def test_results_of_all_sizes(options, sizes):
    columns, depth = 296, 32 * 16 + 8  # three tiles
    kernel = tilelang.compile(program(columns=columns, depth=depth, k=16, **options), target=on(7))
    for rows in sizes:
        check(kernel, rows, columns, depth, twice="twice" in options)


@pytest.mark.every_schedule
@pytest.mark.parametrize("rows", [100, 300, 900])
def test_results_in_every_order(rows):
    kernel = tilelang.compile(program(columns=264, depth=40, k=16), target=on(5))
    check(kernel, rows, 264, 40)


FEW_COLUMNS = {"columns": 264, "depth": 2040}


@pytest.mark.parametrize("swapped", [False, True])
def test_blocks_share_k_where_few_tiles_are_in_the_grid(swapped):
    kernel = tilelang.compile(
        program(**FEW_COLUMNS, swapped=swapped), target=with_sm_count(resolve("sm_90a"), 132)
    )
    said = " ".join(remark.message for remark in kernel.remarks)
    assert "64 by clusters of" in said
    for rows in (1, 16, 33, 128, 129, 300):
        check(kernel, rows, **FEW_COLUMNS)


@pytest.mark.every_schedule
def test_shared_sums_in_every_order():
    kernel = tilelang.compile(program(**FEW_COLUMNS), target="sm_90a")
    check(kernel, 40, **FEW_COLUMNS)


@pytest.mark.parametrize("option", ["TL_DISABLE_SPLIT_K", "TL_BATCH_INVARIANT"])
def test_each_tile_can_be_left_to_one_block(option):
    configs = {tilelang.PassConfigKey[option]: True}
    kernel = tilelang.compile(program(**FEW_COLUMNS), target="sm_90a", pass_configs=configs)
    assert "clusters" not in " ".join(remark.message for remark in kernel.remarks)
    assert "cluster" not in kernel.get_kernel_source()


def test_blocks_share_k_where_more_is_done_with_the_result():
    kernel = tilelang.compile(program(**FEW_COLUMNS, twice=True), target="sm_90a")
    assert any("clusters" in tiles for tiles in tiles_in(kernel.remarks))
    for rows in (1, 40, 129):
        check(kernel, rows, **FEW_COLUMNS, twice=True)


# Calls of one wave by small tiles and by larger ones, of more waves, and with rows that threads
# store.
OF_ANY = [(5, 200, 40), (5, 440, 40), (30, 800, 72), (40, 200, 40), (64, 440, 40), (90, 440, 40)]
OF_ANY += [(60, 800, 40), (128, 440, 40), (128, 800, 40), (150, 800, 40), (900, 264, 72)]
OF_ANY += [(70, 264, 41), (129, 131, 72), (5, 201, 40)]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_results_where_more_is_of_the_call(target):
    few_sms = with_sm_count(resolve(target), 8)
    kernel = tilelang.compile(program(columns=N, depth=K, k=32), target=few_sms)
    assert 2 <= len(tiles_in(kernel.remarks)) <= 4  # four of whole vectors, and others
    assert kernel.get_kernel_source().count("__global__") <= 7
    for sizes in OF_ANY:
        check(kernel, *sizes)
    kernel = tilelang.compile(program(rows=300, columns=N, depth=72, k=32), target=few_sms)
    for columns in (264, 131):
        check(kernel, 300, columns, 72)


def test_no_more_rows_are_stored():
    L = T.dynamic("L")

    @T.prim_func
    def first(
        A: T.Tensor((M, 72), "bfloat16"),
        B: T.Tensor((72, 264), "bfloat16"),
        C: T.Tensor((L, 264), "bfloat16"),
    ):
        with T.Kernel(3, T.ceildiv(M, 128), threads=128) as (bx, by):
            a = T.alloc_shared((128, 32), "bfloat16")
            b = T.alloc_shared((32, 128), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for step in T.Pipelined(3, num_stages=2):
                T.copy(A[by * 128, step * 32], a)
                T.copy(B[step * 32, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 128])

    kernel = tilelang.compile(first, target=on(4))
    a, b = torch.randn(300, 72).bfloat16(), torch.randn(72, 264).bfloat16()
    c = poisoned((600, 264), "bfloat16", "cpu")
    kernel(a, b, c)  # whole tiles, of zeros after the rows of A, as the program says
    torch.testing.assert_close(c[:300].double(), a.double() @ b.double(), rtol=1e-2, atol=2e-2)
    assert (c[300:384] == 0).all() and c[384:].isnan().all()


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": 14336},
        {"columns": 14336, "swapped": True},
        {"columns": 32768},  # a row of tiles is more than a wave
        {"depth": 512},
        {"twice": True},
        {"m": 64},
        {"columns": 256, "out": "float32"},
    ],
    ids=str,
)
def test_kernels_for_fewer_rows_come_first(target, options):
    tiles = tiles_of(target, **options)
    assert 2 <= len(tiles) <= 6 or options == {"columns": 32768}
    limits = [int(n) for n in re.findall(r"M <= (\d+)", " ".join(tiles))]
    assert limits == sorted(set(limits))
    without = [tile for tile in tiles if "(" not in tile]
    assert without == tiles[len(limits) :] and (without or not tiles)


def test_pairs_are_there_where_rows_are_vectors_in_some_calls_only():
    """Assumptions on sizes do not exclude pairs."""
    tiles = tiles_in(tilelang.lower(program(columns=N), target="sm_100a").remarks)
    assert any("in pairs" in tile for tile in tiles)


@pytest.mark.parametrize(
    "options",
    [
        {"rows": 4096},
        {"depth": 4095},  # loads by threads
        {"target": "sm_80"},
    ],
    ids=str,
)
def test_one_kernel_is_there(options):
    assert not tiles_of(**options)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("rows", [16, 384, 2048, 4096])
def test_calls_take_about_as_long_as_constant_sizes(target, rows):
    """By the timing model, with another tile for each of these sizes."""
    tensors = [torch.empty(shape).bfloat16() for shape in ((rows, 2048), (2048, 4096))]
    tensors.append(torch.empty(rows, 4096).bfloat16())
    times = []
    for extent in (M, rows):
        kernel = tilelang.compile(program(rows=extent), target=target)
        times.append(sum(grid.timing.grid_us for grid in kernel.profile(*tensors).grids))
    assert times[0] < 1.15 * times[1]


def test_what_remarks_say():
    (remark,) = remarks_of("choose_tiles", program(), "sm_90a")
    assert remark.topic == "tiles" and "tl.disable_launch_versions" in remark.message
    one = {tilelang.PassConfigKey.TL_DISABLE_LAUNCH_VERSIONS: True}
    lowered = tilelang.lower(program(), target="sm_90a", pass_configs=one)
    assert "main_kernel_1" not in lowered.kernel_source
    said = " ".join(r.message for r in tilelang.lower(program(), target="sm_90a").remarks)
    assert "132 blocks compute the tiles of a call" in said
