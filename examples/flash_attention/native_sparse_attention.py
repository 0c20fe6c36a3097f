"""Native sparse attention, its selected branch: each query sees a few blocks of keys of its choice.

A query and a head of K have ``selected`` indices of blocks of ``block`` keys; heads of Q that share
K and V share the choice, and so are the rows of one small gemm. A block of threads has one query,
and goes through its blocks of keys; those after the query are left out, and keys after it hidden.

On a GPU the peers are torch's attention with a mask, and flash-linear-attention where it is
installed (``pip install fla-core``).

    python native_sparse_attention.py [--length 150] [--heads 32] [--kv_heads 2] [--dim 64]
                        [--block 32] [--selected 3] [--dtype bfloat16] [--target sm_90a]
                        [--device cpu]
"""

from __future__ import annotations

import functools
import math

import torch
from attention_forward import PASS_CONFIGS, hide, online_softmax

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option, optional

#: of tables: sequences, their tokens, heads of Q and of K, dimension, keys of a block, its blocks
SHAPES = (
    (1, 4096, 64, 4, 128, 64, 16),
    (1, 2048, 32, 2, 128, 64, 16),
    (2, 2048, 64, 4, 64, 32, 16),
    (4, 1024, 64, 4, 128, 64, 8),
    (1, 4096, 16, 1, 128, 64, 32),
)


def native_sparse_attention(
    batch, length, heads, kv_heads, dim, block, selected, dtype="bfloat16", threads=32
):
    """Returns a prim_func of Q, K, V, Blocks and Out.

    Q and Out are (batch, length, heads, dim), K and V (batch, length, kv_heads, dim), Blocks
    (batch, length, kv_heads, selected) int32: the blocks that a query sees, the one of its own
    among them; -1 for none. ``heads / kv_heads`` is a multiple of 16.
    """
    group = heads // kv_heads
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two in place of e

    @T.prim_func
    def native_sparse_attention(
        Q: T.Tensor((batch, length, heads, dim), dtype),
        K: T.Tensor((batch, length, kv_heads, dim), dtype),
        V: T.Tensor((batch, length, kv_heads, dim), dtype),
        Blocks: T.Tensor((batch, length, kv_heads, selected), "int32"),
        Out: T.Tensor((batch, length, heads, dim), dtype),
    ):
        with T.Kernel(length, kv_heads, batch, threads=threads) as (t, head, b):
            q = T.alloc_shared((group, dim), dtype)
            k, v = (T.alloc_shared((block, dim), dtype) for _ in range(2))
            scores = T.alloc_fragment((group, block), "float32")
            weights = T.alloc_fragment((group, block), dtype)
            result = T.alloc_fragment((group, dim), "float32")
            highest = T.alloc_fragment((group,), "float32")
            sums = T.alloc_fragment((group, 1), "float32")

            T.copy(Q[b, t, head * group : (head + 1) * group, :], q)
            T.clear(result)
            T.clear(sums)
            T.fill(highest, -1e30)
            for n in T.serial(selected):
                first = Blocks[b, t, head, n] * block
                if (first >= 0) & (first <= t):
                    T.copy(K[b, first : first + block, head, :], k)
                    T.copy(V[b, first : first + block, head, :], v)
                    T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                    hide(scores, first, t, None)
                    online_softmax(scores, weights, result, highest, sums, scale, None)
                    T.gemm(weights, v, result)
            for i, j in T.Parallel(group, dim):
                result[i, j] /= sums[i, 0]
            T.copy(result, Out[b, t, head * group : (head + 1) * group, :])

    return native_sparse_attention


def choose_blocks(batch, length, kv_heads, block, selected):
    """Returns Blocks: random ones up to the query's own, which comes first; -1 beyond those."""
    blocks = -(-length // block)
    own = torch.arange(length)[:, None] // block
    rank = torch.rand(batch, length, kv_heads, blocks)
    each = torch.arange(blocks)[None, None, None, :]
    own = own[None, :, :, None]
    rank = torch.where(each == own, 2.0, rank).masked_fill(each > own, -1.0)
    best, chosen = rank.topk(min(selected, blocks), dim=3)
    chosen = torch.where(best < 0, -1, chosen)
    return torch.nn.functional.pad(chosen, (0, selected - chosen.shape[3]), value=-1).int()


def visible_keys(blocks, length, block):
    """Returns which keys a query sees: (batch, queries, kv_heads, keys)."""
    keys = torch.arange(length, device=blocks.device)
    chosen = (blocks[..., None] == keys // block).any(3)
    return chosen & (keys <= keys[:, None])[None, :, None, :]


def reference(q, k, v, visible):
    """Returns Out, of the type of the arguments."""
    groups = q.shape[2] // k.shape[2]
    k, v, visible = (x.repeat_interleave(groups, 2) for x in (k, v, visible))
    scores = torch.einsum("bqhd,bkhd->bqhk", q, k) / math.sqrt(q.shape[3])
    weights = scores.masked_fill(~visible, float("-inf")).softmax(3)
    return torch.einsum("bqhk,bkhd->bqhd", weights, v)


def by_torch(q, k, v, mask):
    """Returns Out; ``mask`` (batch, heads, queries, keys) says which keys a query sees."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    compute = torch.nn.functional.scaled_dot_product_attention
    return compute(q, k, v, attn_mask=mask, enable_gqa=True).transpose(1, 2)


def peers(q, k, v, blocks, block):
    """Returns what computes Out, by name: torch, and flash-linear-attention where it is there."""
    groups = q.shape[2] // k.shape[2]
    mask = visible_keys(blocks, q.shape[1], block).repeat_interleave(groups, 2).transpose(1, 2)
    found = {"torch, masked": functools.partial(by_torch, q, k, v, mask)}
    forward = optional("fla.ops.nsa.parallel", "parallel_nsa_fwd")
    if forward is not None:
        scale, chosen = q.shape[3] ** -0.5, blocks.long()
        tensors = q, k, v, chosen, chosen.shape[3]
        found["flash-linear-attention"] = functools.partial(forward, *tensors, block, scale)
    return found


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        batch=Option("sequences", 1, 1),
        length=Option("tokens of a sequence", 150, 4096),
        heads=Option("heads of Q", 32, 64),
        kv_heads=Option("heads of K and V; heads is a multiple of 16 times as many", 2, 4),
        dim=Option("elements of a head", 64, 128),
        block=Option("keys of a block", 32, 64),
        selected=Option("blocks that a query sees", 3, 16),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args
    rows, shared = 16 * args.kv_heads, "--heads / --kv_heads are rows of a gemm"
    example.require(args.heads % rows == 0, f"{shared}: give a multiple of {rows} for --heads")

    def case(batch, length, heads, kv_heads, dim, block, selected):
        sizes = batch, length, heads, kv_heads, dim, block, selected
        function = native_sparse_attention(*sizes, args.dtype)
        kernel = example.compile(function, pass_configs=PASS_CONFIGS)
        q, k, v = (
            example.normal(batch, length, n, dim, dtype=args.dtype)
            for n in (heads, kv_heads, kv_heads)
        )
        blocks = choose_blocks(batch, length, kv_heads, block, selected).to(args.device)
        out = example.output(*q.shape, dtype=args.dtype)
        flops = 4 * batch * length * heads * dim * block * selected
        run = functools.partial(kernel, q, k, v, blocks, out)
        return Case(run, peers(q, k, v, blocks, block), flops=flops), (q, k, v, blocks), out

    line, (q, k, v, blocks), out = case(
        args.batch, args.length, args.heads, args.kv_heads, args.dim, args.block, args.selected
    )
    line.run()
    visible = visible_keys(blocks, args.length, args.block)
    want = reference(q.double(), k.double(), v.double(), visible)
    example.check("Out", out, want, tolerance=2**-8)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
