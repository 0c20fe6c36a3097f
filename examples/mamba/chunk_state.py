"""Mamba-2: what each chunk of a sequence adds to the state of the model.

With decay a_t = exp(dt_t A) between tokens, the state after a chunk of L tokens that begins with
none is

    S = sum over t of  exp(sum of dt_s A over s > t)  dt_t  x_t^T B_t

DA holds the sums of dt A up to and with each token, so the exponent is DA[L - 1] - DA[t]. Weights
are multiplied into X on its way to the gemm. All chunks are computed at once; passing the states on
from chunk to chunk is cheap.

On a GPU the peers are einsums of torch, and the kernel of mamba_ssm where it is installed
(``pip install mamba-ssm``).

    python chunk_state.py [--batch 1] [--chunks 2] [--chunk 128] [--heads 3] [--head_dim 64]
                        [--state 72] [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import functools
import math

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option, optional

#: of tables: sequences, their chunks, tokens of each, heads, elements of a head, of the state
SHAPES = (
    (8, 16, 256, 80, 64, 128),
    (1, 64, 256, 80, 64, 128),
    (4, 16, 128, 64, 64, 64),
    (2, 16, 256, 32, 128, 128),
    (8, 8, 256, 24, 64, 256),
)


def chunk_state(
    batch, chunks, chunk, heads, head_dim, state, dtype="bfloat16", block_P=64, block_N=0,
    block_T=64, threads=128,
):  # fmt: skip
    """Returns a prim_func of X, B, Dt, DA and States.

    X is (batch, chunks * chunk, heads, head_dim), B (batch, chunks * chunk, state), common to all
    heads; Dt and DA (batch, heads, chunks, chunk) float32; States (batch, chunks, heads, head_dim,
    state) float32.
    """
    tokens, log2e = chunks * chunk, math.log2(math.e)
    block_N = block_N or (64 if state <= 64 else 128)

    @T.prim_func
    def chunk_state(
        X: T.Tensor((batch, tokens, heads, head_dim), dtype),
        B: T.Tensor((batch, tokens, state), dtype),
        Dt: T.Tensor((batch, heads, chunks, chunk), "float32"),
        DA: T.Tensor((batch, heads, chunks, chunk), "float32"),
        States: T.Tensor((batch, chunks, heads, head_dim, state), "float32"),
    ):
        grid = T.ceildiv(head_dim, block_P) * T.ceildiv(state, block_N), chunks, batch * heads
        with T.Kernel(*grid, threads=threads) as (tile, c, bh):
            x = T.alloc_shared((block_T, block_P), dtype)
            x_weighed = T.alloc_fragment((block_P, block_T), dtype)
            tile_b = T.alloc_shared((block_T, block_N), dtype)
            weight = T.alloc_fragment((block_T,), "float32")
            sums = T.alloc_fragment((block_P, block_N), "float32")
            b, h = bh // heads, bh % heads
            p = tile // T.ceildiv(state, block_N) * block_P
            n = tile % T.ceildiv(state, block_N) * block_N

            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(chunk, block_T), num_stages=2):
                t = k * block_T
                first = c * chunk + t
                T.copy(X[b, first : first + block_T, h, p : p + block_P], x)
                T.copy(B[b, first, n], tile_b)
                for i in T.Parallel(block_T):
                    decay = T.exp2((DA[b, h, c, chunk - 1] - DA[b, h, c, t + i]) * log2e)
                    weight[i] = decay * Dt[b, h, c, t + i]
                for i, j in T.Parallel(block_P, block_T):
                    # Tokens after the last one are those of the next chunk.
                    x_weighed[i, j] = T.if_then_else(t + j < chunk, x[j, i] * weight[j], 0)
                T.gemm(x_weighed, tile_b, sums)
            T.copy(sums, States[b, c, h, p, n])

    return chunk_state


def random_steps(example, batch, heads, chunks, chunk):
    """Returns Dt and DA, as models have them: steps of softplus, decay by -1 to -16 times those."""
    dt = torch.nn.functional.softplus(example.normal(batch, heads, chunks, chunk) - 3)
    rate = -1 - 15 * torch.rand(1, heads, 1, 1).to(dt.device)
    return dt, (dt * rate).cumsum(3)


def reference(x, b, dt, da):
    """Returns States, of the type of the arguments; shapes as of ``chunk_state``."""
    chunks, chunk = dt.shape[2:]
    x, b = (y.unflatten(1, (chunks, chunk)) for y in (x, b))
    weight = dt * torch.exp(da[..., -1:] - da)
    return torch.einsum("bclhp,bhcl,bcln->bchpn", x, weight, b)


def peers(x, b, dt, da):
    """Returns what computes States, by name: mamba_ssm where it is there."""
    found = {"einsum": functools.partial(reference, x.float(), b.float(), dt, da)}
    triton = optional("mamba_ssm.ops.triton.ssd_chunk_state", "chunk_state")
    if triton is not None:
        found["mamba_ssm"] = functools.partial(triton, b[:, :, None], x, dt, da)
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
        state=Option("columns of the state", 72, 128),
        dtype=Option("element type of X and B", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args

    def case(batch, chunks, chunk, heads, head_dim, state):
        sizes = batch, chunks, chunk, heads, head_dim, state
        kernel = example.compile(chunk_state(*sizes, args.dtype))
        x = example.normal(batch, chunks * chunk, heads, head_dim, dtype=args.dtype)
        b = example.normal(batch, chunks * chunk, state, dtype=args.dtype)
        dt, da = random_steps(example, batch, heads, chunks, chunk)
        states = example.output(batch, chunks, heads, head_dim, state)
        flops = 2 * batch * chunks * chunk * heads * head_dim * state
        moved = x.nbytes + b.nbytes + states.nbytes
        run = functools.partial(kernel, x, b, dt, da, states)
        return Case(run, peers(x, b, dt, da), moved, flops), (x, b, dt, da), states

    sizes = args.batch, args.chunks, args.chunk, args.heads, args.head_dim, args.state
    line, inputs, states = case(*sizes)
    line.run()
    want = reference(*(y.double() for y in inputs))
    example.check("States", states, want, tolerance=2**-8)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
