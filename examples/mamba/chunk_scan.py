"""Mamba-2: the outputs of each chunk, from its inputs and the state before it.

    y_t = exp(DA[t]) C_t S  +  sum over s <= t of  (C_t B_s) exp(DA[t] - DA[s]) dt_s x_s  +  D x_t

The first term is what earlier chunks left in the state, the second a masked attention within the
chunk, whose weights decay. DA holds the sums of dt A up to and with each token of the chunk.

Weights are powers of two by the instruction for it (``T.__exp2``): 22 bits of a mantissa, and zero
below 2^-126.

On a GPU the peers are einsums of torch, and the kernel of mamba_ssm where it is installed
(``pip install mamba-ssm``).

    python chunk_scan.py [--batch 1] [--chunks 2] [--chunk 128] [--heads 3] [--head_dim 64]
                         [--state 64] [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import functools
import math

import torch
from chunk_state import SHAPES, random_steps

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option, optional

NEVER = -1e30  # of a logarithm: exp2 of it is 0


def default_tiles(chunk, head_dim):
    """Returns arguments of ``chunk_scan``: for wide heads, more tokens share states."""
    wide = head_dim > 64 and chunk > 64
    return {"block_T": 128, "threads": 256} if wide else {"block_T": 64, "threads": 128}


def chunk_scan(
    batch, chunks, chunk, heads, head_dim, state, dtype="bfloat16", block_T=64, threads=128
):
    """Returns a prim_func of X, B, C, Dt, DA, D, States and Y.

    X, Y are (batch, chunks * chunk, heads, head_dim); B, C (batch, chunks * chunk, state); Dt, DA
    (batch, heads, chunks, chunk) float32; D (heads,) float32; States (batch, chunks, heads,
    head_dim, state), those before each chunk.
    """
    tokens, log2e = chunks * chunk, math.log2(math.e)

    @T.prim_func
    def chunk_scan(
        X: T.Tensor((batch, tokens, heads, head_dim), dtype),
        B: T.Tensor((batch, tokens, state), dtype),
        C: T.Tensor((batch, tokens, state), dtype),
        Dt: T.Tensor((batch, heads, chunks, chunk), "float32"),
        DA: T.Tensor((batch, heads, chunks, chunk), "float32"),
        D: T.Tensor((heads,), "float32"),
        States: T.Tensor((batch, chunks, heads, head_dim, state), dtype),
        Y: T.Tensor((batch, tokens, heads, head_dim), dtype),
    ):
        grid = T.ceildiv(chunk, block_T), chunks, batch * heads
        with T.Kernel(*grid, threads=threads) as (block, c, bh):
            own_c = T.alloc_shared((block_T, state), dtype)
            before = T.alloc_shared((head_dim, state), dtype)
            tile_b = T.alloc_shared((block_T, state), dtype)
            x = T.alloc_shared((block_T, head_dim), dtype)
            scores = T.alloc_fragment((block_T, block_T), "float32")
            weights = T.alloc_fragment((block_T, block_T), dtype)
            y = T.alloc_fragment((block_T, head_dim), "float32")
            decay, grown, past, dt = (T.alloc_fragment((block_T,), "float32") for _ in range(4))
            b, h = bh // heads, bh % heads
            first, row = block * block_T, c * chunk + block * block_T  # in the chunk, the sequence

            T.copy(C[b, row : row + block_T, :], own_c)
            T.copy(States[b, c, h, :, :], before)
            T.copy(DA[b, h, c, first : first + block_T], decay)
            for i in T.Parallel(block_T):
                decay[i] *= log2e
                grown[i] = T.__exp2(decay[i])
            T.gemm(own_c, before, y, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_T, head_dim):
                y[i, j] *= grown[i]
            for k in T.Pipelined(block + 1, num_stages=2):
                s, column = k * block_T, c * chunk + k * block_T
                T.copy(B[b, column : column + block_T, :], tile_b)
                T.copy(X[b, column : column + block_T, h, :], x)
                T.copy(DA[b, h, c, s : s + block_T], past)
                T.copy(Dt[b, h, c, s : s + block_T], dt)
                T.gemm(own_c, tile_b, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_T, block_T):
                    between = T.if_then_else(first + i >= s + j, decay[i] - past[j] * log2e, NEVER)
                    weights[i, j] = scores[i, j] * T.__exp2(between) * dt[j]
                T.gemm(weights, x, y)
            for i, j in T.Parallel(block_T, head_dim):
                if first + i < chunk:
                    Y[b, row + i, h, j] = y[i, j] + D[h] * X[b, row + i, h, j]

    return chunk_scan


def reference(x, b, c, dt, da, d, states):
    """Returns Y, of the type of the arguments; shapes as of ``chunk_scan``."""
    chunks, chunk = dt.shape[2:]
    x, b, c = (y.unflatten(1, (chunks, chunk)) for y in (x, b, c))
    between = (da[..., :, None] - da[..., None, :]).tril()
    weights = torch.einsum("bcln,bcsn->bcls", c, b)[:, None] * torch.exp(between).tril()
    weights = weights * dt[..., None, :]
    y = torch.einsum("bhcls,bcshp->bclhp", weights, x)
    y += torch.einsum("bcln,bchpn,bhcl->bclhp", c, states, torch.exp(da))
    return (y + d[:, None] * x).flatten(1, 2)


def peers(x, b, c, dt, da, d, states):
    """Returns what computes Y, by name: mamba_ssm where it is there."""
    wide = [y.float() for y in (x, b, c, dt, da, d, states)]
    found = {"einsum": functools.partial(reference, *wide)}
    triton = optional("mamba_ssm.ops.triton.ssd_chunk_scan", "chunk_scan")
    if triton is not None:
        groups = b[:, :, None], c[:, :, None]
        found["mamba_ssm"] = functools.partial(triton, *groups, x, dt, da, states, d)
    return found


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        batch=Option("sequences", 1, 8),
        chunks=Option("chunks of a sequence", 2, 16),
        chunk=Option("tokens of a chunk", 128, 256),
        heads=Option("heads", 3, 80),
        head_dim=Option("elements of a head", 64),
        state=Option("columns of the state", 64, 128),
        dtype=Option("element type of X, B and C", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args

    def case(batch, chunks, chunk, heads, head_dim, state):
        sizes = batch, chunks, chunk, heads, head_dim, state
        function = chunk_scan(*sizes, args.dtype, **default_tiles(chunk, head_dim))
        kernel = example.compile(function)
        tokens = chunks * chunk
        x = example.normal(batch, tokens, heads, head_dim, dtype=args.dtype)
        b, c = (example.normal(batch, tokens, state, dtype=args.dtype) for _ in range(2))
        dt, da = random_steps(example, batch, heads, chunks, chunk)
        d = example.normal(heads)
        states = example.normal(batch, chunks, heads, head_dim, state, dtype=args.dtype)
        y = example.output(*x.shape, dtype=args.dtype)
        inputs = x, b, c, dt, da, d, states
        flops = 2 * batch * tokens * heads * state * head_dim
        flops += batch * tokens * heads * chunk * (state + head_dim)
        moved = sum(z.nbytes for z in (x, b, c, states, y))
        run = functools.partial(kernel, *inputs, y)
        return Case(run, peers(*inputs), moved, flops), inputs, y

    sizes = args.batch, args.chunks, args.chunk, args.heads, args.head_dim, args.state
    line, inputs, y = case(*sizes)
    line.run()
    example.check("Y", y, reference(*(z.double() for z in inputs)), tolerance=2**-8)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
