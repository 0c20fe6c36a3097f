"""Gradients of attention: dQ, dK and dV from dOut, by three kernels without atomic operations.

With P = exp(scale * Q K^T - Lse), one block of it at a time:

    delta = sum(dOut * Out) over each row        dV = P^T dOut
    dS = P * (dOut V^T - delta)                  dK = scale * dS^T Q        dQ = scale * dS K

``dkv`` holds a block of keys and goes through the queries, ``dq`` the other way round. Both compute
P again rather than add parts of dQ up in memory: results are the same in every run. P and dS
never leave the registers, since each kernel computes them as its second gemms take their A operand.

What both need of each row of queries ``prepare`` has written before: Lse, for powers of two, and
delta. Its rows begin at multiples of 16 bytes, so that tiles are loaded by TMA whatever the number
of queries.

    python attention_backward.py [--queries 256] [--keys 256] [--heads 2] [--kv_heads 1]
                        [--dim 128] [--causal] [--dtype bfloat16] [--target sm_90a]
                        [--device cpu]
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from attention_forward import (
    PASS_CONFIGS,
    Shape,
    has_tensor_memory,
    heads_of,
    hide,
    options,
    peers,
    reference,
)

import tilelang
import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example

#: of tables: sequences, queries, keys, heads of Q and of K, dimension
SHAPES = (
    (4, 2048, 2048, 16, 16, 64),
    (2, 2047, 2047, 16, 16, 128),
    (4, 2048, 2048, 16, 16, 96),
    (4, 4096, 4096, 16, 16, 128),
    (2, 2048, 2048, 32, 8, 128),
)

LOG2E = math.log2(math.e)


class Tiles(NamedTuple):
    """Tiles of one kernel: rows that a block keeps, rows in each step of its loop, and the rest."""

    kept: int
    step: int
    threads: int
    num_stages: int


def default_tiles(dim, target="sm_90a"):
    """Returns Tiles of dkv and of dq for ``dim`` <= 128.

    Those of sm_90a fill its registers. On sm_100a sums lie in tensor memory; gemms of the next step
    are issued during this one, which takes a third stage.
    """
    if has_tensor_memory(target):
        return (Tiles(128, 128 if dim <= 64 else 64, 256, 3),) * 2
    both = Tiles(128, 64, 256, 2)
    return both, Tiles(192, 64, 384, 2) if dim <= 64 else both


def extents(shape):
    """Returns those of Q, K, V, Out and Rows; gradients are shaped as what they are of.

    Rows are Lse and delta, and begin at multiples of 16 bytes.
    """
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    return (
        (batch, queries, heads, dim),
        (batch, keys, kv_heads, dim),
        (batch, keys, kv_heads, dim_v),
        (batch, queries, heads, dim_v),
        (2, batch, heads, T.ceildiv(queries, 4) * 4),
    )


@T.macro
def prepare_rows(Out, dOut, Lse, Rows, batch, head, first, count):
    """Writes ``count`` Rows from ``first`` on: log2(e) * Lse, and delta; zeros beyond the last.

    Where Lse is -inf, as of a query that sees no key, it is zero: so are 2 ** (-inf - 0), weights.
    """
    out, grad = (T.alloc_fragment((count, Out.shape[3]), Out.dtype) for _ in range(2))
    terms = T.alloc_fragment(out.shape, "float32")
    lse, sums = (T.alloc_fragment((count,), "float32") for _ in range(2))
    T.copy(Out[batch, first : first + count, head, :], out)
    T.copy(dOut[batch, first : first + count, head, :], grad)
    T.copy(Lse[batch, head, first : first + count], lse)
    for i, j in T.Parallel(*terms.shape):
        terms[i, j] = T.cast(out[i, j], "float32") * T.cast(grad[i, j], "float32")
    T.reduce_sum(terms, sums, dim=1)
    for i in T.Parallel(count):
        lse[i] = T.if_then_else(lse[i] > -T.infinity("float32"), lse[i] * LOG2E, 0.0)
    T.copy(lse, Rows[0, batch, head, first : first + count])
    T.copy(sums, Rows[1, batch, head, first : first + count])


def prepare(shape, dtype="bfloat16", count=64, threads=128):
    """Returns a prim_func of Out, dOut, Lse (of attention_forward) and Rows."""
    of_out, of_rows = extents(shape)[3:]
    of_lse = shape.batch, shape.heads, shape.queries

    @T.prim_func
    def prepare(
        Out: T.Tensor(of_out, dtype), dOut: T.Tensor(of_out, dtype),
        Lse: T.Tensor(of_lse, "float32"), Rows: T.Tensor(of_rows, "float32"),
    ):  # fmt: skip
        blocks = T.ceildiv(shape.queries, count), shape.heads, shape.batch
        with T.Kernel(*blocks, threads=threads) as (bx, by, bz):
            prepare_rows(Out, dOut, Lse, Rows, bz, by, bx * count, count)

    return prepare


@T.macro
def multiply(tile, factor):
    """By a scalar."""
    for i, j in T.Parallel(*tile.shape):
        tile[i, j] *= factor


@T.macro
def hide_keys(P, diagonal):
    """As weights_and_gradients says."""
    for k, q in T.Parallel(*P.shape):
        P[k, q] = T.if_then_else(k <= diagonal + q, P[k, q], -T.infinity("float32"))


@T.macro
def weights_and_gradients(P, dS, lse, sums, scale, diagonal):
    """Scores become weights, and gradients of weights those of scores; columns are queries.

    Key k of the block sees query q where k <= ``diagonal`` + q, if that is given.
    """
    if diagonal is not None and diagonal < P.shape[0] - 1:
        hide_keys(P, diagonal)
    for k, q in T.Parallel(*P.shape):
        P[k, q] = T.exp2(P[k, q] * (scale * LOG2E) - lse[q])
        dS[k, q] = P[k, q] * (dS[k, q] - sums[q])


def dkv(shape, causal=False, dtype="bfloat16", tiles=None):
    """Returns a prim_func of Q, K, V, dOut, Rows, dK and dV."""
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    of_q, of_k, of_v, of_out, of_rows = extents(shape)
    kept, step, threads, num_stages = tiles or default_tiles(dim)[0]
    scale, shared_by = 1 / math.sqrt(dim), heads // kv_heads

    @T.prim_func
    def dkv(
        Q: T.Tensor(of_q, dtype), K: T.Tensor(of_k, dtype), V: T.Tensor(of_v, dtype),
        dOut: T.Tensor(of_out, dtype), Rows: T.Tensor(of_rows, "float32"),
        dK: T.Tensor(of_k, dtype), dV: T.Tensor(of_v, dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(keys, kept), kv_heads, batch, threads=threads) as (bx, by, bz):
            K_shared = T.alloc_shared((kept, dim), dtype)
            V_shared = T.alloc_shared((kept, dim_v), dtype)
            Q_shared = T.alloc_shared((step, dim), dtype)
            dOut_shared = T.alloc_shared((step, dim_v), dtype)
            lse, sums = (T.alloc_shared((step,), "float32") for _ in range(2))
            # Transposed: rows are keys, columns are queries.
            P, dS = (T.alloc_fragment((kept, step), "float32") for _ in range(2))
            P_half, dS_half = (T.alloc_fragment((kept, step), dtype) for _ in range(2))
            dK_sum = T.alloc_fragment((kept, dim), "float32")
            dV_sum = T.alloc_fragment((kept, dim_v), "float32")
            first = bx * kept
            # The first query that sees the block is that of its first key.
            skipped = T.max(first - (keys - queries), 0) // step if causal else 0
            steps = T.ceildiv(queries, step) - skipped
            T.copy(K[bz, first : first + kept, by, :], K_shared)
            T.copy(V[bz, first : first + kept, by, :], V_shared)
            T.clear(dK_sum)
            T.clear(dV_sum)
            for i in T.Pipelined(steps * shared_by, num_stages=num_stages):
                head = by * shared_by + i // steps
                row = (skipped + i % steps) * step
                T.copy(Q[bz, row : row + step, head, :], Q_shared)
                T.copy(Rows[0, bz, head, row : row + step], lse)
                T.gemm(K_shared, Q_shared, P, transpose_B=True, clear_accum=True)
                T.copy(dOut[bz, row : row + step, head, :], dOut_shared)
                T.copy(Rows[1, bz, head, row : row + step], sums)
                T.gemm(V_shared, dOut_shared, dS, transpose_B=True, clear_accum=True)
                diagonal = row + keys - queries - first if causal else None
                weights_and_gradients(P, dS, lse, sums, scale, diagonal)
                T.copy(P, P_half)
                T.gemm(P_half, dOut_shared, dV_sum)
                T.copy(dS, dS_half)
                T.gemm(dS_half, Q_shared, dK_sum)
            multiply(dK_sum, scale)
            T.copy(dK_sum, K_shared)  # tiles of K and V are no longer needed
            T.copy(dV_sum, V_shared)
            T.copy(K_shared, dK[bz, first : first + kept, by, :])
            T.copy(V_shared, dV[bz, first : first + kept, by, :])

    return dkv


def dq(shape, causal=False, dtype="bfloat16", tiles=None):
    """Returns a prim_func of Q, K, V, dOut, Rows and dQ, as of ``dkv``."""
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    of_q, of_k, of_v, of_out, of_rows = extents(shape)
    kept, step, threads, num_stages = tiles or default_tiles(dim)[1]
    scale = 1 / math.sqrt(dim)

    @T.prim_func
    def dq(
        Q: T.Tensor(of_q, dtype), K: T.Tensor(of_k, dtype), V: T.Tensor(of_v, dtype),
        dOut: T.Tensor(of_out, dtype), Rows: T.Tensor(of_rows, "float32"),
        dQ: T.Tensor(of_q, dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(queries, kept), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((kept, dim), dtype)
            dOut_shared = T.alloc_shared((kept, dim_v), dtype)
            K_shared = T.alloc_shared((step, dim), dtype)
            V_shared = T.alloc_shared((step, dim_v), dtype)
            P, dS = (T.alloc_fragment((kept, step), "float32") for _ in range(2))
            dS_half = T.alloc_fragment((kept, step), dtype)
            dQ_sum = T.alloc_fragment((kept, dim), "float32")
            lse, sums = (T.alloc_fragment((kept,), "float32") for _ in range(2))

            # Causal blocks with many keys start first.
            first = (T.ceildiv(queries, kept) - 1 - bx if causal else bx) * kept
            head = by // (heads // kv_heads)
            diagonal = first + keys - queries if causal else None  # last key of the first row
            whole = (
                keys if diagonal is None else T.min(diagonal + 1, keys)
            ) // step  # in sight of all
            seen = keys if diagonal is None else T.min(diagonal + kept, keys)

            T.copy(Q[bz, first : first + kept, by, :], Q_shared)
            T.copy(dOut[bz, first : first + kept, by, :], dOut_shared)
            T.copy(Rows[0, bz, by, first : first + kept], lse)
            T.copy(Rows[1, bz, by, first : first + kept], sums)
            T.clear(dQ_sum)
            for k in T.Pipelined(T.ceildiv(seen, step), num_stages=num_stages):
                T.copy(K[bz, k * step : (k + 1) * step, head, :], K_shared)
                T.gemm(Q_shared, K_shared, P, transpose_B=True, clear_accum=True)
                T.copy(V[bz, k * step : (k + 1) * step, head, :], V_shared)
                T.gemm(dOut_shared, V_shared, dS, transpose_B=True, clear_accum=True)
                if k >= whole:
                    hide(P, k * step, keys - 1, diagonal)
                for i, j in T.Parallel(kept, step):
                    P[i, j] = T.exp2(P[i, j] * (scale * LOG2E) - lse[i])
                for i, j in T.Parallel(kept, step):
                    dS[i, j] = P[i, j] * (dS[i, j] - sums[i])
                T.copy(dS, dS_half)
                T.gemm(dS_half, K_shared, dQ_sum)
            multiply(dQ_sum, scale)
            T.copy(dQ_sum, Q_shared)  # the tile of Q is no longer needed
            T.copy(Q_shared, dQ[bz, first : first + kept, by, :])

    return dq


class Backward:
    """The kernels of one shape, compiled.

    Called with q, k, v, out, d_out and lse, shaped as in attention_forward, it returns the
    gradients of q, k and v.
    """

    default_tiles = staticmethod(default_tiles)

    def __init__(
        self, shape, causal=False, dtype="bfloat16", tiles=None, target="auto",
        compile=tilelang.compile,
    ):  # fmt: skip
        """``tiles`` are by default those for the target; ``compile`` is called for each kernel."""
        self.shape, self.gpu = shape, CUDA(target)
        self.tiles = tiles or self.default_tiles(shape.dim, self.gpu.arch)
        self.kernels = [
            compile(function, target=self.gpu.target, pass_configs=PASS_CONFIGS)
            for function in self.functions(causal, dtype)
        ]

    def functions(self, causal, dtype):
        """Returns the prim_funcs."""
        of_dkv, of_dq = self.tiles
        return (
            prepare(self.shape, dtype),
            dkv(self.shape, causal, dtype, of_dkv),
            dq(self.shape, causal, dtype, of_dq),
        )

    def workspace(self, device):
        """Returns tensors for what the kernels pass on, Rows first."""
        return [torch.empty(extents(self.shape)[-1], device=device)]

    def __call__(self, q, k, v, out, d_out, lse):
        # What a kernel does not write must not pass.
        workspace = [x.fill_(float("nan")) for x in self.workspace(q.device)]
        gradients = [torch.full_like(x, float("nan")) for x in (q, k, v)]
        self.launch(q, k, v, out, d_out, lse, workspace, gradients)
        return gradients

    def launch(self, q, k, v, out, d_out, lse, workspace, gradients):
        """Writes dQ, dK and dV to ``gradients``."""
        prepare_kernel, dkv_kernel, dq_kernel = self.kernels
        prepare_kernel(out, d_out, lse, *workspace)
        dkv_kernel(q, k, v, d_out, *workspace, *gradients[1:])
        dq_kernel(q, k, v, d_out, *workspace, gradients[0])


def reference_gradients(q, k, v, d_out, causal):
    """Returns (Out, Lse, [dQ, dK, dV]) in float64."""
    inputs = [x.double().requires_grad_() for x in (q, k, v)]
    out, lse = reference(inputs[0], inputs[1], inputs[2], causal)
    gradients = torch.autograd.grad(out, inputs, d_out.double())
    return out.detach(), lse.detach(), list(gradients)


def gradients_by_torch(q, k, v, d_out, causal):
    """Returns what computes the gradients, by the name of who wrote it."""
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]

    def run(forward):
        if forward not in results:
            results[forward] = forward()
        return torch.autograd.grad(results[forward], inputs, d_out, retain_graph=True)

    results = {}  # of the forward pass, which is not timed
    found = peers(inputs[0], inputs[1], inputs[2], causal)
    return {name: functools.partial(run, forward) for name, forward in found.items()}


def main(kernels=Backward, text=__doc__, **limits):
    """Runs the kernels, checks them, and on a GPU compares their speed with torch.

    ``limits`` are of Example: the targets that have such kernels.
    """
    names = "batch queries keys heads kv_heads dim causal dtype"
    example = Example(text, **limits, **options(names, 256, 4096))
    args = example.args
    whole = args.dim % 8 == 0 and args.dim <= 128
    example.require(whole, f"--dim is {args.dim}: give a multiple of 8, at most 128")
    example.require(args.keys > 1, "--keys is 1, and gradients of a score are zero: give 2 or more")

    def case(batch, queries, keys, heads, kv_heads, dim):
        shape = Shape(batch, queries, keys, heads, kv_heads, dim, dim)
        compiled = {"target": args.target, "compile": example.compile}
        backward = kernels(shape, args.causal, args.dtype, **compiled)
        of_q = shape.batch, shape.queries, shape.heads, shape.dim
        q, d_out = (example.normal(*of_q, dtype=args.dtype) for _ in range(2))
        of_k = shape.batch, shape.keys, shape.kv_heads, shape.dim
        k, v = (example.normal(*of_k, dtype=args.dtype) for _ in range(2))
        out, lse, want = reference_gradients(q, k, v, d_out, args.causal)
        given = q, k, v, out.to(q.dtype).contiguous(), d_out, lse.float().contiguous()
        got = backward(*given)
        run = functools.partial(backward.launch, *given, backward.workspace(q.device), got)
        # Five gemms, where the forward pass has two; half of each where it is causal.
        products = shape.batch * shape.queries * shape.keys * shape.heads
        flops = 10 * products * shape.dim // (2 if args.causal else 1)
        return Case(run, gradients_by_torch(q, k, v, d_out, args.causal), flops=flops), got, want

    line, got, want = case(args.batch, args.queries, args.keys, *heads_of(example), args.dim)
    for name, gradient, exact in zip(("dQ", "dK", "dV"), got, want, strict=True):
        example.check(name, gradient, exact, tolerance=2**-6)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
