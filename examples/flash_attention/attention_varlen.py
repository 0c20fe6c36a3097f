"""Attention of sequences of different lengths, packed one after another.

Sequence b has the queries cu_queries[b] .. cu_queries[b + 1] - 1 of Q, and the keys of K and V
that cu_keys says in the same way. The softmax is that of attention_forward. Tiles may reach into
the next sequence: its keys are masked, and a block stores only the rows of its own queries.

    python attention_varlen.py [--lengths 100 0 256 77] [--heads 2] [--kv_heads 1] [--dim 128]
                        [--causal] [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import math

import torch
from attention_forward import (
    PASS_CONFIGS,
    Shape,
    by_torch,
    default_tiles,
    heads_of,
    hide,
    normalize,
    online_softmax,
    options,
    reference,
)

import tilelang.language as T
from tilelang.tools.example import Example, Option


@T.macro
def store_rows(tile, total, Out, Lse, head, row, rows):
    """Stores up to ``rows`` rows of the tile, and of ``total``, from ``row`` on.

    Only a whole tile can be stored by the tensor memory accelerator.
    """
    block, dim_v = tile.shape[0], Out.shape[2]
    if block <= rows:
        T.copy(tile[:, :dim_v], Out[row : row + block, head, :])
    else:
        for i, j in T.Parallel(block, dim_v):
            if i < rows:
                Out[row + i, head, j] = tile[i, j]
    for i in T.Parallel(block):
        if i < rows:
            Lse[head, row + i] = total[i]


def attention_varlen(
    shape, longest, causal=False, dtype="bfloat16", block_M=128, block_N=128, threads=256,
    num_stages=2, lazy=False, parts=8, polynomial=0,
):  # fmt: skip
    """As ``attention``; ``queries`` and ``keys`` of the Shape are those of all sequences together.

    ``longest`` is the most queries that a sequence has. A sequence with queries has keys, and with
    ``causal`` at least as many as queries.
    """
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two in place of e
    slack = 8 / scale if lazy else 0

    @T.prim_func
    def attention_varlen(
        Q: T.Tensor((queries, heads, dim), dtype),
        K: T.Tensor((keys, kv_heads, dim), dtype),
        V: T.Tensor((keys, kv_heads, dim_v), dtype),
        CuQueries: T.Tensor((batch + 1,), "int32"),
        CuKeys: T.Tensor((batch + 1,), "int32"),
        Out: T.Tensor((queries, heads, dim_v), dtype),
        Lse: T.Tensor((heads, queries), "float32"),
    ):
        with T.Kernel(T.ceildiv(longest, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim_v), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            result = T.alloc_fragment((block_M, dim_v), "float32")
            highest, total = (T.alloc_fragment((block_M,), "float32") for _ in range(2))
            sums = T.alloc_fragment((block_M, parts), "float32")
            begin, begin_keys = CuQueries[bz], CuKeys[bz]
            own, own_keys = CuQueries[bz + 1] - begin, CuKeys[bz + 1] - begin_keys
            # Causal blocks with many keys start first.
            first = (T.ceildiv(longest, block_M) - 1 - bx if causal else bx) * block_M
            head = by // (heads // kv_heads)
            diagonal = first + own_keys - own if causal else None  # last key of the first row
            whole = (own_keys if diagonal is None else T.min(diagonal + 1, own_keys)) // block_N
            seen = own_keys if diagonal is None else T.min(diagonal + block_M, own_keys)

            if first < own:
                T.copy(Q[begin + first : begin + first + block_M, by, :], Q_shared)
                T.clear(result)
                T.clear(sums)
                T.fill(highest, -T.infinity("float32"))
                for k in T.Pipelined(T.ceildiv(seen, block_N), num_stages=num_stages):
                    key = begin_keys + k * block_N
                    T.copy(K[key : key + block_N, head, :], K_shared)
                    T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                    if k >= whole:
                        hide(scores, k * block_N, own_keys - 1, diagonal)
                    online_softmax(scores, weights, result, highest, sums, scale, slack, polynomial)
                    T.copy(V[key : key + block_N, head, :], V_shared)
                    T.gemm(weights, V_shared, result)
                normalize(result, highest, sums, total, scale)
                T.copy(result, Q_shared[:, :dim_v])  # the tile of Q is no longer needed
                store_rows(Q_shared, total, Out, Lse, by, begin + first, own - first)

    return attention_varlen


def offsets(lengths, device="cpu"):
    """Returns where sequences of these lengths begin, and where the last one ends (int32)."""
    ends = torch.tensor([0, *lengths]).cumsum(0)
    return ends.to(device, torch.int32)


def reference_varlen(q, k, v, cu_queries, cu_keys, causal):
    """Returns (Out, Lse) in float64; shapes as of ``attention_varlen``."""
    out = torch.empty(*q.shape[:2], v.shape[2], dtype=torch.float64, device=q.device)
    lse = torch.empty(q.shape[1], q.shape[0], dtype=torch.float64, device=q.device)
    for b in range(len(cu_queries) - 1):
        rows = slice(cu_queries[b], cu_queries[b + 1])
        columns = slice(cu_keys[b], cu_keys[b + 1])
        own, own_lse = reference(q[None, rows], k[None, columns], v[None, columns], causal)
        out[rows], lse[:, rows] = own[0], own_lse[0]
    return out, lse


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        lengths=Option("of the sequences", [100, 0, 256, 77], [4096, 1000, 3000, 512, 2048] * 4),
        **options("heads kv_heads dim causal dtype", 0, 0),
    )
    args = example.args
    total = sum(args.lengths)
    shape = Shape(len(args.lengths), total, total, *heads_of(args), args.dim, args.dim)
    tiles = default_tiles(args.target, args.dim)
    function = attention_varlen(shape, max(args.lengths), args.causal, args.dtype, **tiles)
    kernel = example.compile(function, pass_configs=PASS_CONFIGS)

    q, k, v = (
        example.normal(total, heads, args.dim, dtype=args.dtype)
        for heads in (shape.heads, shape.kv_heads, shape.kv_heads)
    )
    ends = offsets(args.lengths, args.device)
    out = example.output(*q.shape, dtype=args.dtype)
    lse = example.output(args.heads, total)
    kernel(q, k, v, ends, ends, out, lse)
    want_out, want_lse = reference_varlen(q, k, v, ends, ends, args.causal)
    example.check("Lse", lse, want_lse, tolerance=1e-4)
    example.check("Out", out, want_out, tolerance=2**-7)

    def one_by_one():
        each = zip(*(x[None].split(args.lengths, 1) for x in (q, k, v)), strict=True)
        return [by_torch(a, b, c, args.causal) for a, b, c in each]

    flops = 4 * sum(length**2 for length in args.lengths) * args.heads * args.dim
    example.speed(
        lambda: kernel(q, k, v, ends, ends, out, lse),
        {"one by one": one_by_one},
        flops=flops // (2 if args.causal else 1),
    )


if __name__ == "__main__":
    main()
