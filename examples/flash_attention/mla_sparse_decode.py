"""Decoding with multi-head latent attention over tokens that an indexer has selected (DSA).

All heads of a query see the same tokens, those of ``Indices`` (examples/flash_attention/
sparse_indexer.py), wherever they lie in the cache. A block gathers the rows of its next tokens into
shared memory and goes on as mla_decode does; blocks share the selected tokens of a sequence, and a
second launch weighs their parts. An index of -1 is no token.

On a GPU the peer is torch: it gathers the tokens, and multiplies by cuBLAS. Where the sequences
select less than ``k`` of them, it takes one sequence after another.

    python mla_sparse_decode.py [--keys 300] [--selected 100 37] [--k 128] [--splits 2]
                                [--heads 100] [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from attention_forward import PASS_CONFIGS, has_tensor_memory, online_softmax
from flash_decoding import combine, store_part
from mla_decode import BLOCK_H, by_cublas, default_splits

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

LATENT, ROPE = 512, 64

#: of tables: sequences, tokens of each, selected ones, heads
SHAPES = (
    (64, 32768, 2048, 128),
    (128, 8192, 2048, 128),
    (16, 65536, 2048, 128),
    (4, 131072, 2048, 128),
    (64, 16384, 1024, 64),
)


def default_tiles(target):
    """Returns arguments of ``mla_sparse_decode``: tiles that there is room for."""
    if target == "sm_80":
        return {"block_N": 32, "block_V": LATENT}
    return {"block_N": 64, "block_V": 256 if has_tensor_memory(target) else LATENT}


@T.macro
def gather(Cache, Indices, b, first, tokens, rope, scores):
    """Loads the tokens that the indices from ``first`` on name; ``scores`` are -inf of none."""
    latent, k = tokens.shape[1], Indices.shape[1]
    for i, j in T.Parallel(*tokens.shape):
        tokens[i, j] = Cache[b, T.max(Indices[b, T.min(first + i, k - 1)], 0), j]
    for i, j in T.Parallel(*rope.shape):
        rope[i, j] = Cache[b, T.max(Indices[b, T.min(first + i, k - 1)], 0), latent + j]
    for i, j in T.Parallel(*scores.shape):
        there = (first + j < k) & (Indices[b, T.min(first + j, k - 1)] >= 0)
        scores[i, j] = T.if_then_else(there, 0.0, -T.infinity("float32"))


def mla_sparse_decode(
    batch, keys, heads, k, splits, dtype="bfloat16", block_H=BLOCK_H, block_N=64, block_V=LATENT,
    threads=256,
):  # fmt: skip
    """Returns a prim_func of Q (batch, heads, 576), Cache (batch, keys, 576), Indices and Out.

    Indices (batch, k) int32 are places in the cache of the sequence, in any order; -1 is none.
    Out is (batch, heads, 512), zero where all are -1. A block computes ``block_V`` columns of it.
    """
    scale = math.log2(math.e) / math.sqrt(128 + ROPE)  # powers of two in place of e
    columns: dict[str, Any] = {"policy": T.GemmWarpPolicy.FullCol}  # are shared, not rows

    @T.prim_func
    def mla_sparse_decode(
        Q: T.Tensor((batch, heads, LATENT + ROPE), dtype),
        Cache: T.Tensor((batch, keys, LATENT + ROPE), dtype),
        Indices: T.Tensor((batch, k), "int32"),
        Out: T.Tensor((batch, heads, LATENT), dtype),
    ):
        Parts = T.alloc_global((batch, heads, splits, LATENT), "float32")
        Lse = T.alloc_global((batch, heads, splits), "float32")
        grid = T.ceildiv(heads, block_H), LATENT // block_V * splits, batch
        with T.Kernel(*grid, threads=threads) as (bx, by, b):
            Q_shared = T.alloc_shared((block_H, LATENT), dtype)
            Q_rope = T.alloc_shared((block_H, ROPE), dtype)
            tokens = T.alloc_shared((block_N, LATENT), dtype)
            tokens_rope = T.alloc_shared((block_N, ROPE), dtype)
            weights = T.alloc_shared((block_H, block_N), dtype)
            scores = T.alloc_fragment((block_H, block_N), "float32")
            result = T.alloc_fragment((block_H, block_V), "float32")
            highest = T.alloc_fragment((block_H,), "float32")
            sums = T.alloc_fragment((block_H, 1), "float32")
            head, split, column = bx * block_H, by % splits, by // splits * block_V
            blocks = T.ceildiv(T.ceildiv(k, block_N), splits)  # of this part

            T.copy(Q[b, head : head + block_H, :LATENT], Q_shared)
            T.copy(Q[b, head : head + block_H, LATENT:], Q_rope)
            T.clear(result)
            T.clear(sums)
            T.fill(highest, -1e30)  # finite: a part may be empty
            for n in T.Pipelined(blocks, num_stages=2):
                first = (split * blocks + n) * block_N
                gather(Cache, Indices, b, first, tokens, tokens_rope, scores)
                T.gemm(Q_shared, tokens, scores, transpose_B=True, **columns)
                T.gemm(Q_rope, tokens_rope, scores, transpose_B=True, **columns)
                online_softmax(scores, weights, result, highest, sums, scale, None)
                T.gemm(weights, tokens[:, column : column + block_V], result, **columns)
            rows = T.min(block_H, heads - head)
            store_part(result, highest, sums, scale, Parts, Lse, b, head, rows, split, column)

        combine(Parts, Lse, Out, splits, LATENT)

    return mla_sparse_decode


def reference(q, cache, indices, selected):
    """Returns Out, of the type of the arguments."""
    out = torch.empty_like(q[..., :LATENT])
    for b, count in enumerate(selected):
        tokens = cache[b, indices[b, :count].long()]
        scores = q[b] @ tokens.T / math.sqrt(128 + ROPE)
        out[b] = scores.softmax(1) @ tokens[:, :LATENT]
    return out


def by_torch(q, cache, indices):
    """Returns Out where no index is -1: tokens are gathered, then multiplied by cuBLAS."""
    places = indices.long()[..., None].expand(-1, -1, cache.shape[2])
    return by_cublas(q, cache.gather(1, places), LATENT)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        keys=Option("tokens of a sequence", 300, 32768),
        selected=Option("tokens that each query sees, up to k", [100, 37], [2048] * 64, least=0),
        k=Option("indices of a sequence", 128, 2048),
        splits=Option(
            "blocks that share the tokens of a sequence; 0: as many as pay", 2, 0, least=0
        ),
        heads=Option("heads", 100, 128),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args
    example.require(args.k <= args.keys, f"--k is {args.k}: give at most --keys, {args.keys}")
    most = max(args.selected)
    example.require(most <= args.k, f"--selected has {most}: give at most --k, {args.k}")

    def case(keys, selected, k, heads):
        batch, width = len(selected), LATENT + ROPE
        tiles = default_tiles(args.target)
        shared = batch, heads, k, args.target, tiles["block_N"], LATENT // tiles["block_V"]
        splits = args.splits or default_splits(*shared)
        function = mla_sparse_decode(batch, keys, heads, k, splits, args.dtype, **tiles)
        kernel = example.compile(function, pass_configs=PASS_CONFIGS)
        q = example.normal(batch, heads, width, dtype=args.dtype)
        cache = example.normal(batch, keys, width, dtype=args.dtype)
        indices = torch.stack([torch.randperm(keys)[:k] for _ in range(batch)]).int()
        for b, count in enumerate(selected):
            indices[b, count:] = -1
        indices = indices.to(args.device)
        out = example.output(batch, heads, LATENT, dtype=args.dtype)
        peers = {"eager torch": functools.partial(reference, q, cache, indices, selected)}
        if min(selected) == k:
            peers = {"cuBLAS and a softmax": functools.partial(by_torch, q, cache, indices)}
        moved = sum(selected) * width * cache.element_size()
        flops = 2 * sum(selected) * heads * (width + LATENT)
        run = functools.partial(kernel, q, cache, indices, out)
        return Case(run, peers, moved, flops), (q, cache, indices), out

    line, (q, cache, indices), out = case(args.keys, args.selected, args.k, args.heads)
    line.run()
    example.check("Out", out, reference(q.double(), cache.double(), indices, args.selected), 2**-7)
    example.speed(*line)
    example.table(SHAPES, lambda batch, keys, k, heads: case(keys, [k] * batch, k, heads)[0])


if __name__ == "__main__":
    main()
