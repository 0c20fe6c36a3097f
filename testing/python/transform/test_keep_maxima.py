"""Attention whose maxima stay while weights are below 2^8."""

from __future__ import annotations

import math

import pytest
import torch

import tilelang
import tilelang.language as T

ROWS, KEYS, DIM, LENGTH = 128, 64, 32, 320
#: of scores above their maximum: float16 holds 2^14 times 2, not times 2^8
LIFT = 14 * math.log(2) * math.sqrt(DIM)


@T.macro
def hide(scores, end):
    for i, j in T.Parallel(ROWS, KEYS):
        scores[i, j] = T.if_then_else(j < end, scores[i, j], -T.infinity("float32"))


@T.macro
def raise_maximum(scores, highest, before, form):
    if form != "carried":
        T.copy(highest, before)
    if form == "tile":
        T.fill(highest, -T.infinity("float32"))
    if form in {"afresh", "carried"}:
        T.reduce_max(scores, highest, dim=1, clear=True)
        for i in T.Parallel(ROWS):
            highest[i] = T.max(highest[i], before[i])
    elif form == "apart":
        greatest = T.alloc_fragment((ROWS,), "float32")
        T.reduce_max(scores, greatest, dim=1)
        for i in T.Parallel(ROWS):
            highest[i] = T.max(highest[i], greatest[i])
    else:
        T.reduce_max(scores, highest, dim=1, clear=False)


@T.macro
def weigh(scores, highest, scale, power, spoiled):
    if spoiled == "scores":
        for i, j in T.Parallel(ROWS, KEYS):
            scores[i, j] += LIFT
    for i, j in T.Parallel(ROWS, KEYS):
        if spoiled == "exponents":
            scores[i, j] = power((scores[i, j] + LIFT) * scale - highest[i] * scale)
        else:
            scores[i, j] = power(scores[i, j] * scale - highest[i] * scale)


@T.macro
def add(weights, total, shrink, added, form):
    if form == "separate":
        for i in T.Parallel(ROWS):
            total[i] *= shrink[i]
        T.reduce_sum(weights, total, dim=1, clear=False)
    else:
        T.reduce_sum(weights, added, dim=1)
        for i in T.Parallel(ROWS):
            total[i] = total[i] * shrink[i] + added[i]


@T.macro
def store(result, highest, total, O, Highest, Total, form, spoiled):  # noqa: E741
    for i, j in T.Parallel(ROWS, DIM):
        result[i, j] /= total[i]
    T.copy(result, O)
    if form != "tile" or spoiled == "highest":
        T.copy(highest, Highest)
    if form != "tile" or spoiled == "total":
        T.copy(total, Total)


def attention(form="plain", dtype="bfloat16", masked=0, function="exp2", spoiled=None):
    """Stores softmax(Q K^T / sqrt(DIM)) V, the maximum and the sum of each row of scores.

    ``form``: "in_place" writes the factor over the old maximum, "afresh" first takes the maximum of
    a tile alone, "apart" in another buffer, "carried" copies the maximum at the end, "separate"
    rescales sums by themselves, "tile" has maxima of tiles and stores neither them nor sums. The
    last ``masked`` keys have no weight. ``spoiled``: what else depends on the maximum, or lifts
    weights above those of the maximum.
    """
    power = T.exp2 if function == "exp2" else T.exp
    scale = (math.log2(math.e) if function == "exp2" else 1.0) / math.sqrt(DIM)

    @T.prim_func
    def main(
        Q: T.Tensor((ROWS, DIM), dtype),
        K: T.Tensor((LENGTH, DIM), dtype),
        V: T.Tensor((LENGTH, DIM), dtype),
        O: T.Tensor((ROWS, DIM), "float32"),  # noqa: E741
        Highest: T.Tensor((ROWS,), "float32"),
        Total: T.Tensor((ROWS,), "float32"),
        Spoiled: T.Tensor((ROWS,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q, k, v = (T.alloc_shared((n, DIM), dtype) for n in (ROWS, KEYS, KEYS))
            scores = T.alloc_fragment((ROWS, KEYS), "float32")
            weights = T.alloc_fragment((ROWS, KEYS), dtype)
            result = T.alloc_fragment((ROWS, DIM), "float32")
            highest, before, total, added = (T.alloc_fragment((ROWS,), "float32") for _ in range(4))
            shrink = before if form == "in_place" else T.alloc_fragment((ROWS,), "float32")
            carried = before if form == "carried" else highest
            T.copy(Q, q)
            T.clear(result), T.clear(total)
            T.fill(carried, -T.infinity("float32"))
            for step in T.Pipelined(LENGTH // KEYS, num_stages=2):
                T.copy(K[step * KEYS, 0], k)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                if masked:
                    hide(scores, LENGTH - masked - step * KEYS)
                raise_maximum(scores, highest, before, form)
                for i in T.Parallel(ROWS):
                    shrink[i] = power(before[i] * scale - highest[i] * scale)
                weigh(scores, highest, scale, power, spoiled)
                if spoiled == "weights":
                    T.copy(scores[0:ROWS, 0], Spoiled)
                add(scores, total, shrink, added, form)
                T.copy(scores, weights)
                for _ in range(2 if spoiled == "squares" else 1):
                    for i, j in T.Parallel(ROWS, DIM):
                        result[i, j] *= shrink[i]
                T.copy(V[step * KEYS, 0], v)
                T.gemm(weights, v, result)
                if spoiled == "maximum":
                    T.copy(highest, Spoiled)
                if form == "carried":
                    T.copy(highest, before)
            if spoiled == "factor":
                T.copy(shrink, Spoiled)
            store(result, carried, total, O, Highest, Total, form, spoiled)

    return main


def keeps(kernel):
    return any("the maximum of a row stays" in remark.message for remark in kernel.remarks)


def growing(steps, dtype):
    """Q and K whose scores grow by ``steps`` (of log2) from tile to tile, and V."""
    q, k, v = (torch.randn(n, DIM) for n in (ROWS, LENGTH, LENGTH))
    q[:, 0] = math.sqrt(DIM) * math.log(2)
    k[:, 0] = torch.tensor(steps).cumsum(0).repeat_interleave(KEYS)
    return [x.to(getattr(torch, dtype)) for x in (q, k, v)]


def run(kernel, q, k, v, masked=0):
    """Compares with float64; the maximum and the sum must be those of all keys."""
    out, highest, total, spoiled = (
        torch.full(shape, float("nan")) for shape in ((ROWS, DIM), (ROWS,), (ROWS,), (ROWS,))
    )
    kernel(q, k, v, out, highest, total, spoiled)
    scores = (q.double() @ k.double().T)[:, : LENGTH - masked]
    weights = torch.softmax(scores / math.sqrt(DIM), dim=1)
    want = weights @ v.double()[: LENGTH - masked]
    torch.testing.assert_close(out.double(), want, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(highest.double(), scores.amax(1), rtol=1e-5, atol=1e-5)
    sums = ((scores - scores.amax(1, keepdim=True)) / math.sqrt(DIM)).exp().sum(1)
    torch.testing.assert_close(total.double(), sums, rtol=1e-4, atol=1e-4)


# Steps below and above 2^8, alone and in sums, and downwards.
@pytest.mark.every_schedule
@pytest.mark.parametrize("steps", [[0, 3, 3, 3, 3], [2, 20, -30, 7.5, 30], [5, -5, -5, -5, 0]])
@pytest.mark.parametrize("form", ["plain", "in_place", "afresh", "apart", "carried", "separate"])
def test_results_and_sums_are_those_of_the_true_maximum(form, steps):
    kernel = tilelang.compile(attention(form), target="sm_100a")
    assert keeps(kernel)
    run(kernel, *growing(steps, "bfloat16"))


@pytest.mark.parametrize(
    ("dtype", "function", "masked"),
    [("float16", "exp", 0), ("bfloat16", "exp", 3), ("bfloat16", "exp2", 70)],
)
def test_types_functions_and_masks(dtype, function, masked):
    kernel = tilelang.compile(attention("plain", dtype, masked, function), target="sm_100a")
    assert keeps(kernel)
    run(kernel, *growing([0, 4, 9, 1, 1], dtype), masked=masked)


def test_kept_rows_are_not_rescaled():
    """Equal maxima give a factor of exactly 1 even where b * c - m * c is one fma."""
    source = tilelang.lower(attention(), target="sm_100a").source
    assert "shrink[0] >= 0.00390625f ? 1.0f" in source


@pytest.mark.parametrize("spoiled", ["weights", "squares", "maximum", "factor"])
def test_a_loop_that_shows_its_maxima_stays(spoiled):
    assert not keeps(tilelang.lower(attention(spoiled=spoiled), target="sm_100a"))


@pytest.mark.parametrize("spoiled", ["scores", "exponents"])
def test_weights_above_the_maximum_do_not_overflow(spoiled):
    kernel = tilelang.compile(attention(dtype="float16", spoiled=spoiled), target="sm_100a")
    assert not keeps(kernel)
    q, k, v = growing([0, 1, 1, 1, 1], "float16")
    out = torch.full((ROWS, DIM), torch.nan)
    kernel(q, k, v, out, *(torch.full((ROWS,), torch.nan) for _ in range(3)))
    weights = torch.softmax(q.double() @ k.double().T / math.sqrt(DIM), dim=1)
    torch.testing.assert_close(out.double(), weights @ v.double(), rtol=2e-2, atol=2e-2)


@pytest.mark.every_schedule
@pytest.mark.parametrize("steps", [[0, 3, 3, 3, 3], [2, 20, -30, 7.5, 30], [5, -5, -5, -5, 0]])
def test_maxima_of_tiles(steps):
    whole = {"tl.disable_split_k": True}
    kernel = tilelang.compile(attention("tile"), target="sm_100a", pass_configs=whole)
    assert keeps(kernel)
    q, k, v = growing(steps, "bfloat16")
    out = torch.full((ROWS, DIM), torch.nan)
    kernel(q, k, v, out, *(torch.full((ROWS,), torch.nan) for _ in range(3)))
    weights = torch.softmax(q.double() @ k.double().T / math.sqrt(DIM), dim=1)
    torch.testing.assert_close(out.double(), weights @ v.double(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("spoiled", ["highest", "total"])
def test_maxima_of_tiles_that_are_read_stay(spoiled):
    """A sum that is stored is relative to the maximum of the last tile."""
    assert not keeps(tilelang.lower(attention("tile", spoiled=spoiled), target="sm_100a"))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_results_in_registers_stay(target):
    assert not keeps(tilelang.lower(attention(), target=target))


def test_the_option_turns_it_off():
    options = {"tl.disable_kept_maxima": True}
    assert not keeps(tilelang.lower(attention(), target="sm_100a", pass_configs=options))
