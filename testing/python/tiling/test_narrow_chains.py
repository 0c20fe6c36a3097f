"""Attention whose blocks compute 64 queries and take 64 keys an iteration on Hopper."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch

import tilelang
import tilelang.language as T

NARROW = "64 rows and take 64 keys an iteration"


class Masks(NamedTuple):
    """Changes of scores; ``window``: keys behind a query; ``first``: the first key."""

    causal: bool = False
    window: int = 0
    first: int | None = None
    minus: float | None = None  # minus infinity
    softcap: float = 0
    bias: bool = False


@T.macro
def masked(scores, B, row, key, keys, masks):
    """Changes the scores of rows from ``row`` on and keys from ``key`` on."""
    minus = -T.infinity("float32") if masks.minus is None else masks.minus
    rows, step = scores.shape
    if masks.softcap:
        for i, j in T.Parallel(rows, step):
            scores[i, j] = masks.softcap * T.tanh(scores[i, j] / masks.softcap)
    if masks.bias:
        for i, j in T.Parallel(rows, step):
            scores[i, j] += B[row + i, key + j]
    for i, j in T.Parallel(rows, step):
        seen = key + j < keys
        if masks.causal:
            seen = seen and row + i >= key + j
        if masks.window:
            seen = seen and key + j > row + i - masks.window
        if masks.first is not None:
            seen = seen and key + j >= masks.first
        scores[i, j] = T.if_then_else(seen, scores[i, j], minus)


@T.macro
def softmax_step(scores, highest, total, result, count, scale):
    """Makes weights of scores, and rescales the sums of rows."""
    rows, step = scores.shape
    before, shrink, added = (T.alloc_fragment((rows,), "float32") for _ in range(3))
    T.copy(highest, before)
    T.reduce_max(scores, highest, dim=1, clear=False)
    for i in T.Parallel(rows):
        shrink[i] = T.exp((before[i] - highest[i]) * scale)
    for i, j in T.Parallel(rows, step):
        scores[i, j] = T.exp((scores[i, j] - highest[i]) * scale)
    T.reduce_sum(scores, added, dim=1)
    for i in T.Parallel(rows):
        total[i] = total[i] * shrink[i] + added[i]
    if count is not None:
        for i in T.Parallel(rows):
            count[i] = count[i] + 1.0
    for i, j in T.Parallel(*result.shape):
        result[i, j] *= shrink[i]


def attention(
    length, dim, *, keys=None, rows=128, step=128, threads=128, counted=False, outputs=False,
    dtype="bfloat16", **masks,
):  # fmt: skip
    """O = softmax(Q K^T) V of (length, dim) and (keys, dim).

    ``counted``: iterations are counted; ``outputs``: the logarithms of the sums are stored, too.
    """
    keys, scale, masks = keys or length, 1 / math.sqrt(dim), Masks(**masks)

    @T.prim_func
    def main(
        Q: T.Tensor((length, dim), dtype),
        K: T.Tensor((keys, dim), dtype),
        V: T.Tensor((keys, dim), dtype),
        B: T.Tensor((length, keys), "float32"),
        O: T.Tensor((length, dim), dtype),  # noqa: E741
        L: T.Tensor((length,), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, rows), threads=threads) as block:
            q = T.alloc_shared((rows, dim), dtype)
            k, v = (T.alloc_shared((step, dim), dtype) for _ in range(2))
            scores = T.alloc_fragment((rows, step), "float32")
            weights = T.alloc_fragment((rows, step), dtype)
            result = T.alloc_fragment((rows, dim), "float32")
            highest, total, count = (T.alloc_fragment((rows,), "float32") for _ in range(3))
            T.copy(Q[block * rows, 0], q)
            T.clear(result)
            T.clear(total)
            T.clear(count)
            T.fill(highest, -T.infinity("float32"))
            end = T.min(keys, block * rows + rows) if masks.causal else keys
            for at in T.Pipelined(T.ceildiv(end, step), num_stages=2):
                T.copy(K[at * step, 0], k)
                T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True)
                masked(scores, B, block * rows, at * step, keys, masks)
                softmax_step(scores, highest, total, result, count if counted else None, scale)
                T.copy(scores, weights)
                T.copy(V[at * step, 0], v)
                T.gemm(weights, v, result)
            for i, j in T.Parallel(rows, dim):
                result[i, j] /= total[i]
            T.copy(result, O[block * rows, 0])
            if outputs:
                for i in T.Parallel(rows):
                    L[block * rows + i] = T.log(total[i]) + highest[i] * scale
            if counted:
                T.copy(count, L[block * rows])

    return main


def said(**options):
    given = attention(options.pop("length", 500), options.pop("dim", 64), **options)
    return remarks(tilelang.compile(given, target="sm_90a"))


def remarks(kernel):
    return " ".join(remark.message for remark in kernel.remarks)


def expected(q, k, v, causal, softcap=0):
    """The result and the logarithms of the sums, in float64."""
    scores = q.double() @ k.double().T
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores / math.sqrt(q.shape[1])
    if causal:
        later = torch.ones(scores.shape, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return torch.softmax(scores, -1) @ v.double(), torch.logsumexp(scores, -1)


def check(kernel, length, dim, keys=None, causal=False, softcap=0, outputs=False):
    torch.manual_seed(length + dim)
    q = torch.randn(length, dim).bfloat16()
    k, v = (torch.randn(keys or length, dim).bfloat16() for _ in range(2))
    o, logs = torch.full_like(q, math.nan), torch.full((length,), math.nan)
    kernel(q, k, v, torch.full((length, keys or length), math.nan), o, logs)
    want, sums = expected(q, k, v, causal, softcap)
    torch.testing.assert_close(o.double(), want, rtol=2e-2, atol=2e-2)
    if outputs:
        torch.testing.assert_close(logs.double(), sums, rtol=1e-3, atol=1e-3)


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("length", "dim", "options"),
    [
        (300, 64, {"causal": True}),
        (187, 104, {}),  # 64 rows and keys cover it with fewer
        (256, 40, {"keys": 449, "outputs": True}),
        (200, 32, {"causal": True, "softcap": 20.0, "outputs": True}),
    ],
    ids=str,
)
def test_smaller_tiles_compute_the_same(length, dim, options):
    assert NARROW in said(length=length, dim=dim, **options)
    check(
        tilelang.compile(attention(length, dim, **options), target="sm_90a"), length, dim, **options
    )


@pytest.mark.parametrize("shape", [(128, 64), (64, 128), (64, 256), (128, 256)], ids=str)
def test_tiles_of_other_shapes(shape):
    rows, step = shape
    given = attention(333, 64, causal=True, rows=rows, step=step)
    assert NARROW in said(length=333, causal=True, rows=rows, step=step)
    check(tilelang.compile(given, target="sm_90a"), 333, 64, causal=True)


@pytest.mark.parametrize(
    ("options", "narrow"),
    [
        ({"threads": 256}, True),
        ({"length": 8192}, True),
        ({"dim": 128, "length": 512}, True),
        ({"dim": 128, "length": 1024}, False),  # more iterations gain by fewer loads
        ({"dim": 256, "length": 512}, False),
        ({"rows": 64, "step": 64}, False),  # so they are
        ({"rows": 192}, False),  # nobody writes these without a measurement
        ({"dtype": "float32"}, False),
        ({"window": 100, "causal": True}, False),  # the first keys may all be masked
        ({"first": 0}, True),
        ({"first": 70}, False),
        ({"minus": -1e30, "first": 70}, False),
        ({"bias": True}, False),  # it may be minus infinity
        ({"counted": True}, False),  # as many iterations as the program says
    ],
    ids=str,
)
def test_where_tiles_become_smaller(options, narrow):
    assert (NARROW in said(**options)) == narrow


def test_blocks_end_after_the_last_key_that_counts():
    """A block of 64 queries loads the keys up to its last query, not those of 128 queries."""
    kernel = tilelang.compile(attention(512, 64, causal=True), target="sm_90a")
    q, k, v = (torch.randn(512, 64).bfloat16() for _ in range(3))
    v[64:] = math.nan  # times a weight of zero is no number
    o = torch.full_like(q, math.nan)
    kernel(q, k, v, torch.zeros(512, 512), o, torch.zeros(512))
    want, _ = expected(q[:64], k[:64], v[:64], causal=True)
    torch.testing.assert_close(o[:64].double(), want, rtol=2e-2, atol=2e-2)


def test_other_targets_and_the_option():
    given = attention(500, 64)
    for target in ("sm_100a", "sm_120a", "sm_80"):
        kernel = tilelang.compile(given, target=target)
        assert NARROW not in remarks(kernel)
    kernel = tilelang.compile(given, target="sm_90a", pass_configs={"tl.disable_tile_choice": True})
    assert NARROW not in remarks(kernel)
