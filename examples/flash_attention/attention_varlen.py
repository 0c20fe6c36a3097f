"""Attention of sequences of different lengths, packed one after another.

Sequence b has the queries cu_queries[b] .. cu_queries[b + 1] - 1 of Q, and the keys of K and V
that cu_keys says in the same way. The softmax is that of attention_forward. Tiles may reach into
the next sequence: its keys are masked, and a block stores only the rows of its own queries.

    python attention_varlen.py [--lengths 100 0 256 77] [--heads 2] [--kv_heads 1] [--dim 128]
                        [--causal] [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import functools
import inspect
import math
import random

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
from tilelang.tools.example import Case, Example, Option

#: of tables: sequences, tokens of the longest, heads of Q and of K, dimension
SHAPES = (
    (32, 4096, 16, 16, 128),
    (32, 4096, 16, 16, 64),
    (128, 1024, 16, 16, 128),
    (32, 4096, 32, 8, 128),
    (16, 8192, 16, 16, 96),
)


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


def by_flash_attention(q, k, v, ends, longest, window):
    """Returns Out of tensors as of ``attention_varlen`` as FlashAttention 2 of torch computes it.

    ``window`` is how many keys a query sees before and after its own; -1 for all.
    """
    from torch.nn.attention.varlen import varlen_attn  # since torch 2.10

    # Before torch 2.12 heads are shared without being asked for.
    asks = "enable_gqa" in inspect.signature(varlen_attn).parameters
    if asks and q.shape[1] != k.shape[1]:
        varlen_attn = functools.partial(varlen_attn, enable_gqa=True)
    return varlen_attn(q, k, v, ends, ends, longest, longest, window_size=window)


def one_by_one(q, k, v, lengths, causal):
    """Returns Out of each sequence as torch computes it."""
    each = zip(*(x[None].split(lengths, 1) for x in (q, k, v)), strict=True)
    return [by_torch(a, b, c, causal) for a, b, c in each]


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        lengths=Option(
            "of the sequences", [100, 0, 256, 77], [4096, 1000, 3000, 512, 2048] * 4, least=0
        ),
        **options("heads kv_heads dim causal dtype", 0, 0),
    )
    args = example.args
    example.require(max(args.lengths) > 0, "--lengths are all 0: give one sequence a token")

    def case(lengths, heads, kv_heads, dim):
        total, longest = sum(lengths), max(lengths)
        shape = Shape(len(lengths), total, total, heads, kv_heads, dim, dim)
        tiles = default_tiles(args.target, dim)
        function = attention_varlen(shape, longest, args.causal, args.dtype, **tiles)
        kernel = example.compile(function, pass_configs=PASS_CONFIGS)
        q, k, v = (
            example.normal(total, n, dim, dtype=args.dtype) for n in (heads, kv_heads, kv_heads)
        )
        ends = offsets(lengths, args.device)
        out, lse = example.output(*q.shape, dtype=args.dtype), example.output(heads, total)
        window = -1, 0 if args.causal else -1
        peers = {
            "FlashAttention 2": functools.partial(
                by_flash_attention, q, k, v, ends, longest, window
            ),
            "one by one": functools.partial(one_by_one, q, k, v, lengths, args.causal),
        }
        flops = 4 * sum(n**2 for n in lengths) * heads * dim // (2 if args.causal else 1)
        run = functools.partial(kernel, q, k, v, ends, ends, out, lse)
        return Case(run, peers, flops=flops), (q, k, v, ends, ends), (out, lse)

    def drawn(sequences, longest, *sizes):
        draw = random.Random(args.seed)
        return case([draw.randint(1, longest) for _ in range(sequences)], *sizes)[0]

    line, inputs, results = case(args.lengths, *heads_of(example), args.dim)
    line.run()
    q, k, v, cu_queries, cu_keys = inputs
    exact = reference_varlen(q, k, v, cu_queries, cu_keys, args.causal)
    for name, got, want, tolerance in zip(
        ("Out", "Lse"), results, exact, (2**-7, 1e-4), strict=True
    ):
        example.check(name, got, want, tolerance)
    example.speed(*line)
    example.table(SHAPES, drawn)


if __name__ == "__main__":
    main()
