"""Masks of attention that run only in the iterations that need them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.transform import pipeline, run_pass

ROWS, DIM = 128, 64


def attention(length: int, mask: Any):
    """Attention whose scores ``mask`` sets, given the first row and key of a tile."""
    scale = math.log2(math.e) / math.sqrt(DIM)

    @T.prim_func
    def main(
        Q: T.Tensor((length, DIM), "bfloat16"),
        K: T.Tensor((length, DIM), "bfloat16"),
        V: T.Tensor((length, DIM), "bfloat16"),
        Hidden: T.Tensor((length,), "int32"),
        Out: T.Tensor((length, DIM), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, ROWS), threads=128) as bx:
            q, k, v = (T.alloc_shared((ROWS, DIM), "bfloat16") for _ in range(3))
            s = T.alloc_fragment((ROWS, ROWS), "float32")
            p = T.alloc_fragment((ROWS, ROWS), "bfloat16")
            out = T.alloc_fragment((ROWS, DIM), "float32")
            highest, before, total, part = (T.alloc_fragment((ROWS,), "float32") for _ in range(4))
            first = bx * ROWS
            T.copy(Q[first, 0], q)
            T.clear(out)
            T.clear(total)
            T.fill(highest, -1e30)  # rows of a window begin with masked tiles
            for n in T.Pipelined(bx + 1, num_stages=2):
                key = n * ROWS
                T.copy(K[key, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                mask(s, first, key, Hidden)
                T.copy(highest, before)
                T.reduce_max(s, highest, dim=1, clear=False)
                for i, j in T.Parallel(ROWS, ROWS):
                    s[i, j] = T.exp2((s[i, j] - highest[i]) * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(ROWS):
                    before[i] = T.exp2((before[i] - highest[i]) * scale)
                    total[i] = total[i] * before[i] + part[i]
                for i, j in T.Parallel(ROWS, DIM):
                    out[i, j] *= before[i]
                T.copy(s, p)
                T.copy(V[key, 0], v)
                T.gemm(p, v, out)
            for i, j in T.Parallel(ROWS, DIM):
                out[i, j] /= total[i]
            T.copy(out, Out[first, 0])

    return main


@T.macro
def by_place(s, first, key, Hidden):
    for i, j in T.Parallel(ROWS, ROWS):
        s[i, j] = T.if_then_else(first + i >= key + j, s[i, j], -T.infinity("float32"))


@T.macro
def by_name(s, first, key, Hidden):
    for i, j in T.Parallel(ROWS, ROWS):
        row = first + i
        seen = row >= key + j
        s[i, j] = T.if_then_else(seen, s[i, j], -T.infinity("float32"))


@T.macro
def by_table(s, first, key, Hidden):
    for i, j in T.Parallel(ROWS, ROWS):
        seen = Hidden[key + j] == 0 and first + i >= key + j
        s[i, j] = T.if_then_else(seen, s[i, j], -T.infinity("float32"))


@T.macro
def by_moving_name(s, first, key, Hidden):
    last = first + Hidden[key]
    for i, j in T.Parallel(ROWS, ROWS):
        s[i, j] = T.if_then_else(last + i >= key + j, s[i, j], -T.infinity("float32"))


REACH = 150


@T.macro
def by_window(s, first, key, Hidden):
    for i, j in T.Parallel(ROWS, ROWS):
        seen = (first + i >= key + j) & (first + i < key + j + REACH)
        s[i, j] = T.if_then_else(seen, s[i, j], -T.infinity("float32"))


@T.macro
def by_added_window(s, first, key, Hidden):
    for i, j in T.Parallel(ROWS, ROWS):
        seen = key + j > first + i - REACH and key + j <= first + i
        s[i, j] += T.if_then_else(seen, 0, -T.infinity("float32"))


@T.macro
def by_narrow_window(s, first, key, Hidden):
    for i, j in T.Parallel(ROWS, ROWS):
        seen = key + j > first + i - 3 and key + j <= first + i
        s[i, j] += T.if_then_else(seen, 0, -1e6)


@T.macro
def by_earlier(s, first, key, Hidden):
    for i, j in T.Parallel(ROWS, ROWS):
        seen = key + j > first + i - REACH
        s[i, j] = T.if_then_else(seen, s[i, j], -T.infinity("float32"))


def unseen_by(mask, length):
    """The keys (columns) that a mask hides from queries (rows), of tiles up to the diagonal."""
    row, key = torch.arange(length)[:, None], torch.arange(length)
    unseen = key >= (row // ROWS + 1) * ROWS
    if mask is not by_earlier:
        unseen |= key > row
    reach = {by_window: REACH, by_added_window: REACH, by_earlier: REACH, by_narrow_window: 3}
    return unseen | (key <= row - reach.get(mask, length))


WINDOWS = [by_window, by_added_window, by_narrow_window, by_earlier]


@pytest.mark.parametrize(
    "mask, skips",
    [(by_place, True), (by_name, True), (by_table, False), (by_moving_name, False)]
    + [(window, True) for window in WINDOWS],
)
def test_which_masks_are_skipped(mask: Any, skips: bool) -> None:
    func = attention(384, mask)
    for step in pipeline():
        before, func = func, run_pass(step, func, "sm_100a")
        if step == "skip_masks":
            assert (str(before) != str(func)) is skips
            break


@pytest.mark.parametrize("mask", [by_name, by_table, by_moving_name, *WINDOWS])
@pytest.mark.every_schedule
def test_results_of_named_masks(mask: Any) -> None:
    length = 640 if mask in WINDOWS else 384
    kernel = tilelang.compile(attention(length, mask), target="sm_100a")
    q, k, v = (torch.randn(length, DIM).bfloat16() for _ in range(3))
    hidden = torch.zeros(length, dtype=torch.int32)
    if mask is by_table:
        hidden[5::7] = 1
    out = torch.full((length, DIM), torch.nan)
    kernel(q, k, v, hidden, out)
    unseen = unseen_by(mask, length)
    if mask is by_table:
        unseen |= hidden.bool()
    scores = (q.double() @ k.double().T / math.sqrt(DIM)).masked_fill(unseen, -torch.inf)
    torch.testing.assert_close(out.double(), scores.softmax(1) @ v.double(), rtol=0.02, atol=0.02)
