"""Kernels in Triton, for benchmark/timing.py; they are compiled without a GPU."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(
        z_ptr + at, tl.load(x_ptr + at, mask=inside) + tl.load(y_ptr + at, mask=inside), inside
    )


@triton.jit
def gelu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at).to(tl.float32)
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    result = x / (1 + tl.exp(-2 * inner))
    tl.store(y_ptr + at, result.to(tl.bfloat16))


@triton.jit
def softmax(x_ptr, y_ptr, columns, TILE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * columns + tl.arange(0, TILE)
    inside = tl.arange(0, TILE) < columns
    x = tl.load(x_ptr + at, mask=inside, other=float("-inf")).to(tl.float32)
    weights = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + at, (weights / tl.sum(weights, 0)).to(tl.bfloat16), mask=inside)


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, columns, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    at = tl.program_id(0).to(tl.int64) * columns + column
    inside = column < columns
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(w_ptr + column, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(b_ptr + column, mask=inside, other=0.0).to(tl.float32)
    centered = tl.where(inside, x - tl.sum(x, 0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(centered * centered, 0) / columns + 1e-5)
    tl.store(y_ptr + at, (centered * scale * weight + bias).to(tl.bfloat16), mask=inside)


@triton.jit
def transpose(x_ptr, y_ptr, m, n, TILE: tl.constexpr):
    rows = tl.program_id(1) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(0) * TILE + tl.arange(0, TILE)
    x = tl.load(x_ptr + rows[:, None] * n + columns[None, :])
    tl.store(y_ptr + columns[:, None] * m + rows[None, :], tl.trans(x))


@triton.jit
def gemm(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C (M, N) of A (M, K) and B (N, K)."""
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a_at = a_ptr + rows[:, None] * K + ks[None, :]
    b_at = b_ptr + columns[None, :] * K + ks[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(tl.cdiv(K, BK)):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += BK
        b_at += BK
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16))


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, length, scale,
    BM: tl.constexpr, BN: tl.constexpr, DIM: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Heads are (length, DIM) each; scores in powers of two by ``scale``."""
    head = tl.program_id(1).to(tl.int64) * length * DIM
    first = tl.program_id(0) * BM
    rows, keys, dims = first + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, DIM)
    q = tl.load(q_ptr + head + rows[:, None] * DIM + dims[None, :])
    highest = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, DIM), tl.float32)
    end = first + BM if CAUSAL else length
    for at in range(0, end, BN):
        k = tl.load(k_ptr + head + (at + keys)[None, :] * DIM + dims[:, None])
        scores = tl.dot(q, k) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= (at + keys)[None, :], scores, float("-inf"))
        new = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp2(scores - new[:, None])
        factor = tl.exp2(highest - new)
        total = total * factor + tl.sum(weights, 1)
        v = tl.load(v_ptr + head + (at + keys)[:, None] * DIM + dims[None, :])
        result = tl.dot(weights.to(tl.bfloat16), v, result * factor[:, None])
        highest = new
    tl.store(o_ptr + head + rows[:, None] * DIM + dims[None, :],
             (result / total[:, None]).to(tl.bfloat16))  # fmt: skip
