"""Gradients of attention in one pass over P and dS, parts of dQ added up in memory.

``gradients`` holds a block of keys and goes through the queries, as ``dkv`` of attention_backward;
in each step it multiplies dS by its keys, too, and adds that part of dQ to a float32 tensor: five
gemms instead of seven. It does so beside the first gemm of the next step if that part has room
until then. In which order the parts come is up to chance: dQ differs from run to run in its last
bits. ``finish`` scales and rounds the sums.

Of causal attention blocks with many queries come first, of ``GROUP`` heads of K at a time. Where
heads of Q share one of K, a block has its rows of queries of all of them before the next rows.

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

#: heads of K that run side by side
GROUP = 4


@T.macro
def multiply_all(P, dS, keys, queries, d_out, dQ, dK, dV):
    """The products of weights and of gradients of scores, which have a row for each key.

    That for dQ is transposed, and its dS rounded once more: the registers of dS_half are those of
    the gemm of dK.
    """
    P_half, dS_half = (T.alloc_fragment(P.shape, keys.dtype) for _ in range(2))
    dS_shared = T.alloc_shared(dS.shape, keys.dtype)
    T.copy(P, P_half)
    T.gemm(P_half, d_out, dV)
    T.copy(dS, dS_half)
    T.gemm(dS_half, queries, dK)
    T.copy(dS, dS_shared)
    policy = T.GemmWarpPolicy.FullRow if dQ.shape[0] > 64 else T.GemmWarpPolicy.FullCol
    T.gemm(keys, dS_shared, dQ, transpose_A=True, clear_accum=True, policy=policy)


@T.macro
def add(part, Sums, batch, head, first):
    """A transposed tile: what a warp stores at once lies in all banks of shared memory so."""
    dim, queries = part.shape
    staged = T.alloc_shared((queries, dim), "float32")
    # Few wide boxes: the memory system adds whole lines of 128 bytes.
    T.annotate_layout({staged: tilelang.layout.make_swizzled_layout(staged)})
    for q, d in T.Parallel(queries, dim):
        staged[q, d] = part[d, q]
    T.atomic_add(Sums[batch, first : first + queries, head, :], staged)


@T.macro
def store(tile, staged, Out, first, number):
    """By way of a tile in shared memory that is no longer needed."""
    T.copy(tile, staged)
    heads = Out.shape[2]
    T.copy(staged, Out[number // heads, first : first + tile.shape[0], number % heads, :])


def place(shape, step, number, i):
    """Returns sequence, head, and first query of step i, of a head of K by its number."""
    shared_by = shape.heads // shape.kv_heads
    head = number % shape.kv_heads * shared_by + i % shared_by
    return number // shape.kv_heads, head, i // shared_by * step


def gradients(shape, causal=False, dtype="bfloat16", tiles=None):
    """As ``dkv`` of attention_backward; also a parameter is the sum of dQ, float32 and unscaled."""
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    kept, step, threads, num_stages = tiles or Backward.default_tiles(dim)
    # In registers there is room for few dimensions, in tensor memory (of three stages) for all.
    scale, shared_by, late = 1 / math.sqrt(dim), heads // kv_heads, dim <= 64 or num_stages > 2
    group = math.gcd(kv_heads * batch, GROUP) if causal else 1

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
        blocks = T.ceildiv(keys, kept) * group, kv_heads * batch // group
        with T.Kernel(*blocks, threads=threads) as (bx, by):
            K_shared, V_shared = (T.alloc_shared((kept, d), dtype) for d in (dim, dim_v))
            Q_shared, dOut_shared = (T.alloc_shared((step, d), dtype) for d in (dim, dim_v))
            lse, sums = (T.alloc_shared((step,), "float32") for _ in range(2))
            # Transposed: rows are keys, columns are queries.
            P, dS = (T.alloc_fragment((kept, step), "float32") for _ in range(2))
            dK_sum, dV_sum = (T.alloc_fragment((kept, d), "float32") for d in (dim, dim_v))
            dQ_part = T.alloc_fragment((dim, step), "float32")
            first, number = bx // group * kept, by * group + bx % group
            start = T.max(first - (keys - queries), 0) // step * shared_by if causal else 0
            end = T.ceildiv(queries, step) * shared_by
            T.copy(K[number // kv_heads, first : first + kept, number % kv_heads, :], K_shared)
            T.copy(V[number // kv_heads, first : first + kept, number % kv_heads, :], V_shared)
            for tile in (dK_sum, dV_sum, dQ_part):
                T.clear(tile)
            for i in T.Pipelined(start, end, num_stages=num_stages):
                bz, head, row = place(shape, step, number, i)
                T.copy(Q[bz, row : row + step, head, :], Q_shared)
                T.copy(Lse[bz, head, row : row + step], lse)
                T.gemm(K_shared, Q_shared, P, transpose_B=True, clear_accum=True)
                if late:
                    add(dQ_part, dQ_sums, *place(shape, step, number, T.max(i - 1, start)))
                T.copy(dOut[bz, row : row + step, head, :], dOut_shared)
                T.copy(Delta[bz, head, row : row + step], sums)
                T.gemm(V_shared, dOut_shared, dS, transpose_B=True, clear_accum=True)
                diagonal = row + keys - queries - first
                if causal and diagonal < kept - 1:
                    hide_keys(P, diagonal)
                weights_and_gradients(P, dS, lse, sums, scale)
                multiply_all(P, dS, K_shared, Q_shared, dOut_shared, dQ_part, dK_sum, dV_sum)
                if not late:
                    add(dQ_part, dQ_sums, bz, head, row)
            if late:
                add(dQ_part, dQ_sums, *place(shape, step, number, end - 1))
            multiply(dK_sum, scale)
            store(dK_sum, K_shared, dK, first, number)
            store(dV_sum, V_shared, dV, first, number)

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

    gradients = staticmethod(gradients)

    @staticmethod
    def default_tiles(dim, target="sm_90a"):
        """Returns Tiles that registers or tensor memory have room for, ``dim`` <= 128."""
        if target.startswith("sm_100"):
            return Tiles(128, 64, 256, 3)
        return Tiles(128, 64 if dim > 64 else 128, 256, 2)

    def __init__(
        self, shape, causal=False, dtype="bfloat16", tiles=None, compile=tilelang.compile, **others
    ):
        """``compile`` is called with each prim_func, its pass options and ``others``."""
        functions = (
            attention_backward.delta(shape, dtype),
            self.gradients(shape, causal, dtype, tiles),
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
