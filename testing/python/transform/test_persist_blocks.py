"""Blocks of plain gemms: wider ones, and ones that take the tiles of a grid in turn."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count
from tilelang.transform import remarks_of

#: keeps the threads of the small tiles of a test, of which two blocks would fit
THREADS_STAY = {tilelang.PassConfigKey.TL_DISABLE_BLOCK_FITTING: True}
SPLIT = {tilelang.PassConfigKey.TL_DISABLE_PERSISTENT_BLOCKS: True}
NARROW = {tilelang.PassConfigKey.TL_DISABLE_TILE_WIDENING: True}


def program(
    rows=4096, columns=4096, depth=512, m=128, n=128, k=64, threads=128, out="float16", order=None,
    epilogue="", dtype="float16", grid_rows=None,
):  # fmt: skip
    """C = A B, one tile a block, and what ``epilogue`` says."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), dtype),
        B: T.Tensor((depth, columns), dtype),
        bias: T.Tensor((columns,), "float32"),
        C: T.Tensor((rows, columns), out),
        S: T.Tensor((rows, columns), "float32"),
    ):
        grid = T.ceildiv(columns, n), grid_rows or T.ceildiv(rows, m)
        with T.Kernel(*grid, threads=threads) as (bx, by):
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((k, n), dtype)
            c = T.alloc_fragment((m, n), "float32")
            if order:
                T.use_swizzle(3, order=order)
            T.clear(c)
            steps = T.min(by + 1, 3) if epilogue == "triangle" else T.ceildiv(depth, k)
            for step in T.Pipelined(steps, num_stages=2):
                T.copy(A[by * m, step * k], a)
                T.copy(B[step * k, bx * n], b)
                T.gemm(a, b, c)
            if epilogue == "bias":
                for i, j in T.Parallel(m, n):
                    c[i, j] = c[i, j] + bias[bx * n + j]
            elif epilogue == "residual":
                for i, j in T.Parallel(m, n):
                    c[i, j] = c[i, j] + S[by * m + i, bx * n + j]
            elif epilogue == "added":
                T.atomic_add(S[by * m, bx * n], c)
            elif epilogue == "sums":
                sums = T.alloc_fragment((m,), "float32")
                T.reduce_sum(c, sums, dim=1)
                T.copy(sums, S[by * m : by * m + m, bx])
            if epilogue == "staged":
                staged = T.alloc_shared((m, n), out)
                T.copy(c, staged)
                T.copy(staged, C[by * m, bx * n])
            else:
                T.copy(c, C[by * m, bx * n])

    return main


def said(configs=None, target="sm_90a", **options) -> str:
    lowered = tilelang.lower(program(**options), target=target, pass_configs=configs)
    return " ".join(remark.message for remark in lowered.remarks)


def on(sm_count):
    """A Hopper with so many multiprocessors, whose waves a small problem fills."""
    return with_sm_count(resolve("sm_90a"), sm_count)


ADDS = ("bias", "residual")


def check(kernel, rows, columns, depth=72, dtype="float16", epilogue=None):
    torch.manual_seed(0)
    a, b = (
        torch.randn(*size).to(getattr(torch, dtype)) for size in ((rows, depth), (depth, columns))
    )
    c = poisoned((rows, columns), "float16", "cpu")
    bias, s = torch.randn(columns), torch.randn(rows, columns)
    kernel(a, b, bias, c, s)
    want = a.double() @ b.double()
    if epilogue in ADDS:
        want += {"bias": bias, "residual": s}[epilogue].double()
    torch.testing.assert_close(c.double(), want, rtol=2e-3, atol=1e-2)


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    "options",
    [
        {"rows": 3 * 64 + 5, "columns": 6 * 16 + 8},  # 28 tiles: the last turn of some blocks
        {"rows": 4 * 64, "columns": 6 * 16},  # 24: two of every block
        {"rows": 4 * 64, "columns": 8 * 16, "epilogue": "staged", "order": "row"},
        {"rows": 3 * 64 + 5, "columns": 6 * 16 + 8, "epilogue": "bias"},
        {"rows": 3 * 64 + 5, "columns": 6 * 16 + 8, "epilogue": "residual"},
    ],
    ids=str,
)
def test_blocks_take_tiles_in_turn(options):
    small = {"m": 64, "n": 16, "k": 32, "depth": 72, "threads": 256}
    kernel = tilelang.compile(
        program(**small | options), target=on(12), pass_configs=THREADS_STAY | NARROW
    )
    assert "12 blocks compute the" in " ".join(remark.message for remark in kernel.remarks)
    check(kernel, options["rows"], options["columns"], epilogue=options.get("epilogue"))


@pytest.mark.parametrize(
    ("sm_count", "tile", "options"),
    [
        (3, "128 x 256", {"rows": 376, "columns": 456, "k": 32}),
        (3, "128 x 256", {"rows": 376, "columns": 456, "epilogue": "staged", "threads": 256}),
        (2, "192 x 192", {"rows": 380, "columns": 376}),
        (3, "192 x 192", {"rows": 570, "columns": 576}),
        (3, "128 x 192", {"rows": 240, "columns": 456}),
        (3, "256 x 128", {"rows": 250, "columns": 376, "threads": 256}),
        (3, "104 x 192", {"rows": 300, "columns": 320}),  # of rows that fill the waves
        (3, "152 x 192", {"rows": 297, "columns": 456}),  # pairs of blocks load B together
        (5, "112 x 256", {"rows": 560, "columns": 456, "epilogue": "staged"}),
        (5, "168 x 128", {"rows": 328, "columns": 456, "dtype": "bfloat16"}),
        (3, "240 x 128", {"rows": 700, "columns": 640}),
        (3, "128 x 256", {"rows": 376, "columns": 456, "epilogue": "residual"}),
        (2, "192 x 192", {"rows": 380, "columns": 376, "epilogue": "bias"}),
    ],
    ids=str,
)
@pytest.mark.every_schedule
def test_wider_tiles_compute_the_same(sm_count, tile, options):
    kernel = tilelang.compile(program(depth=72, **options), target=on(sm_count))
    assert f"{tile} elements each instead of" in " ".join(r.message for r in kernel.remarks)
    more = {key: options[key] for key in ("dtype", "epilogue") if key in options}
    check(kernel, options["rows"], options["columns"], **more)


def test_tiles_of_any_rows_sum_alike():
    sizes = {"rows": 297, "columns": 456, "depth": 520}
    a, b = torch.randn(297, 520).half(), torch.randn(520, 456).half()
    results = []
    for configs in (None, NARROW):
        c = poisoned((297, 456), "float16", "cpu")
        kernel = tilelang.compile(program(**sizes), target=on(3), pass_configs=configs)
        kernel(a, b, torch.zeros(456), c, torch.zeros(297, 456))
        results.append(c)
    assert torch.equal(*results)


def test_wider_tiles_store_no_more():
    rows = 3 * 128 + 100  # of which the grid of the program has the first 384 alone
    kernel = tilelang.compile(program(rows=rows, columns=456, depth=72, grid_rows=3), target=on(3))
    assert "elements each instead of" in " ".join(r.message for r in kernel.remarks)
    a, b = torch.randn(rows, 72).half(), torch.randn(72, 456).half()
    c = poisoned((rows, 456), "float16", "cpu")
    kernel(a, b, torch.zeros(456), c, torch.zeros(rows, 456))
    torch.testing.assert_close(c[:384].double(), (a @ b)[:384].double(), rtol=2e-3, atol=1e-2)
    assert c[384:].isnan().all()


@pytest.mark.every_schedule
def test_the_last_wave_is_divided():
    rows, columns, depth = 3 * 128 - 9, 3 * 256 - 64, 1280
    wide = {"rows": rows, "columns": columns, "depth": depth, "n": 256, "threads": 256}
    kernel = tilelang.compile(program(order="row", **wide), target=on(4), pass_configs=NARROW)
    said = " ".join(remark.message for remark in kernel.remarks)
    assert "4 blocks compute 8 of the 9 tiles" in said
    assert "another launch of 4 blocks computes the other 1, cut to 128 x 64" in said
    check(kernel, rows, columns, depth)


@pytest.mark.every_schedule
def test_clusters_share_the_iterations_of_the_last_wave():
    rows, columns, depth = 7 * 128 - 9, 2 * 256 - 64, 2056
    wide = {"rows": rows, "columns": columns, "depth": depth, "n": 256, "threads": 256}
    kernel = tilelang.compile(program(order="row", **wide), target=on(12), pass_configs=NARROW)
    message = " ".join(remark.message for remark in kernel.remarks)
    assert "12 blocks compute 12 of the 14 tiles" in message
    assert "8 blocks computes the other 2, cut to 128 x 128, of which clusters of 2" in message
    # The second launch begins while the first one ends, and ends after it.
    source = str(kernel.get_kernel_source())
    assert source.index("let_next_grid_start()") < source.index("wait_for_previous_grid()")
    check(kernel, rows, columns, depth)


@pytest.mark.parametrize("option", ["tl.disable_split_k", "tl.batch_invariant"])
def test_sums_of_the_last_wave_stay_whole(option):
    wide = {"rows": 7 * 128 - 9, "columns": 448, "depth": 2056, "n": 256, "threads": 256}
    message = said(NARROW | {option: True}, target=on(12), order="row", **wide)
    assert "another launch" in message and "share the iterations" not in message


TOGETHER = "two blocks, a cluster, load tiles of B together"


@pytest.mark.every_schedule
@pytest.mark.parametrize("rows", [5 * 128 - 9, 4 * 128])
def test_pairs_load_tiles_of_b_together(rows):
    columns = 2 * 256 - 40  # rows of B begin between lines of L2
    wide = {"rows": rows, "columns": columns, "depth": 520, "n": 256, "k": 32, "threads": 256}
    kernel = tilelang.compile(program(**wide), target=on(4))
    assert TOGETHER in " ".join(remark.message for remark in kernel.remarks)
    assert "multicast::cluster" in kernel.get_ptx() and "__cluster_dims__(2" in str(
        kernel.get_kernel_source()
    )
    check(kernel, rows, columns, depth=520)


@pytest.mark.parametrize(
    ("options", "together"),
    [
        ({}, True),
        ({"columns": 2432, "depth": 512}, False),  # whole lines
        # C goes on after the grid
        ({"rows": 4500 + 128, "grid_rows": 35, "n": 256, "threads": 256}, False),
        ({"rows": 4500 + 128, "grid_rows": 36}, True),
        ({"sm_count": 131}, False),
        ({"order": "row"}, True),
        ({"epilogue": "triangle"}, False),
    ],
    ids=str,
)
def test_where_pairs_load_together(options, together):
    options = {"rows": 4500, "columns": 2360, "depth": 1208, **options}
    target = on(options.pop("sm_count", 132))
    as_wide = NARROW if "n" in options else {}
    assert (TOGETHER in said(as_wide, target=target, **options)) == together
    assert TOGETHER not in said(SPLIT, target=target, **options)


def test_what_remarks_say():
    (wide,) = remarks_of("choose_tiles", program(), "sm_90a")
    assert wide.topic == "tiles" and "tl.disable_tile_widening" in wide.message
    text = said()
    assert "132 blocks compute the 512 tiles" in text and "beside the operands" in text
    assert "tl.disable_persistent_blocks" in text
    assert "132 blocks" not in said(SPLIT) and "in the bytes of the operands" in said(SPLIT)
    assert "elements each" not in said(NARROW)


@pytest.mark.parametrize(
    "options",
    [
        {"rows": 1024, "columns": 2048},  # less than a wave
        {"dtype": "float32"},
        {"rows": T.dynamic("rows")},
        {"dtype": "float8_e4m3fn"},
        {"depth": 4095},  # loads by threads
        {"epilogue": "sums"},  # of all columns of a block
    ],
    ids=str,
)
def test_other_tiles_stay_narrow(options):
    remarks = remarks_of("choose_tiles", program(**options), "sm_90a")
    assert not any("fewer bytes" in remark.message for remark in remarks)


@pytest.mark.parametrize(("m", "n"), [(64, 64), (64, 128), (128, 64), (64, 256)])
def test_tiles_of_other_sizes_are_widened(m, n):
    target = on(3)
    kernel = tilelang.compile(program(rows=376, columns=456, m=m, n=n, depth=72), target=target)
    text = " ".join(remark.message for remark in kernel.remarks)
    assert f"elements each instead of {m} x {n}: they load fewer bytes" in text
    check(kernel, 376, 456)
    assert "fewer bytes" not in said(NARROW, target=target, rows=376, columns=456, m=m, n=n)


@pytest.mark.parametrize(
    "options",
    [
        {"rows": 1024},  # 128 tiles: no more than multiprocessors
        {"out": "float32"},  # no room beside the stages
        {"order": "column"},
        {"epilogue": "added"},  # blocks see each other
        {"epilogue": "triangle"},  # tiles of different cost
    ],
    ids=str,
)
def test_other_grids_stay(options):
    assert "132 blocks" not in said(n=256, threads=256, **options)


@pytest.mark.parametrize("target", ["sm_80", "sm_100a"])
def test_targets_without_wgmma_stay_as_they_are(target):
    assert "elements each" not in said(target=target) and "compute the" not in said(target=target)
