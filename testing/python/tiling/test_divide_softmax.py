"""Blocks of a cluster share the keys of attention where the grid has few blocks."""

from __future__ import annotations

import math

import pytest
import torch

import tilelang
import tilelang.language as T

INFINITY = float("inf")
TARGETS = ("sm_100a", "sm_90a")


@T.macro
def softmax(scores, highest, shrink, total, scale, power, form):
    """Weights in place of scores, by the greatest score so far; by what earlier ones shrink."""
    rows, columns = scores.shape
    before, added = (T.alloc_fragment((rows,), "float32") for _ in range(2))
    T.copy(highest, before)
    T.fill(highest, -INFINITY)
    T.reduce_max(scores, highest, dim=1, clear=False)
    if form != "tile":
        for i in T.Parallel(rows):
            highest[i] = T.max(highest[i], before[i])
    if form == "guard":
        for i in T.Parallel(rows):
            highest[i] = T.if_then_else(highest[i] == -INFINITY, 0, highest[i])
    for i in T.Parallel(rows):
        shrink[i] = power((before[i] - highest[i]) * scale)
    for i, j in T.Parallel(rows, columns):
        scores[i, j] = power(scores[i, j] * scale - highest[i] * scale)
    T.reduce_sum(scores, added, dim=1)
    for i in T.Parallel(rows):
        total[i] = total[i] * shrink[i] + added[i]


@T.macro
def masked(scores, mask, first, at):
    """Minus infinity where the mask is not set, or where the tensor ends."""
    queries, keys = mask.shape
    for i, j in T.Parallel(*scores.shape):
        row, column = first + i, at + j
        inside = (row < queries) & (column < keys)
        seen = inside & (mask[T.min(row, queries - 1), T.min(column, keys - 1)] != 0)
        scores[i, j] = T.if_then_else(seen, scores[i, j], -INFINITY)


@T.macro
def divided(result, highest, total, empty):
    """The result over the sums of weights; zero in rows that are empty."""
    for i, j in T.Parallel(*result.shape):
        result[i, j] /= total[i]
    if empty:
        for i, j in T.Parallel(*result.shape):
            none = (highest[i] == -INFINITY) if empty == "highest" else (total[i] == 0)
            result[i, j] = T.if_then_else(none, 0, result[i, j])


@T.macro
def log_sum(total, highest, scale, L, first, stored):
    """Stores the binary logarithm of the sum of exponentials."""
    for i in T.Parallel(*total.shape):
        total[i] = T.log2(total[i]) + highest[i] * scale
    T.copy(total[:stored], L[first : first + stored])


def attention(
    queries, keys, dim, tile=(64, 64), begin=-INFINITY, power="exp2", dtype="bfloat16",
    threads=128, stages=2, real_rows=None, empty="", causal=False, extra="", form="",
):  # fmt: skip
    """O = softmax(Q K^T * factor) V for keys whose mask is set, and L, the log-sum-exp, by rows.

    The maxima begin with ``begin``. Scores are multiplied by 1 / sqrt(dim) with "exp2" and "exp";
    with "steep", where the scale of the exponential is 4, by 4 ln 2. Only ``real_rows`` of a tile
    are stored, if given. Where a row has no key, ``empty`` stores zero, by the "highest" score or
    the "total". ``extra`` is a statement that keeps parts from being apart. ``form``: weights are
    relative to the maximum of their "tile"; "guard" puts zero in place of minus infinity.
    """
    (rows, columns), stored = tile, real_rows or tile[0]
    factor = math.log2(math.e) / math.sqrt(dim)
    scale = {"exp2": factor, "exp": 1 / math.sqrt(dim), "steep": 4.0}[power]
    function, binary = (T.exp, factor) if power == "exp" else (T.exp2, scale)
    of_rows, of_keys = T.Tensor((queries, dim), dtype), T.Tensor((keys, dim), dtype)
    of_mask = T.Tensor((queries, keys), "uint8")
    of_sums = T.Tensor((queries,), "float32")

    @T.prim_func
    def main(
        Q: of_rows, K: of_keys, V: of_keys, mask: of_mask, O: of_rows, L: of_sums,  # noqa: E741
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(queries, stored), threads=threads) as block:
            q = T.alloc_shared((rows, dim), dtype)
            k, v = (T.alloc_shared((columns, dim), dtype) for _ in range(2))
            scores = T.alloc_fragment((rows, columns), "float32")
            weights = T.alloc_fragment((rows, columns), dtype)
            result = T.alloc_fragment((rows, dim), "float32")
            highest, shrink, total = (T.alloc_fragment((rows,), "float32") for _ in range(3))
            first = block * stored
            T.copy(Q[first : first + rows, :], q)
            if extra == "store before":
                T.fill(L[first : first + rows], 0)
            T.fill(total, int(extra == "one before")), T.fill(result, 0)
            T.fill(highest, begin)
            last = first + rows if causal else keys
            for step in T.Pipelined(T.ceildiv(last, columns), num_stages=stages):
                at = step * columns
                T.copy(K[at : at + columns, :], k)
                T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True)
                masked(scores, mask, first, at)
                softmax(scores, highest, shrink, total, scale, function, form)
                if extra == "store inside":
                    T.copy(total, L[first : first + rows])
                T.copy(scores, weights)
                for i, j in T.Parallel(rows, dim):
                    result[i, j] *= shrink[i]
                T.copy(V[at : at + columns, :], v)
                T.gemm(weights, v, result)
            if extra == "last weights":
                T.copy(weights[:, 0], highest)
            divided(result, highest, total, empty)
            T.copy(result[:stored, :], O[first : first + stored, :])
            if not extra.startswith("store"):
                log_sum(total, highest, binary, L, first, stored)

    return main


def is_shared(kernel) -> bool:
    return any("share the iterations of a softmax" in r.message for r in kernel.remarks)


def compiled(function, target, parts, **configs):
    return tilelang.compile(
        function, target=target, pass_configs={"tl.tile_parts": parts, **configs}
    )


def check(kernel, queries, keys, dim, seen=None, power="exp2", dtype="bfloat16", lse=True):
    """Compares the kernel with float64. ``seen``: the mask; rows without a key are zero. ``lse``:
    the kernel stores L."""
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    q, k, v = (torch.randn(n, dim).to(kind) for n in (queries, keys, keys))
    if seen is None:
        seen = torch.ones(queries, keys, dtype=torch.bool)
    out, sums = torch.full((queries, dim), math.nan).to(kind), torch.full((queries,), math.nan)
    kernel(q, k, v, seen.to(torch.uint8), out, sums)
    factor = 4 * math.log(2) if power == "steep" else 1 / math.sqrt(dim)
    scores = (q.double() @ k.double().T * factor).masked_fill(~seen, -INFINITY)
    expected = scores.softmax(-1).nan_to_num(0) @ v.double()
    torch.testing.assert_close(out.double(), expected, rtol=2e-2, atol=2e-2)
    some = seen.any(1) & lse
    log = torch.logsumexp(scores, -1) / math.log(2)
    torch.testing.assert_close(sums.double()[some], log[some], rtol=1e-3, atol=1e-3)
    return sums


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("parts", [2, 8])
def test_parts_of_a_cluster(parts, target):
    kernel = compiled(attention(128, 512, 64), target, parts)
    assert is_shared(kernel)
    check(kernel, 128, 512, 64)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("keys", "parts", "options"),
    [
        (200, 4, {}),  # 4 iterations, of which the last is ragged
        (448, 4, {"stages": 3}),  # 7 iterations: 2, 2, 2 and 1
        (128, 8, {}),  # six parts have none
        (384, 2, {"tile": (64, 32), "dtype": "float16", "power": "exp"}),
        (384, 2, {"power": "steep", "begin": -1e30}),
        (512, 4, {"tile": (128, 64), "threads": 256}),
        (320, 2, {"tile": (128, 128), "stages": 1}),
    ],
)
def test_numbers_of_iterations(keys, parts, options, target):
    kernel = compiled(attention(72, keys, 64, **options), target, parts)
    assert is_shared(kernel)
    check(
        kernel, 72, keys, 64, power=options.get("power", "exp2"),
        dtype=options.get("dtype", "bfloat16"),
    )  # fmt: skip


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("power", ["exp2", "steep"])
@pytest.mark.parametrize(("begin", "empty"), [(-INFINITY, "highest"), (-1e30, "total")])
def test_masked_keys(begin, empty, power, target):
    """Parts without a key of a row that has some, and rows without any."""
    seen = torch.rand(100, 512) < 0.5
    seen[:50, :256] = False  # only later parts have keys
    seen[50:75, 128:] = False
    seen[20] = False
    kernel = compiled(attention(100, 512, 64, begin=begin, empty=empty, power=power), target, 4)
    assert is_shared(kernel)
    sums = check(kernel, 100, 512, 64, seen, power=power)
    assert begin != -INFINITY or sums[20] == -INFINITY


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_causal(target):
    """Blocks have different numbers of iterations."""
    kernel = compiled(attention(320, 320, 64, causal=True), target, 4)
    assert is_shared(kernel)
    check(kernel, 320, 320, 64, torch.ones(320, 320).tril().bool())


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_one_block_completes_rows_that_are_not_all_stored(target):
    """The queries of a group of heads are fewer than the rows of a tile."""
    kernel = compiled(attention(40, 512, 64, real_rows=10), target, 4)
    assert is_shared(kernel)
    check(kernel, 40, 512, 64)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_maxima_of_tiles(target):
    """Sums are relative to the greatest score of the last tile, which nothing else uses."""
    kernel = compiled(attention(100, 448, 64, form="tile", extra="store none"), target, 4)
    assert is_shared(kernel)
    check(kernel, 100, 448, 64, lse=False)
    kernel = compiled(attention(100, 448, 64, form="tile"), target, 4)
    assert not is_shared(kernel)
    check(kernel, 100, 448, 64)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_maxima_that_are_never_minus_infinity(target):
    """Iterations of one block may then have no key, too, so that sums begin relative to zero."""
    seen = torch.rand(100, 512) < 0.5
    seen[:50, :256] = False
    seen[50:75, 128:] = False
    kernel = compiled(attention(100, 512, 64, form="guard", extra="store none"), target, 4)
    assert is_shared(kernel)
    check(kernel, 100, 512, 64, seen, lse=False)
    kernel = compiled(attention(100, 512, 64, form="guard"), target, 4)
    assert not is_shared(kernel)
    check(kernel, 100, 512, 64, seen)


@pytest.mark.parametrize("target", TARGETS)
def test_keys_of_the_call(target):
    """Many iterations are expected of a number that the call tells."""
    keys = T.dynamic("keys")
    kernel = tilelang.compile(attention(64, keys, 64), target=target)
    assert is_shared(kernel)
    for count in (1024, 100, 1):
        check(kernel, 64, count, 64)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extra", ["store before", "one before", "store inside", "last weights"])
def test_what_keeps_one_block(extra, target):
    """State beside the softmax, or stores that each part would repeat."""
    function = attention(64, 1024, 64, extra=extra)
    kernel = tilelang.lower(function, target=target, pass_configs={"tl.tile_parts": 2})
    assert not is_shared(kernel)


def test_grids_and_loops_that_stay():
    """Full grids, short loops, options, and targets without clusters."""
    many, short, long = (
        attention(64 * 149, 1024, 64),
        attention(64, 192, 64),
        attention(64, 1024, 64),
    )
    assert is_shared(tilelang.lower(long, target="sm_100a"))
    assert not is_shared(tilelang.lower(many, target="sm_100a"))
    assert not is_shared(tilelang.lower(short, target="sm_100a"))
    assert not is_shared(tilelang.lower(long, target="sm_80"))
    assert not is_shared(tilelang.lower(long, target="sm_120a"))
    for option in ("disable_split_k", "disable_tile_choice", "batch_invariant"):
        lowered = tilelang.lower(long, target="sm_100a", pass_configs={f"tl.{option}": True})
        assert not is_shared(lowered)


def test_no_room_for_the_exchange():
    """Sums of 64 KiB beside operands of 192 KiB."""
    kernel = compiled(attention(64, 512, 256, tile=(64, 96)), "sm_90a", 8)
    assert not is_shared(kernel)
    check(kernel, 64, 512, 256)


@pytest.mark.parametrize("target", TARGETS)
def test_few_queries_take_less_time(target):
    function = attention(64, 8192, 128, tile=(64, 128), real_rows=8)
    shared = tilelang.compile(function, target=target)
    alone = tilelang.compile(function, target=target, pass_configs={"tl.disable_split_k": True})
    assert shared.profile().timing.grid_us < 0.5 * alone.profile().timing.grid_us
