"""Decoding from a paged cache of float8: one query a sequence, heads share keys and values.

The cache is pages of tokens, ``Pages`` says which belong to a sequence. Keys and values are
float8_e4m3fn, with a float32 scale for each token and head; half of the bytes are read that a cache
of 16 bits has. A block loads pages ahead, its tiles, and makes float16 of them, which holds each
float8 exactly. Scales of keys multiply scores, those of values the weights. Blocks share the
tokens of a sequence as in flash_decoding.

    python paged_decoding_fp8.py [--lengths 200 77] [--splits 2] [--heads 16] [--kv_heads 2]
                                 [--dim 128] [--page 64] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import functools
import math

import torch
from attention_forward import PASS_CONFIGS, by_torch, heads_of, hide, online_softmax, peers
from flash_decoding import combine, reference, rows_of, store_part

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: of tables: sequences, tokens of each, heads of Q and of K, dimension, tokens of a page
SHAPES = (
    (32, 8192, 32, 8, 128, 64),
    (64, 2048, 32, 4, 128, 64),
    (8, 32768, 32, 4, 128, 64),
    (128, 1024, 32, 8, 128, 16),
    (32, 4096, 32, 8, 64, 128),
)

STORED = "float8_e4m3fn"


@T.macro
def start(result, sums, highest):
    """No key has been seen."""
    T.clear(result)
    T.clear(sums)
    T.fill(highest, -1e30)  # finite: a part may be empty


@T.macro
def score(Q, stored, tokens, scales, scores, key, length):
    """Scores of the tokens from ``key`` on: ``stored`` goes through ``tokens``, of Q's type."""
    T.copy(stored, tokens)
    T.gemm(Q, tokens, scores, transpose_B=True, clear_accum=True)
    for i, j in T.Parallel(*scores.shape):
        scores[i, j] *= scales[j]
    if key + scores.shape[1] > length:
        hide(scores, key, length - 1, None)


def paged_decoding_fp8(
    batch, pages, most, page, heads, kv_heads, dim, splits, dtype="float16", threads=128,
    num_stages=2,
):  # fmt: skip
    """Returns a prim_func of Q and Out (batch, heads, dim), and of the cache.

    K and V are (pages, page, kv_heads, dim) of float8, KScales and VScales (pages, kv_heads, page)
    float32, Pages (batch, most) and Lengths (batch,) int32; lengths are up to most * page;
    Out is zero of none. ``page`` is a multiple of 16.
    """
    group = heads // kv_heads
    block_H = rows_of(group)
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two in place of e

    @T.prim_func
    def paged_decoding_fp8(
        Q: T.Tensor((batch, heads, dim), dtype),
        K: T.Tensor((pages, page, kv_heads, dim), STORED),
        V: T.Tensor((pages, page, kv_heads, dim), STORED),
        KScales: T.Tensor((pages, kv_heads, page), "float32"),
        VScales: T.Tensor((pages, kv_heads, page), "float32"),
        Pages: T.Tensor((batch, most), "int32"),
        Lengths: T.Tensor((batch,), "int32"),
        Out: T.Tensor((batch, heads, dim), dtype),
    ):
        Parts = T.alloc_global((batch, heads, splits, dim), "float32")
        Lse = T.alloc_global((batch, heads, splits), "float32")

        with T.Kernel(splits, kv_heads, batch, threads=threads) as (split, head, b):
            Q_shared = T.alloc_shared((block_H, dim), dtype)
            K_stored, V_stored = (T.alloc_shared((page, dim), STORED) for _ in range(2))
            K_shared, V_shared = (T.alloc_shared((page, dim), dtype) for _ in range(2))
            k_scales, v_scales = (T.alloc_shared((page,), "float32") for _ in range(2))
            scores = T.alloc_fragment((block_H, page), "float32")
            weights = T.alloc_shared((block_H, page), dtype)
            result = T.alloc_fragment((block_H, dim), "float32")
            highest = T.alloc_fragment((block_H,), "float32")
            sums = T.alloc_fragment((block_H, 1), "float32")
            length = Lengths[b]
            count, last = T.ceildiv(T.ceildiv(length, page), splits), (length - 1) // page

            T.copy(Q[b, head * group : head * group + block_H, :], Q_shared)
            start(result, sums, highest)
            state = scores, weights, result, highest, sums
            for n in T.Pipelined(count, num_stages=num_stages):
                key = (split * count + n) * page
                at = Pages[b, T.min(split * count + n, last)]  # a part may be past the end
                T.copy(K[at, 0:page, head, :], K_stored)
                T.copy(KScales[at, head, 0:page], k_scales)
                T.copy(V[at, 0:page, head, :], V_stored)
                T.copy(VScales[at, head, 0:page], v_scales)
                score(Q_shared, K_stored, K_shared, k_scales, scores, key, length)
                online_softmax(*state, scale, None, of_values=v_scales)
                T.copy(V_stored, V_shared)
                T.gemm(weights, V_shared, result)
            store_part(result, highest, sums, scale, Parts, Lse, b, head * group, group, split)

        combine(Parts, Lse, Out, splits, dim)

    return paged_decoding_fp8


def default_splits(batch, kv_heads, pages, target):
    """Returns the parts, of four pages or more, with which blocks are two waves.

    Three of them share a multiprocessor: while one converts, others load.
    """
    most = 6 * CUDA(target).compute_max_core // (batch * kv_heads)
    return max(1, min(most, pages // 4))


def stored(x):
    """Returns tokens (pages, page, kv_heads, dim) in float8, and (pages, kv_heads, page) scales."""
    scales = x.float().abs().amax(-1) / torch.finfo(torch.float8_e4m3fn).max
    return (x / scales[..., None]).to(torch.float8_e4m3fn), scales.transpose(1, 2).contiguous()


def wide(cache, scales, pages):
    """Returns the tokens of ``pages`` (batch, most) in float64, (batch, tokens, kv_heads, dim)."""
    tokens = cache.double() * scales.transpose(1, 2).double()[..., None]
    return tokens[pages.long()].flatten(1, 2)


def in_float16(q, k, v, each):
    """Returns what computes Out from tokens of float16, by the name of who wrote it."""
    k, v = (x.half() for x in (k, v))
    longest = max(each)
    if min(each) == longest:
        return {f"{name}, float16": run for name, run in
                peers(q[:, None], k[:, :longest], v[:, :longest]).items()}  # fmt: skip
    lengths = torch.tensor(each, device=q.device)
    mask = torch.arange(k.shape[1], device=q.device) < lengths[:, None]
    mask = mask[:, None, None, :]
    return {"torch, float16": functools.partial(by_torch, q[:, None], k, v, False, None, mask)}


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        lengths=Option("keys of each sequence", [200, 77], [8192] * 32, least=0),
        splits=Option("blocks that share the keys of a sequence; 0: as many as pay", 0, least=0),
        heads=Option("heads of Q", 16, 32),
        kv_heads=Option("heads of K and V, a divisor of heads", 2, 8),
        dim=Option("elements of a head", 128, multiple=8, most=256),
        page=Option("tokens of a page", 64, multiple=16),
    )
    args = example.args

    def case(each, heads, kv_heads, dim, page):
        batch, most = len(each), -(-max(*each, 1) // page)
        count = batch * most
        splits = args.splits or default_splits(batch, kv_heads, most, args.target)
        function = paged_decoding_fp8(batch, count, most, page, heads, kv_heads, dim, splits)
        kernel = example.compile(function, pass_configs=PASS_CONFIGS)
        q = example.normal(batch, heads, dim, dtype="float16")
        shape = count, page, kv_heads, dim
        (k, k_scales), (v, v_scales) = (stored(example.normal(*shape)) for _ in range(2))
        pages = torch.randperm(count).view(batch, most).int().to(args.device)
        lengths = torch.tensor(each, dtype=torch.int32, device=args.device)
        out = example.output(*q.shape, dtype="float16")
        exact = wide(k, k_scales, pages), wide(v, v_scales, pages)
        run = functools.partial(kernel, q, k, v, k_scales, v_scales, pages, lengths, out)
        moved = 2 * sum(each) * kv_heads * (dim + 4)
        return Case(run, in_float16(q, *exact, each), moved), (q, *exact), out

    line, (q, k, v), out = case(args.lengths, *heads_of(example), args.dim, args.page)
    line.run()
    example.check("Out", out, reference(q.double(), k, v, args.lengths), 2**-8)
    example.speed(*line)
    example.table(SHAPES, lambda batch, keys, *sizes: case([keys] * batch, *sizes)[0])


if __name__ == "__main__":
    main()
