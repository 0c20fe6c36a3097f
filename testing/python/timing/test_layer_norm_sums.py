"""The sums of a LayerNorm's backward pass in several spellings: the same loads in each."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T

COLUMNS, TILE, BLOCKS = 16, 256, 264
SPELLINGS = ("clear", "loop", "condition", "first turn", "reducer", "copies", "pipelined")


def _add(how, w, b, X, DY, mean, rstd, row, first, rows):
    for i, j in T.Parallel(TILE, COLUMNS):
        r = row + i
        if how == "condition":
            if r < rows:
                w[i, j] += DY[r, j] * (X[r, j] - mean[r]) * rstd[r]
                b[i, j] += DY[r, j]
        elif how == "first turn":
            w[i, j] = T.if_then_else(first, 0.0, w[i, j]) + DY[r, j] * (X[r, j] - mean[r]) * rstd[r]
            b[i, j] = T.if_then_else(first, 0.0, b[i, j]) + DY[r, j]
        else:
            w[i, j] += DY[r, j] * (X[r, j] - mean[r]) * rstd[r]
            b[i, j] += DY[r, j]


def _add_copies(w, b, X, DY, mean, rstd, row):
    x, dy = (T.alloc_fragment((TILE, COLUMNS), "float16") for _ in range(2))
    m, s = (T.alloc_fragment((TILE,), "float32") for _ in range(2))
    T.copy(X[row, 0], x)
    T.copy(DY[row, 0], dy)
    T.copy(mean[row], m)
    T.copy(rstd[row], s)
    for i, j in T.Parallel(TILE, COLUMNS):
        w[i, j] += dy[i, j] * (x[i, j] - m[i]) * s[i]
        b[i, j] += dy[i, j]


def _reduce(X, DY, mean, rstd, W, B, bx, rows, share):
    w, b = (T.alloc_reducer((COLUMNS,), "float32") for _ in range(2))
    for i, j in T.Parallel(share, COLUMNS):
        r = bx * share + i
        if r < rows:
            w[j] += DY[r, j] * (X[r, j] - mean[r]) * rstd[r]
            b[j] += DY[r, j]
    T.finalize_reducer(w)
    T.finalize_reducer(b)
    T.copy(w, W[bx, 0])
    T.copy(b, B[bx, 0])


def sums(how: str, rows: int, blocks: int = BLOCKS) -> Any:
    """W and B (blocks, 16): what each block has of the sums over rows of dY (X - mean) rstd, dY."""
    add, add_copies, reduce = (T.macro(f) for f in (_add, _add_copies, _reduce))
    turns = -(-rows // (blocks * TILE))
    share = -(-rows // (blocks * 8)) * 8

    @T.prim_func
    def kernel(
        X: T.Tensor((rows, COLUMNS), "float16"),
        DY: T.Tensor((rows, COLUMNS), "float16"),
        mean: T.Tensor((rows,)),
        rstd: T.Tensor((rows,)),
        W: T.Tensor((blocks, COLUMNS)),
        B: T.Tensor((blocks, COLUMNS)),
    ):
        with T.Kernel(blocks, threads=256) as bx:
            if how == "reducer":
                reduce(X, DY, mean, rstd, W, B, bx, rows, share)
            else:
                w, b = (T.alloc_fragment((TILE, COLUMNS), "float32") for _ in range(2))
                if how == "loop":
                    for i, j in T.Parallel(TILE, COLUMNS):
                        w[i, j] = 0
                        b[i, j] = 0
                elif how != "first turn":
                    T.clear(w)
                    T.clear(b)
                for t in T.Pipelined(turns, num_stages=2 if how == "pipelined" else 1):
                    row = (t * blocks + bx) * TILE
                    if how in ("copies", "pipelined"):
                        add_copies(w, b, X, DY, mean, rstd, row)
                    else:
                        add(how, w, b, X, DY, mean, rstd, row, t == 0, rows)
                of_w, of_b = (T.alloc_fragment((COLUMNS,), "float32") for _ in range(2))
                T.reduce_sum(w, of_w, dim=0)
                T.reduce_sum(b, of_b, dim=0)
                T.copy(of_w, W[bx, 0])
                T.copy(of_b, B[bx, 0])

    return kernel


@pytest.mark.parametrize("how", SPELLINGS)
def test_each_spelling_is_right_and_loads_vectors(how: str) -> None:
    rows, blocks = 3001, 4
    kernel = tilelang.compile(sums(how, rows, blocks), target="sm_90a")
    found = re.findall(r"ld\.global(?:\.nc)?(?:\.v(\d))?\.[a-z](\d+)", kernel.get_ptx())
    # Of X and dY 16 bytes, of the statistics of a row one number.
    assert {int(count or 1) * int(bits) // 8 for count, bits in found} == {4, 16}
    x, dy = (torch.randn(rows, COLUMNS).half() for _ in range(2))
    mean, rstd = x.float().mean(1), torch.rsqrt(x.float().var(1, correction=0) + 1e-5)
    w, b = (torch.full((blocks, COLUMNS), torch.nan) for _ in range(2))
    kernel(x, dy, mean, rstd, w, b)
    normal = (x.double() - mean[:, None]) * rstd[:, None]
    torch.testing.assert_close(w.double().sum(0), (dy * normal).sum(0), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(b.double().sum(0), dy.double().sum(0), rtol=1e-4, atol=1e-3)


def test_all_take_the_same_time() -> None:
    """1,152,000 rows on a grid of 264 blocks, in the timing model."""
    times = {
        how: tilelang.compile(sums(how, 1152000), target="sm_90a").profile().timing.grid_us
        for how in SPELLINGS
    }
    assert max(times.values()) <= 1.1 * min(times.values()), times
    assert max(times.values()) <= 25, times
