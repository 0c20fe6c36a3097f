"""Blocks of attention get the 128 rows that tensor memory has, on Blackwell."""

from __future__ import annotations

import functools
import math

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count

INFINITY = float("inf")
PIPELINED = functools.partial(T.Pipelined, num_stages=2)


@T.macro
def masked(scores, first, at, keys, last, mask):
    """Scores before the softmax: minus infinity for keys that a query does not see."""
    rows, columns = scores.shape
    minus = -T.infinity("float32")
    if mask == "select":
        for i, j in T.Parallel(rows, columns):
            seen = (first + i >= at + j) & (at + j < keys)
            scores[i, j] = T.if_then_else(seen, scores[i, j], minus)
    if mask == "later":
        for i, j in T.Parallel(rows, columns):
            later = T.Or(at + j > first + i, at + j >= keys)
            scores[i, j] = T.if_then_else(later, minus, scores[i, j])
    if mask == "diagonal":
        for i, j in T.Parallel(rows, columns):
            seen = T.Or(T.Not(last), first + i >= at + j)
            scores[i, j] = T.if_then_else(seen, scores[i, j], minus)
    if not isinstance(keys, int) or keys % columns:
        for i, j in T.Parallel(rows, columns):
            scores[i, j] = T.if_then_else(at + j < keys, scores[i, j], minus)


@T.macro
def weighted(scores, highest, before, shrink, scale):
    """Weights in place of scores, by the greatest score so far; by what earlier ones shrink."""
    rows, columns = scores.shape
    T.copy(highest, before)
    T.reduce_max(scores, highest, dim=1, clear=False)
    for i in T.Parallel(rows):
        shrink[i] = T.exp2((before[i] - highest[i]) * scale)
    for i, j in T.Parallel(rows, columns):
        scores[i, j] = T.exp2(scores[i, j] * scale - highest[i] * scale)


def attention(
    length, keys, dim, tile=(64, 64), mask="", loop=PIPELINED, late=0, counts=False, heads=2,
    skip=0, threads=128,
):  # fmt: skip
    """O = softmax(Q K^T / sqrt(dim)) V of tensors (length, heads, dim); S has the sums of weights.

    ``mask`` makes it causal: "first" fills the scores with minus infinity, "select" and "later"
    replace them, "diagonal" only in a block's last iteration. ``late``: iterations more than
    causality needs. ``counts``: each iteration adds one to the sums. ``skip``: a query does not see
    so many of the keys up to its own; O is zero where it sees none.
    """
    rows, columns = tile
    scale = math.log2(math.e) / math.sqrt(dim)

    of_rows = T.Tensor((length, heads, dim), "bfloat16")
    of_keys = T.Tensor((keys, heads, dim), "bfloat16")
    of_sums = T.Tensor((heads, length), "float32")

    @T.prim_func
    def main(Q: of_rows, K: of_keys, V: of_keys, O: of_rows, S: of_sums):  # noqa: E741
        with T.Kernel(T.ceildiv(length, rows), heads, threads=threads) as (block, head):
            q = T.alloc_shared((rows, dim), "bfloat16")
            k, v = (T.alloc_shared((columns, dim), "bfloat16") for _ in range(2))
            scores = T.alloc_fragment((rows, columns), "float32")
            weights = T.alloc_fragment((rows, columns), "bfloat16")
            result = T.alloc_fragment((rows, dim), "float32")
            highest, before, shrink, total, added = (
                T.alloc_fragment((rows,), "float32") for _ in range(5)
            )
            first = block * rows
            seen = first - skip
            T.copy(Q[first : first + rows, head, :], q)
            T.clear(result), T.clear(total)
            T.fill(highest, -INFINITY)
            end = seen + rows + late * columns if mask else keys
            steps = T.min(T.ceildiv(keys, columns), T.ceildiv(end, columns))
            for step in loop(steps):
                at = step * columns
                T.copy(K[at : at + columns, head, :], k)
                T.clear(scores)
                if mask == "first":
                    for i, j in T.Parallel(rows, columns):
                        scores[i, j] = T.if_then_else(seen + i >= at + j, 0, -INFINITY)
                T.gemm(q, k, scores, transpose_B=True)
                masked(scores, seen, at, keys, step == steps - 1, mask)
                weighted(scores, highest, before, shrink, scale)
                T.reduce_sum(scores, added, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * shrink[i] + added[i] + int(counts)
                T.copy(scores, weights)
                for i, j in T.Parallel(rows, dim):
                    result[i, j] *= shrink[i]
                T.copy(V[at : at + columns, head, :], v)
                T.gemm(weights, v, result)
            for i, j in T.Parallel(rows, dim):
                none = skip > 0 and total[i] == 0
                O[first + i, head, j] = T.if_then_else(none, 0, result[i, j] / total[i])
            T.copy(total, S[head, first : first + rows])

    return main


def small_gpu(target="sm_100a"):
    """A GPU that a small grid fills."""
    return with_sm_count(resolve(target), 2)


def is_wide(kernel) -> bool:
    return any("blocks compute 128 rows instead" in r.message for r in kernel.remarks)


def check(kernel, length, keys, dim, causal=False, heads=2):
    q, k, v = (torch.randn(n, heads, dim).bfloat16() for n in (length, keys, keys))
    o = torch.full((length, heads, dim), float("nan")).bfloat16()
    s = torch.full((heads, length), float("nan"))
    kernel(q, k, v, o, s)
    scores = torch.einsum("ihd,jhd->hij", q.double(), k.double()) / math.sqrt(dim)
    if causal:
        later = torch.arange(keys)[None] > torch.arange(length)[:, None]
        scores = scores.masked_fill(later, -INFINITY)
    weights = torch.softmax(scores, -1)
    expected = torch.einsum("hij,jhd->ihd", weights, v.double())
    torch.testing.assert_close(o.double(), expected, rtol=2e-2, atol=2e-2)
    sums = torch.exp(scores - scores.max(-1, keepdim=True).values).sum(-1)
    torch.testing.assert_close(s.double(), sums, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dim", [64, 72, 128])
@pytest.mark.parametrize("tile", [(64, 64), (64, 128), (32, 64)])
def test_results(tile, dim):
    kernel = tilelang.compile(attention(300, 300, dim, tile), target=small_gpu())
    assert is_wide(kernel)
    check(kernel, 300, 300, dim)


@pytest.mark.every_schedule
@pytest.mark.parametrize("mask", ["first", "select", "later"])
@pytest.mark.parametrize("tile", [(64, 64), (64, 128), (64, 32)])
def test_causal(tile, mask):
    kernel = tilelang.compile(attention(320, 320, 64, tile, mask), target=small_gpu())
    assert is_wide(kernel)
    check(kernel, 320, 320, 64, causal=True)


def test_results_that_tensor_memory_holds_for_64_rows_only():
    """Results of 512 columns and scores of 32: those of 64 rows lie in other lanes."""
    kernel = tilelang.compile(attention(256, 96, 512, (64, 32)), target=small_gpu())
    assert not is_wide(kernel)
    check(kernel, 256, 96, 512)


def test_blocks_without_iterations():
    """Idle iterations would turn sums of zero into NaN where no score was seen before."""
    kernel = tilelang.compile(attention(320, 320, 64, mask="first", skip=64), target=small_gpu())
    assert not is_wide(kernel)
    q, k, v = (torch.randn(320, 2, 64).bfloat16() for _ in range(3))
    o, s = torch.full((320, 2, 64), float("nan")).bfloat16(), torch.full((2, 320), float("nan"))
    kernel(q, k, v, o, s)
    scores = torch.einsum("ihd,jhd->hij", q[64:].double(), k[:256].double()) / 8
    later = torch.arange(256)[None] > torch.arange(256)[:, None]
    weights = torch.softmax(scores.masked_fill(later, -INFINITY), -1)
    expected = torch.einsum("hij,jhd->ihd", weights, v[:256].double())
    torch.testing.assert_close(o[64:].double(), expected, rtol=2e-2, atol=2e-2)
    assert (o[:64] == 0).all() and (s[:, :64] == 0).all()


@pytest.mark.parametrize(("length", "keys"), [(77, 77), (200, 300), (129, 129), (1, 64)])
@pytest.mark.parametrize("loop", [PIPELINED, T.serial])
def test_odd_lengths(length, keys, loop):
    function = attention(length, keys, 64, mask="select", loop=loop)
    kernel = tilelang.compile(function, target=with_sm_count(resolve("sm_100a"), 1))
    check(kernel, length, keys, 64, causal=True)


def test_iterations_that_nothing_masks_keep_their_blocks():
    """The last iteration alone has a mask; others of the next block would not be idle."""
    kernel = tilelang.compile(attention(320, 320, 64, mask="diagonal"), target=small_gpu())
    assert not is_wide(kernel)
    check(kernel, 320, 320, 64, causal=True)


@pytest.mark.parametrize("mask", ["", "first"])
def test_iterations_that_are_counted(mask):
    """Blocks with the same number of iterations have more rows, others do not."""
    function = attention(320, 320, 64, mask=mask, counts=True)
    kernel = tilelang.compile(function, target=small_gpu())
    assert is_wide(kernel) == (mask == "")
    kept = tilelang.compile(
        function, target=small_gpu(), pass_configs={"tl.disable_tile_choice": True}
    )
    tensors = [torch.randn(320, 2, 64).bfloat16() for _ in range(3)]
    results = [(torch.zeros(320, 2, 64).bfloat16(), torch.zeros(2, 320)) for _ in range(2)]
    for run, result in zip((kernel, kept), results, strict=True):
        run(*tensors, *result)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-2, atol=1e-2)


def test_idle_iterations_of_the_program():
    """The extent that grows with the block is behind the diagonal."""
    kernel = tilelang.compile(attention(320, 320, 64, mask="first", late=1), target=small_gpu())
    assert is_wide(kernel)
    check(kernel, 320, 320, 64, causal=True)


def test_rows_that_a_column_mixes_keep_their_blocks():
    """Sums over the rows of a block depend on which rows it has."""

    @T.prim_func
    def main(
        A: T.Tensor((512, 128), "bfloat16"),
        B: T.Tensor((256, 128), "bfloat16"),
        C: T.Tensor((512, 128), "float32"),
        S: T.Tensor((8, 64), "float32"),
    ):
        with T.Kernel(8, threads=128) as block:
            a = T.alloc_shared((64, 128), "bfloat16")
            b = T.alloc_shared((64, 128), "bfloat16")
            s = T.alloc_fragment((64, 64), "float32")
            p = T.alloc_fragment((64, 64), "bfloat16")
            c = T.alloc_fragment((64, 128), "float32")
            sums = T.alloc_fragment((64,), "float32")
            T.copy(A[block * 64, 0], a)
            T.clear(c)
            T.clear(sums)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(B[k * 64, 0], b)
                T.clear(s)
                T.gemm(a, b, s, transpose_B=True)
                T.reduce_sum(s, sums, dim=0, clear=False)
                T.copy(s, p)
                T.gemm(p, b, c)
            T.copy(c, C[block * 64, 0])
            T.copy(sums, S[block, 0])

    kernel = tilelang.compile(main, target=small_gpu())
    assert not is_wide(kernel)
    a, b = torch.randn(512, 128).bfloat16(), torch.randn(256, 128).bfloat16()
    c, s = torch.full((512, 128), float("nan")), torch.full((8, 64), float("nan"))
    kernel(a, b, c, s)
    scores = (a.double() @ b.double().T).view(8, 64, 4, 64)
    torch.testing.assert_close(s.double(), scores.sum((1, 2)), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_other_targets_keep_the_rows(target):
    kernel = tilelang.compile(attention(192, 192, 64, mask="first"), target=small_gpu(target))
    assert not is_wide(kernel)
    check(kernel, 192, 192, 64, causal=True)


def test_small_grids_keep_the_rows():
    kernel = tilelang.compile(attention(320, 320, 64), target="sm_100a")
    assert not is_wide(kernel)


def test_an_option_keeps_the_rows():
    options = {"tl.disable_tile_choice": True}
    kernel = tilelang.compile(attention(320, 320, 64), target=small_gpu(), pass_configs=options)
    assert not is_wide(kernel)
    check(kernel, 320, 320, 64)


def test_dynamic_length():
    """One kernel for all lengths."""
    length = T.dynamic("length")
    kernel = tilelang.compile(attention(length, length, 64, mask="select"), target=small_gpu())
    assert is_wide(kernel)
    for rows in (1, 64, 200, 257):
        check(kernel, rows, rows, 64, causal=True)


@pytest.mark.parametrize("causal", [False, True])
def test_rows_of_128_take_less_time(causal):
    function = attention(2048, 2048, 128, mask="first" if causal else "", heads=32)
    wide = tilelang.compile(function, target="sm_100a")
    kept = tilelang.compile(
        function, target="sm_100a", pass_configs={"tl.disable_tile_choice": True}
    )
    assert is_wide(wide)
    assert wide.profile().timing.grid_us < 0.75 * kept.profile().timing.grid_us


def has_thread_of_each_row(kernel) -> bool:
    return any(", one for each row" in r.message for r in kernel.remarks)


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("tile", "threads", "dim"),
    [((128, 64), 256, 64), ((128, 128), 256, 72), ((64, 64), 256, 64), ((256, 64), 384, 64)],
)
def test_a_thread_for_each_row(tile, threads, dim):
    function = attention(600, 200, dim, tile, threads=threads)
    kernel = tilelang.compile(function, target=small_gpu())
    assert has_thread_of_each_row(kernel)
    check(kernel, 600, 200, dim)


def test_a_thread_for_each_row_of_few_blocks():
    kernel = tilelang.compile(attention(300, 200, 64, (128, 64), threads=256), target="sm_100a")
    assert has_thread_of_each_row(kernel)
    check(kernel, 300, 200, 64)


@pytest.mark.parametrize(("tile", "threads", "dim"), [((128, 64), 128, 64), ((128, 64), 256, 192)])
def test_threads_stay(tile, threads, dim):
    """Blocks with as many threads as rows, and results with long rows."""
    function = attention(300, 200, dim, tile, threads=threads)
    kernel = tilelang.compile(function, target=small_gpu())
    assert not has_thread_of_each_row(kernel)
    check(kernel, 300, 200, dim)


def test_threads_stay_on_other_targets():
    function = attention(600, 200, 64, (128, 64), threads=256)
    assert not has_thread_of_each_row(tilelang.lower(function, target=small_gpu("sm_90a")))
