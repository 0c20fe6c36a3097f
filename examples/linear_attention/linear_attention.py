"""Causal linear attention: o_t = q_t S_t with S_t = sum over s <= t of k_s^T v_s.

The state S has a size that does not grow with the sequence. Within a chunk the sum is carried out
as attention without a softmax, over earlier chunks by the state:

    O = (Q K^T, masked) V + Q S        S += K^T V

A block keeps ``block_V`` columns of the state of one head in registers, and goes through the
chunks. Where these are too few blocks for a GPU, a sequence has ``segments``: a launch before sums
up what each of them adds to the state, so that all can begin at once.

On a GPU the peers are torch with all products of queries and keys, and flash-linear-attention where
it is installed (``pip install fla-core``).

    python linear_attention.py [--batch 1] [--length 200] [--heads 2] [--dim 64] [--dim_v 128]
                        [--segments 0] [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import functools

import torch

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option, optional

#: of tables: sequences, their tokens, heads, dimensions of K and of V
SHAPES = (
    (4, 4096, 16, 128, 128),
    (8, 2048, 16, 128, 128),
    (1, 16384, 32, 64, 64),
    (4, 2047, 16, 64, 128),
    (2, 8192, 8, 256, 256),
)


def default_segments(batch, length, heads, dim_v, target, chunk=64, block_V=64):
    """Returns the segments, of four chunks or more, with which no multiprocessor idles."""
    blocks, chunks = batch * heads * -(-dim_v // block_V), -(-length // chunk)
    most = max(1, min(CUDA(target).compute_max_core // blocks, chunks // 4))
    return -(-chunks // -(-chunks // most))


@T.macro
def sum_up(K, V, Parts, chunks, chunk, block_V, threads):
    """Parts (batch, heads, segments, dim, dim_v): what the ``chunks`` of each add to the state."""
    batch, heads, segments, dim, dim_v = Parts.shape
    grid = T.ceildiv(dim_v, block_V), heads * (segments - 1), batch  # nobody needs the last
    with T.Kernel(*grid, threads=threads) as (bx, by, b):
        k = T.alloc_shared((chunk, dim), K.dtype)
        v = T.alloc_shared((chunk, block_V), V.dtype)
        state = T.alloc_fragment((dim, block_V), "float32")
        h, segment, column = by % heads, by // heads, bx * block_V
        T.clear(state)
        for c in T.Pipelined(chunks, num_stages=2):
            t = (segment * chunks + c) * chunk
            T.copy(K[b, t : t + chunk, h, :], k)
            T.copy(V[b, t : t + chunk, h, column : column + block_V], v)
            T.gemm(k, v, state, transpose_A=True)
        T.copy(state, Parts[b, h, segment, :, column : column + block_V])


def linear_attention(
    batch, length, heads, dim, dim_v, segments=1, dtype="bfloat16", chunk=64, block_V=64,
    threads=128,
):  # fmt: skip
    """Returns a prim_func of Q, K (batch, length, heads, dim), V and Out (.., dim_v), and State.

    State (batch, heads, dim, dim_v) float32 is S after the last token. Each of ``segments`` blocks
    goes through a part of the sequence, after a launch that sums up what all add to the state.
    """
    chunks = -(-length // chunk)
    each = -(-chunks // segments)  # of a segment

    @T.prim_func
    def linear_attention(
        Q: T.Tensor((batch, length, heads, dim), dtype),
        K: T.Tensor((batch, length, heads, dim), dtype),
        V: T.Tensor((batch, length, heads, dim_v), dtype),
        Out: T.Tensor((batch, length, heads, dim_v), dtype),
        State: T.Tensor((batch, heads, dim, dim_v), "float32"),
    ):
        Parts = T.alloc_global((batch, heads, segments, dim, dim_v), "float32")
        if segments > 1:
            sum_up(K, V, Parts, each, chunk, block_V, threads)
        grid = T.ceildiv(dim_v, block_V), heads * segments, batch
        with T.Kernel(*grid, threads=threads) as (bx, by, b):
            q, k = (T.alloc_shared((chunk, dim), dtype) for _ in range(2))
            v = T.alloc_shared((chunk, block_V), dtype)
            state = T.alloc_fragment((dim, block_V), "float32")
            state_shared = T.alloc_shared((dim, block_V), dtype)
            scores = T.alloc_fragment((chunk, chunk), "float32")
            visible = T.alloc_shared((chunk, chunk), dtype)
            out = T.alloc_fragment((chunk, block_V), "float32")
            h, segment, column = by % heads, by // heads, bx * block_V
            begin = segment * each

            T.clear(state)
            if segments > 1:
                for earlier in T.serial(segment):
                    for i, j in T.Parallel(dim, block_V):
                        if column + j < dim_v:
                            state[i, j] += Parts[b, h, earlier, i, column + j]
            for c in T.Pipelined(T.min(each, chunks - begin), num_stages=2):
                t = (begin + c) * chunk
                T.copy(Q[b, t : t + chunk, h, :], q)
                T.copy(K[b, t : t + chunk, h, :], k)
                T.copy(V[b, t : t + chunk, h, column : column + block_V], v)
                T.copy(state, state_shared)
                T.gemm(q, state_shared, out, clear_accum=True)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    visible[i, j] = T.if_then_else(i >= j, scores[i, j], 0)
                T.gemm(visible, v, out)
                T.gemm(k, v, state, transpose_A=True)
                T.copy(out, Out[b, t : t + chunk, h, column : column + block_V])
            if segment == segments - 1:
                T.copy(state, State[b, h, :, column : column + block_V])

    return linear_attention


def quadratic(q, k, v):
    """Returns Out and the last State, of the type of the arguments."""
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k).tril()
    out = torch.einsum("bhqk,bkhd->bqhd", scores, v)
    return out, torch.einsum("bthd,bthe->bhde", k, v)


def peers(q, k, v):
    """Returns what computes Out and State, by name: flash-linear-attention where it is there."""
    found = {"quadratic": functools.partial(quadratic, q, k, v)}
    chunked = optional("fla.ops.linear_attn", "chunk_linear_attn")
    if chunked is not None:
        options = {"scale": 1.0, "output_final_state": True, "normalize": False}
        found["flash-linear-attention"] = functools.partial(chunked, q, k, v, **options)
    return found


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        batch=Option("sequences", 1, 4),
        length=Option("tokens of a sequence", 200, 4096),
        heads=Option("heads", 2, 16),
        dim=Option("elements of a head of Q and K", 64, 128),
        dim_v=Option("elements of a head of V", 128),
        segments=Option("blocks that share a sequence; 0: as many as pay", 0, least=0),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args

    def case(batch, length, heads, dim, dim_v):
        segments = args.segments or default_segments(batch, length, heads, dim_v, args.target)
        sizes = batch, length, heads, dim, dim_v, segments
        kernel = example.compile(linear_attention(*sizes, args.dtype))
        q, k = (example.normal(batch, length, heads, dim, dtype=args.dtype) for _ in range(2))
        v = example.normal(batch, length, heads, dim_v, dtype=args.dtype)
        out = example.output(*v.shape, dtype=args.dtype)
        state = example.output(batch, heads, dim, dim_v)
        flops = 2 * batch * length * heads * (2 * dim * dim_v + 32 * (dim + dim_v))
        run = functools.partial(kernel, q, k, v, out, state)
        return Case(run, peers(q, k, v), flops=flops), (q, k, v), (out, state)

    line, inputs, results = case(args.batch, args.length, args.heads, args.dim, args.dim_v)
    line.run()
    exact = quadratic(*(x.double() for x in inputs))
    for name, got, want, allowed in zip(
        ("Out", "State"), results, exact, (2**-8, 1e-5), strict=True
    ):
        example.check(name, got, want, allowed)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
