"""Attention of one query a sequence to a long cache: split the keys, then combine (flash decoding).

The heads that share keys and values are the rows of one small gemm. With a block for each sequence
and head of the cache most of the GPU would be idle, so ``splits`` blocks share the keys. Each of
them stores its result and the logarithm of its sum of weights; a second launch of the same
function weighs the parts by these. Sequences have lengths of their own.

    python flash_decoding.py [--lengths 300 77 512] [--splits 3] [--heads 16] [--kv_heads 2]
                        [--dim 128] [--dtype float16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import functools
import math

import torch
from attention_forward import PASS_CONFIGS, by_torch, heads_of, hide, online_softmax, peers

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: of tables: sequences, keys of each, heads of Q and of K, dimension
SHAPES = (
    (64, 2048, 32, 4, 128),
    (32, 8192, 32, 4, 128),
    (32, 2048, 32, 4, 128),
    (8, 32768, 32, 4, 128),
    (1, 131072, 64, 8, 128),
    (128, 2047, 32, 8, 64),
    (32, 4096, 32, 8, 96),
)


@T.macro
def store_part(result, highest, sums, scale, Parts, Lse, b, head, rows, split, column=0):
    """Stores the first ``rows`` rows as heads from ``head`` on; an empty part has Lse -inf."""
    for i, j in T.Parallel(*result.shape):
        if i < rows:
            Parts[b, head + i, split, column + j] = result[i, j] / T.max(sums[i, 0], 1e-30)
    for i in T.Parallel(*highest.shape):
        if i < rows:
            Lse[b, head + i, split] = highest[i] * scale + T.log2(sums[i, 0])


@T.macro
def combine(Parts, Lse, Out, splits, dim):
    """Out (batch, heads, dim) becomes the mean of Parts (batch, heads, splits, dim), weighed.

    Lse (batch, heads, splits) is log2 of the sum of weights of each part, -inf of an empty one;
    where all are empty, Out is zero.
    """
    with T.Kernel(Out.shape[1], Out.shape[0], threads=128) as (head, b):
        lse = T.alloc_fragment((splits,), "float32")
        highest, total = (T.alloc_fragment((1,), "float32") for _ in range(2))
        result = T.alloc_fragment((dim,), "float32")
        T.pdl_sync()
        T.copy(Lse[b, head, :], lse)
        T.fill(highest, -1e30)  # finite: all parts may be empty
        T.reduce_max(lse, highest, dim=0, clear=False)
        for s in T.Parallel(splits):
            lse[s] = T.exp2(lse[s] - highest[0])
        T.reduce_sum(lse, total, dim=0)
        T.clear(result)
        for s in T.serial(splits):
            for j in T.Parallel(dim):
                result[j] += Parts[b, head, s, j] * T.exp2(Lse[b, head, s] - highest[0])
        for j in T.Parallel(dim):
            Out[b, head, j] = result[j] / T.max(total[0], 1e-30)


def default_splits(batch, kv_heads, keys, target, block_N=128):
    """Returns the parts with which about as many blocks work as the GPU has multiprocessors.

    More of them than that only add results to combine.
    """
    parts = round(CUDA(target).compute_max_core / (batch * kv_heads))
    return max(1, min(parts, -(-keys // block_N)))


def rows_of(group):
    """Returns the rows of the smallest gemms that have as many heads."""
    return 16 if group <= 16 else -(-group // 64) * 64


def default_tiles(target, dim, group):
    """Returns arguments of ``flash_decoding``: the most keys a block that there is room for."""
    rows, room = rows_of(group), CUDA(target).smem_cap
    for block_N in (128, 64, 32):
        elements = rows * (dim + block_N) + 4 * block_N * dim  # Q, weights, and two stages
        if 2 * elements + 4096 <= room:
            break
    return {"block_N": block_N, "threads": max(128, 2 * rows)}


def flash_decoding(
    batch, keys, heads, kv_heads, dim, splits, dtype="float16", block_N=128, threads=128
):
    """Returns a prim_func of Q and Out (batch, heads, dim), K, V (batch, keys, kv_heads, dim).

    Lengths (batch,) int32 says how many keys a sequence has: up to ``keys``; Out is zero of none.
    """
    group = heads // kv_heads
    block_H = rows_of(group)
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two in place of e

    @T.prim_func
    def flash_decoding(
        Q: T.Tensor((batch, heads, dim), dtype),
        K: T.Tensor((batch, keys, kv_heads, dim), dtype),
        V: T.Tensor((batch, keys, kv_heads, dim), dtype),
        Lengths: T.Tensor((batch,), "int32"),
        Out: T.Tensor((batch, heads, dim), dtype),
    ):
        Parts = T.alloc_global((batch, heads, splits, dim), "float32")
        Lse = T.alloc_global((batch, heads, splits), "float32")

        with T.Kernel(splits, kv_heads, batch, threads=threads) as (split, head, b):
            Q_shared = T.alloc_shared((block_H, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            scores = T.alloc_fragment((block_H, block_N), "float32")
            weights = T.alloc_shared((block_H, block_N), dtype)
            result = T.alloc_fragment((block_H, dim), "float32")
            highest = T.alloc_fragment((block_H,), "float32")
            sums = T.alloc_fragment((block_H, 1), "float32")
            length = Lengths[b]
            blocks = T.ceildiv(T.ceildiv(length, block_N), splits)  # of this part
            begin = split * blocks * block_N

            T.copy(Q[b, head * group : head * group + block_H, :], Q_shared)
            T.clear(result)
            T.clear(sums)
            T.fill(highest, -1e30)  # finite: a part may be empty
            for k in T.Pipelined(blocks, num_stages=2):
                key = begin + k * block_N
                T.copy(K[b, key : key + block_N, head, :], K_shared)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                if key + block_N > length:
                    hide(scores, key, length - 1, None)
                online_softmax(scores, weights, result, highest, sums, scale, None)
                T.copy(V[b, key : key + block_N, head, :], V_shared)
                T.gemm(weights, V_shared, result)
            if splits > 1:
                store_part(result, highest, sums, scale, Parts, Lse, b, head * group, group, split)
            else:
                for i, j in T.Parallel(block_H, dim):
                    if i < group:
                        Out[b, head * group + i, j] = result[i, j] / T.max(sums[i, 0], 1e-30)

        if splits > 1:
            combine(Parts, Lse, Out, splits, dim)

    return flash_decoding


def reference(q, k, v, lengths):
    """Returns Out, of the type of the arguments."""
    groups = q.shape[1] // k.shape[2]
    out = torch.empty_like(q)
    for b, length in enumerate(lengths):
        own_k, own_v = (x[b, :length].repeat_interleave(groups, 1) for x in (k, v))
        scores = torch.einsum("hd,khd->hk", q[b], own_k) / math.sqrt(q.shape[2])
        out[b] = torch.einsum("hk,khd->hd", scores.softmax(1), own_v)
    return out


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        lengths=Option("keys of each sequence", [300, 77, 512], [32768] * 8, least=0),
        splits=Option("blocks that share the keys of a sequence; 0: as many as pay", 0, least=0),
        heads=Option("heads of Q", 16, 32),
        kv_heads=Option("heads of K and V, a divisor of heads", 2, 4),
        dim=Option("elements of a head", 128, most=512),
        dtype=Option("element type", "float16", choices=("float16", "bfloat16")),
    )
    args = example.args

    def case(each, heads, kv_heads, dim):
        batch, keys = len(each), max(*each, 1)
        tiles = default_tiles(args.target, dim, heads // kv_heads)
        shared = batch, kv_heads, keys, args.target, tiles["block_N"]
        splits = args.splits or default_splits(*shared)
        sizes = batch, keys, heads, kv_heads, dim
        function = flash_decoding(*sizes, splits, args.dtype, **tiles)
        kernel = example.compile(function, pass_configs=PASS_CONFIGS)
        q = example.normal(batch, heads, dim, dtype=args.dtype)
        k, v = (example.normal(batch, keys, kv_heads, dim, dtype=args.dtype) for _ in range(2))
        lengths = torch.tensor(each, dtype=torch.int32, device=args.device)
        out = example.output(*q.shape, dtype=args.dtype)
        by_name = peers(q[:, None], k, v)
        if min(each) < keys:
            mask = torch.arange(keys, device=args.device)[None, :] < lengths[:, None]
            mask = mask[:, None, None, :]
            by_name = {"torch": functools.partial(by_torch, q[:, None], k, v, False, None, mask)}
        moved = 2 * sum(each) * kv_heads * dim * k.element_size()
        run = functools.partial(kernel, q, k, v, lengths, out)
        return Case(run, by_name, moved), (q, k, v), out

    line, inputs, out = case(args.lengths, *heads_of(example), args.dim)
    line.run()
    q, k, v = (x.double() for x in inputs)
    example.check("Out", out, reference(q, k, v, args.lengths), tolerance=2**-8)
    example.speed(*line)
    example.table(SHAPES, lambda batch, keys, *sizes: case([keys] * batch, *sizes)[0])


if __name__ == "__main__":
    main()
