"""Attention in a sliding window, with a sink for each head: the layers of long-context models.

Query i sees the last ``window`` keys up to its own. The sink is one more key whose score is learned
and whose value is zero: a row whose keys do not matter puts its weight there. So the running
maximum begins at the score of the sink, and the running sum at 1; nothing else changes. The loop
goes through the blocks of keys that a window of the block's rows reaches, no others.

    python attention_window.py [--queries 200] [--keys 200] [--window 100] [--heads 2]
                        [--kv_heads 1] [--dim 128] [--dtype bfloat16] [--no_sink]
                        [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import functools
import math

import torch
from attention_forward import (
    PASS_CONFIGS,
    Shape,
    default_tiles,
    heads_of,
    normalize,
    online_softmax,
    options,
)
from attention_varlen import by_flash_attention, offsets

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

#: of tables: sequences, their tokens, heads of Q and of K, dimension, window
SHAPES = (
    (4, 4096, 16, 16, 128, 1024),
    (4, 4096, 64, 8, 64, 128),
    (1, 16384, 32, 8, 128, 4096),
    (4, 2047, 16, 16, 96, 512),
    (2, 8192, 16, 2, 128, 512),
)


@T.macro
def hide_outside(scores, first_key, diagonal, window):
    """Row i of the block sees the keys from ``diagonal`` + i - ``window`` + 1 to that + i."""
    for i, j in T.Parallel(*scores.shape):
        behind = diagonal + i - (first_key + j)  # so many keys before the query's own
        seen = (behind >= 0) & (behind < window)
        scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity("float32"))


def attention_window(
    shape, window, sink=True, dtype="bfloat16", block_M=128, block_N=128, threads=256,
    num_stages=2, parts=8, polynomial=0,
):  # fmt: skip
    """Returns a prim_func of Q, K, V, Sinks (heads,) float32 and Out, shaped by a Shape.

    The last query is beside the last key. Without ``sink`` the scores in Sinks are not read, and
    Out is zero where a query sees no key.
    """
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two in place of e

    @T.prim_func
    def attention_window(
        Q: T.Tensor((batch, queries, heads, dim), dtype),
        K: T.Tensor((batch, keys, kv_heads, dim), dtype),
        V: T.Tensor((batch, keys, kv_heads, dim_v), dtype),
        Sinks: T.Tensor((heads,), "float32"),
        Out: T.Tensor((batch, queries, heads, dim_v), dtype),
    ):
        with T.Kernel(T.ceildiv(queries, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim_v), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            result = T.alloc_fragment((block_M, dim_v), "float32")
            highest, total = (T.alloc_fragment((block_M,), "float32") for _ in range(2))
            sums = T.alloc_fragment((block_M, parts), "float32")

            first = bx * block_M
            head = by // (heads // kv_heads)
            diagonal = first + keys - queries  # last key of the first row
            begin = T.max(diagonal - window + 1, 0) // block_N  # blocks of keys in the windows
            end = T.ceildiv(T.min(diagonal + block_M, keys), block_N)
            # Blocks from ``inner`` up to ``whole`` are in the windows of all rows.
            inner = T.ceildiv(T.max(diagonal + block_M - window, 0), block_N)
            whole = (diagonal + 1) // block_N

            T.copy(Q[bz, first : first + block_M, by, :], Q_shared)
            T.clear(result)
            for i, j in T.Parallel(block_M, parts):
                sums[i, j] = 1 if sink and j == 0 else 0
            # Finite without a sink, too: of a row's first blocks all keys may be hidden.
            T.fill(highest, Sinks[by] * math.sqrt(dim) if sink else -1e30)
            for n in T.Pipelined(end - begin, num_stages=num_stages):
                k = begin + n
                T.copy(K[bz, k * block_N : (k + 1) * block_N, head, :], K_shared)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                if (k < inner) | (k >= whole):
                    hide_outside(scores, k * block_N, diagonal, window)
                online_softmax(scores, weights, result, highest, sums, scale, None, polynomial)
                T.copy(V[bz, k * block_N : (k + 1) * block_N, head, :], V_shared)
                T.gemm(weights, V_shared, result)
            blind = not sink and queries > keys
            normalize(result, highest, sums, total, scale, blind)
            T.copy(result, Q_shared[:, :dim_v])  # the tile of Q is no longer needed
            T.copy(Q_shared[:, :dim_v], Out[bz, first : first + block_M, by, :])

    return attention_window


def reference_window(q, k, v, sinks, window):
    """Returns Out in the type of the arguments; ``sinks`` may be None."""
    groups = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(groups, dim=2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[3])
    visible = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device)
    diagonal = k.shape[1] - q.shape[1]
    visible = visible.tril(diagonal).triu(diagonal - window + 1)
    scores = scores.masked_fill(~visible, float("-inf"))
    if sinks is not None:
        column = sinks.to(q.dtype)[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, column], 3)
    weights = scores.softmax(3)[..., : k.shape[1]]
    if diagonal < 0:  # rows without a key
        weights = weights.masked_fill(~visible, 0)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        **options("batch queries keys heads kv_heads dim dtype", 200, 4096),
        window=Option("keys that a query sees", 100, 1024),
        no_sink=Option("leave the sinks out", False),
    )
    args = example.args

    def case(batch, queries, keys, heads, kv_heads, dim, window):
        shape = Shape(batch, queries, keys, heads, kv_heads, dim, dim)
        tiles = default_tiles(args.target, dim)
        function = attention_window(shape, window, not args.no_sink, args.dtype, **tiles)
        kernel = example.compile(function, pass_configs=PASS_CONFIGS)
        q = example.normal(batch, queries, heads, dim, dtype=args.dtype)
        k, v = (example.normal(batch, keys, kv_heads, dim, dtype=args.dtype) for _ in range(2))
        sinks, out = example.normal(heads, scale=2), example.output(*q.shape, dtype=args.dtype)
        used = None if args.no_sink else sinks
        peers = {"eager torch": functools.partial(reference_window, q, k, v, used, window)}
        if queries == keys:
            q_packed, k_packed, v_packed = (x.flatten(0, 1) for x in (q, k, v))
            packed = q_packed, k_packed, v_packed, offsets([queries] * batch, args.device)
            by_fa2 = functools.partial(by_flash_attention, *packed, queries, (window - 1, 0))
            peers |= {"FlashAttention 2, no sinks": by_fa2}
        flops = 4 * batch * queries * min(window, keys) * heads * dim
        run = functools.partial(kernel, q, k, v, sinks, out)
        return Case(run, peers, flops=flops), (q, k, v), used, out

    def squares(batch, length, *sizes):
        line = case(batch, length, length, *sizes)[0]
        return line._replace(peers={k: v for k, v in line.peers.items() if k != "eager torch"})

    lengths = args.queries, args.keys
    line, inputs, sinks, out = case(args.batch, *lengths, *heads_of(example), args.dim, args.window)
    line.run()
    q, k, v = (x.double() for x in inputs)
    want = reference_window(q, k, v, sinks, args.window)
    example.check("Out", out, want, tolerance=2**-8)
    example.speed(*line)
    example.table(SHAPES, squares)


if __name__ == "__main__":
    main()
