"""Gradients of attention in one pass over P and dS, parts of dQ added up in memory.

``gradients`` holds a block of keys and goes through the queries, as ``dkv`` of attention_backward;
in each step it multiplies dS by its keys, too, and adds that part of dQ to a float32 tensor: five
gemms instead of seven. In which order the parts come is up to chance: dQ differs from run to run
in its last bits. ``finish`` scales and rounds the sums.

    python attention_backward_added.py [--queries 256] [--keys 256] [--heads 2] [--kv_heads 1]
                        [--dim 128] [--causal] [--dtype bfloat16] [--target sm_90a]
                        [--device cpu]
"""

from __future__ import annotations

import math

import attention_backward
import torch
from attention_backward import Tiles, hide_keys, multiply, weights_and_gradients
from attention_forward import PASS_CONFIGS

import tilelang
import tilelang.language as T


@T.macro
def multiply_by_keys(dS, keys, dQ):
    """The part of dQ that a block of keys makes; ``dS`` has a row for each of them.

    It is rounded once more: the registers of its half are those of the gemm of dK. The product is
    transposed: what a warp stores at once then lies in all banks of shared memory.
    """
    weights = T.alloc_shared(dS.shape, keys.dtype)
    queries, dim = dQ.shape
    part = T.alloc_fragment((dim, queries), "float32")
    T.copy(dS, weights)
    policy = T.GemmWarpPolicy.FullRow if dim > 64 else T.GemmWarpPolicy.FullCol
    T.gemm(keys, weights, part, transpose_A=True, clear_accum=True, policy=policy)
    for q, d in T.Parallel(queries, dim):
        dQ[q, d] = part[d, q]


@T.macro
def store(tile, staged, Out, first, head, batch):
    """By way of a tile in shared memory that is no longer needed."""
    T.copy(tile, staged)
    T.copy(staged, Out[batch, first : first + tile.shape[0], head, :])


def gradients(shape, causal=False, dtype="bfloat16", tiles=None):
    """As ``dkv`` of attention_backward; also a parameter is the sum of dQ, float32 and unscaled."""
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    kept, step, threads, num_stages = tiles or Backward.default_tiles(dim)
    scale, shared_by = 1 / math.sqrt(dim), heads // kv_heads

    @T.prim_func
    def gradients(
        Q: T.Tensor((batch, queries, heads, dim), dtype),
        K: T.Tensor((batch, keys, kv_heads, dim), dtype),
        V: T.Tensor((batch, keys, kv_heads, dim_v), dtype),
        dOut: T.Tensor((batch, queries, heads, dim_v), dtype),
        Lse: T.Tensor((batch, heads, queries), "float32"),
        Delta: T.Tensor((batch, heads, queries), "float32"),
        dQ_sums: T.Tensor((batch, queries, heads, dim), "float32"),
        dK: T.Tensor((batch, keys, kv_heads, dim), dtype),
        dV: T.Tensor((batch, keys, kv_heads, dim_v), dtype),
    ):
        with T.Kernel(T.ceildiv(keys, kept), kv_heads, batch, threads=threads) as (bx, by, bz):
            K_shared, V_shared = (T.alloc_shared((kept, d), dtype) for d in (dim, dim_v))
            Q_shared, dOut_shared = (T.alloc_shared((step, d), dtype) for d in (dim, dim_v))
            dQ_shared = T.alloc_shared((step, dim), "float32")
            lse, sums = (T.alloc_shared((step,), "float32") for _ in range(2))
            # Transposed: rows are keys, columns are queries.
            P, dS = (T.alloc_fragment((kept, step), "float32") for _ in range(2))
            P_half, dS_half = (T.alloc_fragment((kept, step), dtype) for _ in range(2))
            dK_sum, dV_sum = (T.alloc_fragment((kept, d), "float32") for d in (dim, dim_v))
            # Few wide boxes: the memory system adds whole lines of 128 bytes.
            T.annotate_layout({dQ_shared: tilelang.layout.make_swizzled_layout(dQ_shared)})
            first = bx * kept
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
                T.copy(Lse[bz, head, row : row + step], lse)
                T.gemm(K_shared, Q_shared, P, transpose_B=True, clear_accum=True)
                T.copy(dOut[bz, row : row + step, head, :], dOut_shared)
                T.copy(Delta[bz, head, row : row + step], sums)
                T.gemm(V_shared, dOut_shared, dS, transpose_B=True, clear_accum=True)
                diagonal = row + keys - queries - first
                if causal and diagonal < kept - 1:
                    hide_keys(P, diagonal)
                weights_and_gradients(P, dS, lse, sums, scale)
                T.copy(P, P_half)
                T.gemm(P_half, dOut_shared, dV_sum)
                T.copy(dS, dS_half)
                T.gemm(dS_half, Q_shared, dK_sum)
                multiply_by_keys(dS, K_shared, dQ_shared)
                T.atomic_add(dQ_sums[bz, row : row + step, head, :], dQ_shared)
            multiply(dK_sum, scale)
            store(dK_sum, K_shared, dK, first, by, bz)
            store(dV_sum, V_shared, dV, first, by, bz)

    return gradients


def finish(shape, dtype="bfloat16", rows=64, threads=256):
    """Returns a prim_func of the sums of dQ and dQ, which are all queries of all heads."""
    batch, queries, heads, dim = shape.batch, shape.queries, shape.heads, shape.dim
    scale = 1 / math.sqrt(dim)

    @T.prim_func
    def finish(
        dQ_sums: T.Tensor((batch * queries * heads, dim), "float32"),
        dQ: T.Tensor((batch * queries * heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(batch * queries * heads, rows), threads=threads) as bx:
            for i, j in T.Parallel(rows, dim):
                if bx * rows + i < batch * queries * heads:
                    dQ[bx * rows + i, j] = dQ_sums[bx * rows + i, j] * scale

    return finish


class Backward(attention_backward.Backward):
    """As that of attention_backward, of other kernels."""

    @staticmethod
    def default_tiles(dim, target="sm_90a"):
        """Returns Tiles that the registers have room for, ``dim`` <= 128."""
        if target.startswith("sm_100"):
            return Tiles(128, 32 if dim > 64 else 64, 256, 2)
        return Tiles(128, 64 if dim > 64 else 128, 256, 2)

    def __init__(
        self, shape, causal=False, dtype="bfloat16", tiles=None, compile=tilelang.compile, **others
    ):
        """``compile`` is called with each prim_func, its pass options and ``others``."""
        functions = (
            attention_backward.delta(shape, dtype),
            gradients(shape, causal, dtype, tiles),
            finish(shape, dtype),
        )
        self.kernels = [
            compile(function, pass_configs=PASS_CONFIGS, **others) for function in functions
        ]

    def launch(self, q, k, v, out, d_out, lse, sums, gradients):
        """Writes dQ, dK and dV to ``gradients``; ``sums``, shaped as ``lse``, is for Delta."""
        delta_kernel, gradients_kernel, finish_kernel = self.kernels
        parts = torch.zeros(q.shape, device=q.device)
        delta_kernel(out, d_out, sums)
        gradients_kernel(q, k, v, d_out, lse, sums, parts, *gradients[1:])
        finish_kernel(*(x.view(-1, q.shape[-1]) for x in (parts, gradients[0])))


if __name__ == "__main__":
    attention_backward.main(Backward, __doc__)
