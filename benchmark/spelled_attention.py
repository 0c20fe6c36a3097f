"""Attention in spellings of its users, for ``benchmark/blackwell_spellings.py``.

As in ``blackwell_programs.py``, no program names a barrier, tensor memory, a role or a swizzle.
"""

from __future__ import annotations

import math

import tilelang.language as T

CAP = 50.0  # of scores
FORMS = ("bias", "bias_tile", "causal", "natural", "softcap", "window")


def attention(
    batch, heads, length, dim, *forms, keys=128, rows=128, threads=128, kv_heads=None, reach=1024
):
    """O = softmax(scores) V in bfloat16, tensors (batch, length, heads, dim).

    ``forms`` are any of ``FORMS``: "bias" adds a tensor (heads, length, length) to the scores,
    "bias_tile" copies each of its tiles to shared memory first, "natural" takes T.exp instead of
    T.exp2, "softcap" caps the scores by tanh, "window" takes ``reach`` keys before each query, and
    "causal" the keys up to the query.
    """
    assert set(forms) <= set(FORMS)
    dtype, masked = "bfloat16", {"causal", "window"} & set(forms)
    biased = {"bias", "bias_tile"} & set(forms)
    groups = heads // (kv_heads or heads)
    queries_of = T.Tensor((batch, length, heads, dim), dtype)
    keys_of = T.Tensor((batch, length, heads // groups, dim), dtype)
    bias_of = T.Tensor((heads, length, length) if biased else (1, 1, 1), dtype)

    @T.prim_func
    def main(Q: queries_of, K: keys_of, V: keys_of, Bias: bias_of, O: queries_of):  # noqa: E741
        with T.Kernel(T.ceildiv(length, rows), heads, batch, threads=threads) as (bx, by, bz):
            q = T.alloc_shared((rows, dim), dtype)
            k = T.alloc_shared((keys, dim), dtype)
            v = T.alloc_shared((keys, dim), dtype)
            tile = T.alloc_shared((rows, keys), dtype)
            scores = T.alloc_fragment((rows, keys), "float32")
            weights = T.alloc_fragment((rows, keys), dtype)
            result = T.alloc_fragment((rows, dim), "float32")
            highest = T.alloc_fragment((rows,), "float32")
            shrink = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(Q[bz, bx * rows : (bx + 1) * rows, by, :], q)
            T.fill(result, 0)
            T.fill(total, 0)
            # The first tile of keys may have none for a row with a window.
            T.fill(highest, -1e30 if "window" in forms else -T.infinity("float32"))
            first = T.max(0, bx * rows - reach) // keys if "window" in forms else 0
            last = T.ceildiv((bx + 1) * rows, keys) if masked else T.ceildiv(length, keys)
            for step in T.Pipelined(first, last, num_stages=2):
                T.copy(K[bz, step * keys : (step + 1) * keys, by // groups, :], k)
                if "bias_tile" in forms:
                    T.copy(Bias[by, bx * rows, step * keys], tile)
                T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                place = by, bx * rows, step * keys
                prepare(scores, Bias, tile, place, forms, 1 / math.sqrt(dim), reach)
                softmax(scores, highest, shrink, total, forms, dim)
                T.copy(scores, weights)
                for i, j in T.Parallel(rows, dim):
                    result[i, j] *= shrink[i]
                T.copy(V[bz, step * keys : (step + 1) * keys, by // groups, :], v)
                T.gemm(weights, v, result, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(rows, dim):
                result[i, j] /= total[i]
            T.copy(result, O[bz, bx * rows : (bx + 1) * rows, by, :])

    return main


@T.macro
def softmax(scores, highest, shrink, total, forms, dim):
    """Weights of a tile of scores, in place."""
    rows, keys = scores.shape
    power = T.exp if "natural" in forms else T.exp2
    scale = 1.0 if "natural" in forms else math.log2(math.e)
    # A bias and a cap take scaled scores.
    if not {"bias", "bias_tile", "softcap"} & set(forms):
        scale /= math.sqrt(dim)
    before = T.alloc_fragment((rows,), "float32")
    added = T.alloc_fragment((rows,), "float32")
    T.copy(highest, before)
    T.reduce_max(scores, highest, dim=1, clear=False)
    for i in T.Parallel(rows):
        shrink[i] = power(before[i] * scale - highest[i] * scale)
    for i, j in T.Parallel(rows, keys):
        scores[i, j] = power(scores[i, j] * scale - highest[i] * scale)
    T.reduce_sum(scores, added, dim=1)
    for i in T.Parallel(rows):
        total[i] = total[i] * shrink[i] + added[i]


@T.macro
def prepare(scores, bias, tile, place, forms, root, reach):
    """Changes the scores before the softmax."""
    head, row, column = place
    rows, keys = scores.shape
    if "softcap" in forms:
        for i, j in T.Parallel(rows, keys):
            scores[i, j] = CAP * T.tanh(scores[i, j] * (root / CAP))
    if "bias" in forms:
        for i, j in T.Parallel(rows, keys):
            scores[i, j] = scores[i, j] * root + bias[head, row + i, column + j]
    if "bias_tile" in forms:
        for i, j in T.Parallel(rows, keys):
            scores[i, j] = scores[i, j] * root + tile[i, j]
    if "causal" in forms:
        for i, j in T.Parallel(rows, keys):
            seen = column + j <= row + i
            scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity("float32"))
    if "window" in forms:
        for i, j in T.Parallel(rows, keys):
            seen = (column + j <= row + i) & (column + j > row + i - reach)
            scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity("float32"))
