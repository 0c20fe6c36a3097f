"""Which tokens a query of sparse attention sees: scores of an indexer of float8, and the k largest.

The indexer of DeepSeek-V3.2: small heads of float8 whose products with a token go through a ReLU
and are summed, each with a weight of the query; a token has one small key and one scale for all
heads. A first launch computes scores, tokens as rows of a gemm. A second one selects, a block for
each sequence, by radix: four times it counts how many scores have which next eight bits, and keeps
those that decide. Then it collects what is larger, and the first tokens of those that are equal.

    python sparse_indexer.py [--lengths 700 90] [--k 128] [--heads 32] [--dim 128] [--target sm_90a]
                             [--device cpu]
"""

from __future__ import annotations

import functools

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.radix import find_least, in_order

STORED = "float8_e4m3fn"

#: of tables: sequences, tokens of each, heads, dimension, tokens to select
SHAPES = (
    (64, 32768, 64, 128, 2048),
    (16, 65536, 64, 128, 2048),
    (128, 8192, 64, 128, 2048),
    (4, 131072, 64, 128, 2048),
    (64, 16384, 32, 64, 1024),
)


@T.macro
def score_tokens(Q, Weights, K, Scales, Lengths, Scores, block_N, threads):
    """Scores (batch, keys): of each token, relu(Q K) summed over heads; see ``sparse_indexer``."""
    batch, heads, dim = Q.shape
    with T.Kernel(T.ceildiv(K.shape[1], block_N), batch, threads=threads) as (bx, b):
        q = T.alloc_shared((heads, dim), STORED)
        k = T.alloc_shared((block_N, dim), STORED)
        products = T.alloc_fragment((block_N, heads), "float32")
        scores = T.alloc_fragment((block_N,), "float32")
        weights = T.alloc_fragment((heads,), "float32")
        if bx * block_N < Lengths[b]:
            T.copy(Q[b, :, :], q)
            T.copy(K[b, bx * block_N, 0], k)
            T.copy(Weights[b, :], weights)
            T.gemm(k, q, products, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_N, heads):
                products[i, j] = T.max(products[i, j], 0.0) * weights[j]
            T.reduce_sum(products, scores, dim=1)
            for i in T.Parallel(block_N):
                Scores[b, bx * block_N + i] = scores[i] * Scales[b, bx * block_N + i]


@T.macro
def collect(Scores, b, length, least, missing, k, Indices, chunk):
    """Indices (batch, k): tokens above ``least`` in order, then the first ``missing`` at it."""
    larger, equal, sums = (T.alloc_fragment((chunk,), "int32") for _ in range(3))
    total = T.alloc_fragment((1,), "int32")
    before_larger, before_equal = (T.alloc_var("int32", init=0) for _ in range(2))
    for n in T.serial(T.ceildiv(length, chunk)):
        for i in T.Parallel(chunk):
            bits = in_order(Scores[b, T.min(n * chunk + i, length - 1)])
            larger[i] = T.if_then_else((n * chunk + i < length) & (bits > least), 1, 0)
            equal[i] = T.if_then_else((n * chunk + i < length) & (bits == least), 1, 0)
        T.cumsum(larger, sums)
        for i in T.Parallel(chunk):
            if larger[i] == 1:
                Indices[b, before_larger + sums[i] - 1] = n * chunk + i
        T.reduce_sum(larger, total, dim=0)
        before_larger += total[0]
        T.cumsum(equal, sums)
        for i in T.Parallel(chunk):
            if equal[i] == 1 and before_equal + sums[i] <= missing:
                Indices[b, k - missing + before_equal + sums[i] - 1] = n * chunk + i
        T.reduce_sum(equal, total, dim=0)
        before_equal += total[0]


def sparse_indexer(
    batch, keys, heads, dim, k, block_N=128, threads=128, chunk=2048, select_threads=512
):
    """Returns a prim_func of Q (batch, heads, dim), Weights (batch, heads), K (batch, keys, dim),
    Scales (batch, keys), Lengths (batch,), and Indices (batch, k) int32.

    Q and K are float8, Lengths int32, the others float32. A token's score is Scales
    times the sum over heads of Weights * max(Q K, 0). Indices are the tokens of the k largest
    scores, all tokens where there are no more; the rest of a row is -1.
    """

    @T.prim_func
    def sparse_indexer(
        Q: T.Tensor((batch, heads, dim), STORED),
        Weights: T.Tensor((batch, heads), "float32"),
        K: T.Tensor((batch, keys, dim), STORED),
        Scales: T.Tensor((batch, keys), "float32"),
        Lengths: T.Tensor((batch,), "int32"),
        Indices: T.Tensor((batch, k), "int32"),
    ):
        Scores = T.alloc_global((batch, keys), "float32")
        score_tokens(Q, Weights, K, Scales, Lengths, Scores, block_N, threads)
        with T.Kernel(batch, threads=select_threads) as b:
            least, missing = T.alloc_var("uint32", init=0), T.alloc_var("int32", init=0)
            length = Lengths[b]
            kept = T.min(length, k)
            missing = kept
            find_least(length, lambda i: Scores[b, i], lambda *_: 1, least, missing, chunk)
            collect(Scores, b, length, least, missing, kept, Indices, chunk)
            for i in T.Parallel(k):
                if i >= kept:
                    Indices[b, i] = -1

    return sparse_indexer


def quantised(x):
    """Returns the rows of ``x`` in float8, and a float32 scale for each."""
    scales = x.abs().amax(-1) / torch.finfo(torch.float8_e4m3fn).max
    return (x / scales[..., None]).to(torch.float8_e4m3fn), scales


def token_scores(q, weights, k, scales):
    """Returns scores (batch, keys), of the type of the arguments."""
    products = torch.einsum("bhd,bkd->bhk", q, k).relu()
    return torch.einsum("bhk,bh->bk", products, weights) * scales


def by_torch(q, weights, k, scales, count):
    """Returns the selected tokens, from products of bfloat16."""
    return token_scores(q, weights, k, scales).topk(count)


def check(example, indices, scores, lengths, count):
    """Raises an AssertionError where other tokens are selected than those of largest scores."""
    for b, length in enumerate(lengths):
        own = indices[b, : min(length, count)].long()
        assert len(own.unique()) == len(own), "a token was selected twice"
        assert bool((indices[b, len(own) :] == -1).all()), "what is left is -1"
        # Sums of float8 on Hopper may exchange tokens whose scores are next to each other.
        want = scores[b, :length].topk(len(own)).values
        example.check("Scores", scores[b, own].sort(descending=True).values, want, 2**-9)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        targets=("sm_90a", "sm_100a"),  # sm_80 has no float8
        lengths=Option("tokens of each sequence", [700, 90], [32768] * 64, least=0),
        k=Option("tokens to select", 128, 2048),
        heads=Option("heads of the indexer", 32, 64),
        dim=Option("elements of a head", 128),
    )
    args = example.args
    compiled = example.compiled(by_torch)

    def case(each, heads, dim, count):
        batch, keys = len(each), max(*each, 1)
        kernel = example.compile(sparse_indexer(batch, keys, heads, dim, count))
        q, q_scales = quantised(example.normal(batch, heads, dim))
        k, scales = quantised(example.normal(batch, keys, dim))
        weights = example.normal(batch, heads) * q_scales
        lengths = torch.tensor(each, dtype=torch.int32, device=args.device)
        indices = example.output(batch, count, dtype="int32")
        run = functools.partial(kernel, q, weights, k, scales, lengths, indices)
        q16, weights16, k16, scales16 = (x.bfloat16() for x in (q, weights, k, scales))
        rounded = q16, weights16, k16, scales16, min(count, keys)
        peers = {
            "torch": functools.partial(by_torch, *rounded),
            "torch.compile": functools.partial(compiled, *rounded),
        }
        moved = sum(each) * (dim + 4 + 2 * 4)
        return Case(run, peers, moved), (q, weights, k, scales), indices

    line, inputs, indices = case(args.lengths, args.heads, args.dim, args.k)
    line.run()
    scores = token_scores(*(x.double() for x in inputs))
    example.verify(check, example, indices, scores, args.lengths, args.k)
    example.speed(*line)
    example.table(SHAPES, lambda batch, keys, *sizes: case([keys] * batch, *sizes)[0])


if __name__ == "__main__":
    main()
