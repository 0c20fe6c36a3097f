"""Decoding with multi-head latent attention: all heads read one cache of compressed keys.

The up-projections of K and V are absorbed into Q and into what follows. So a score is the product
of a query with the ``latent`` elements of a token, plus that of ``rope`` elements which carry its
position, and the latent is the value, too. A block has some heads as rows and goes through a part
of the tokens; a second launch weighs the parts, as in flash_decoding. Where 64 rows of 512 sums do
not fit beside the scores (tensor memory), two blocks compute half of the columns each.

On a GPU the peer is torch: two products by cuBLAS and a softmax, where sequences are equally long;
else one sequence after another.

    python mla_decode.py [--lengths 130 64] [--splits 2] [--heads 100] [--latent 512] [--rope 64]
                         [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from attention_forward import PASS_CONFIGS, has_tensor_memory, hide, online_softmax
from flash_decoding import combine, store_part

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

BLOCK_H = 64  # heads of a block

#: of tables: sequences, tokens of each, heads
SHAPES = (
    (64, 8192, 128),
    (32, 4096, 128),
    (128, 2048, 128),
    (8, 32768, 128),
    (1, 65536, 128),
    (64, 4096, 16),
)


def default_tiles(target, latent):
    """Returns arguments of ``mla_decode``: tiles that there is room for."""
    if target == "sm_80":
        return {"block_N": 32, "block_V": latent, "num_stages": 1}
    return {"block_N": 48, "block_V": 256 if has_tensor_memory(target) else latent}


def default_splits(batch, heads, keys, target, block_N, parts=1):
    """Returns the parts of tokens with which about as many blocks work as the GPU has
    multiprocessors; ``parts`` blocks have the columns of a result.
    """
    blocks = batch * -(-heads // BLOCK_H) * parts
    return max(1, min(CUDA(target).compute_max_core // blocks, -(-keys // block_N)))


def mla_decode(
    batch, keys, heads, latent, rope, splits, dtype="bfloat16", block_H=BLOCK_H, block_N=48,
    block_V=512, threads=256, num_stages=2,
):  # fmt: skip
    """Returns a prim_func of Q, Cache, Lengths and Out.

    Shapes are those below; Lengths (int32) says how many tokens a sequence has, up to ``keys``.
    A block computes ``block_V`` columns of Out. Scores are scaled by 1 / sqrt(128 + rope), the size
    of a head before compression.
    """
    scale = math.log2(math.e) / math.sqrt(128 + rope)  # powers of two in place of e
    columns: dict[str, Any] = {"policy": T.GemmWarpPolicy.FullCol}  # are shared, not rows

    @T.prim_func
    def mla_decode(
        Q: T.Tensor((batch, heads, latent + rope), dtype),
        Cache: T.Tensor((batch, keys, latent + rope), dtype),
        Lengths: T.Tensor((batch,), "int32"),
        Out: T.Tensor((batch, heads, latent), dtype),
    ):
        Parts = T.alloc_global((batch, heads, splits, latent), "float32")
        Lse = T.alloc_global((batch, heads, splits), "float32")

        grid = T.ceildiv(heads, block_H), latent // block_V * splits, batch
        with T.Kernel(*grid, threads=threads) as (bx, by, b):
            Q_shared = T.alloc_shared((block_H, latent), dtype)
            Q_rope = T.alloc_shared((block_H, rope), dtype)
            tokens = T.alloc_shared((block_N, latent), dtype)
            tokens_rope = T.alloc_shared((block_N, rope), dtype)
            weights = T.alloc_shared((block_H, block_N), dtype)
            scores = T.alloc_fragment((block_H, block_N), "float32")
            result = T.alloc_fragment((block_H, block_V), "float32")
            highest = T.alloc_fragment((block_H,), "float32")
            sums = T.alloc_fragment((block_H, 1), "float32")
            head, split, column = bx * block_H, by % splits, by // splits * block_V
            length = Lengths[b]
            blocks = T.ceildiv(T.ceildiv(length, block_N), splits)  # of this part
            begin = split * blocks * block_N

            T.copy(Q[b, head : head + block_H, :latent], Q_shared)
            T.copy(Q[b, head : head + block_H, latent:], Q_rope)
            T.clear(result)
            T.clear(sums)
            T.fill(highest, -1e30)  # finite: a part may be empty
            for k in T.Pipelined(blocks, num_stages=num_stages):
                key = begin + k * block_N
                T.copy(Cache[b, key : key + block_N, :latent], tokens)
                T.copy(Cache[b, key : key + block_N, latent:], tokens_rope)
                T.gemm(Q_shared, tokens, scores, transpose_B=True, clear_accum=True, **columns)
                T.gemm(Q_rope, tokens_rope, scores, transpose_B=True, **columns)
                if key + block_N > length:
                    hide(scores, key, length - 1, None)
                online_softmax(scores, weights, result, highest, sums, scale, None)
                T.gemm(weights, tokens[:, column : column + block_V], result, **columns)
            rows = T.min(block_H, heads - head)
            store_part(result, highest, sums, scale, Parts, Lse, b, head, rows, split, column)

        combine(Parts, Lse, Out, splits, latent)

    return mla_decode


def reference(q, cache, lengths, latent):
    """Returns Out, of the type of the arguments."""
    out = torch.empty_like(q[..., :latent])
    for b, length in enumerate(lengths):
        scores = q[b] @ cache[b, :length].T / math.sqrt(128 + q.shape[2] - latent)
        out[b] = scores.softmax(1) @ cache[b, :length, :latent]
    return out


def by_cublas(q, tokens, latent):
    """Returns Out of ``tokens`` (batch, keys, latent + rope): two products and a softmax."""
    scores = torch.bmm(q, tokens.transpose(1, 2)) / math.sqrt(128 + q.shape[2] - latent)
    return torch.bmm(scores.softmax(2), tokens[..., :latent])


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        lengths=Option("tokens of each sequence", [130, 64], [8192] * 64, least=0),
        splits=Option(
            "blocks that share the tokens of a sequence; 0: as many as pay", 2, 0, least=0
        ),
        heads=Option("heads", 100, 128),
        latent=Option("compressed elements of a token", 512, multiple=256, most=512),
        rope=Option("elements of a token that carry its position", 64),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args
    latent, width = args.latent, args.latent + args.rope

    def case(each, heads):
        batch, keys = len(each), max(*each, 1)
        tiles = default_tiles(args.target, latent)
        parts = latent // tiles["block_V"]
        shared = batch, heads, keys, args.target, tiles["block_N"], parts
        splits = args.splits or default_splits(*shared)
        function = mla_decode(batch, keys, heads, latent, args.rope, splits, args.dtype, **tiles)
        kernel = example.compile(function, pass_configs=PASS_CONFIGS)
        q = example.normal(batch, heads, width, dtype=args.dtype)
        cache = example.normal(batch, keys, width, dtype=args.dtype)
        lengths = torch.tensor(each, dtype=torch.int32, device=args.device)
        out = example.output(batch, heads, latent, dtype=args.dtype)
        peers = {"eager torch": functools.partial(reference, q, cache, each, latent)}
        if min(each) == keys:
            peers = {"cuBLAS and a softmax": functools.partial(by_cublas, q, cache, latent)}
        moved = sum(each) * width * cache.element_size()
        flops = 2 * sum(each) * heads * (width + latent)
        run = functools.partial(kernel, q, cache, lengths, out)
        return Case(run, peers, moved, flops), (q, cache), out

    line, inputs, out = case(args.lengths, args.heads)
    line.run()
    q, cache = (x.double() for x in inputs)
    want = reference(q, cache, args.lengths, latent)
    example.check("Out", out, want, tolerance=2**-7)
    example.speed(*line)
    example.table(SHAPES, lambda batch, keys, heads: case([keys] * batch, heads)[0])


if __name__ == "__main__":
    main()
