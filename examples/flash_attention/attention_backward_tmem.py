"""Gradients of attention in one pass, with scores and operands in tensor memory.

As attention_backward_added, for the tensor cores of sm_100a, with each tile and the order of a step
written out, as the compiler has it of that program, too: the threads read the scores S = K Q^T and
the gradients of P = V dO^T, whose next ones the tensor core then computes, write P and dS of step i
as operands, and the products of dV, dK and dQ follow. Meanwhile the threads add the part of dQ of
step i - 1, which they took from tensor memory before it is overwritten, to its sums.

    python attention_backward_tmem.py [--queries 256] [--keys 256] [--heads 2] [--kv_heads 1]
                        [--dim 128] [--causal] [--dtype bfloat16] [--device cpu]
"""

from __future__ import annotations

import math

import attention_backward
import attention_backward_added
from attention_backward import hide_keys, multiply, weights_and_gradients
from attention_backward_added import GROUP, add, place, store

import tilelang.language as T


@T.macro
def multiply_all(P, dS, keys, queries, d_out, dQ, dK, dV):
    """The products of weights and of gradients of scores, which have a row for each key."""
    weights, gradients = (T.alloc_fragment(P.shape, keys.dtype) for _ in range(2))
    P_tmem, dS_tmem = (T.alloc_tmem(P.shape, keys.dtype) for _ in range(2))
    dS_shared = T.alloc_shared(dS.shape, keys.dtype)
    T.copy(P, weights)
    T.copy(dS, gradients)
    T.copy(weights, P_tmem)
    T.copy(gradients, dS_tmem)
    T.copy(gradients, dS_shared)
    T.gemm(P_tmem, d_out, dV)
    T.gemm(dS_tmem, queries, dK)
    T.gemm(keys, dS_shared, dQ, transpose_A=True, clear_accum=True)


def gradients(shape, causal=False, dtype="bfloat16", tiles=None):
    """As that of attention_backward_added."""
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    kept, step, threads, num_stages = tiles or Backward.default_tiles(dim, "sm_100a")
    scale, shared_by = 1 / math.sqrt(dim), heads // kv_heads
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
            S_tmem, dP_tmem = (T.alloc_tmem((kept, step), "float32") for _ in range(2))
            P, dS = (T.alloc_fragment((kept, step), "float32") for _ in range(2))
            dK_sum, dV_sum = (T.alloc_fragment((kept, d), "float32") for d in (dim, dim_v))
            dQ_part, before = (T.alloc_fragment((dim, step), "float32") for _ in range(2))
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
                T.copy(dOut[bz, row : row + step, head, :], dOut_shared)
                T.copy(Delta[bz, head, row : row + step], sums)
                T.gemm(K_shared, Q_shared, S_tmem, transpose_B=True, clear_accum=True)
                T.gemm(V_shared, dOut_shared, dP_tmem, transpose_B=True, clear_accum=True)
                T.copy(S_tmem, P)
                T.copy(dP_tmem, dS)
                diagonal = row + keys - queries - first
                if causal and diagonal < kept - 1:
                    hide_keys(P, diagonal)
                weights_and_gradients(P, dS, lse, sums, scale)
                T.copy(dQ_part, before)
                multiply_all(P, dS, K_shared, Q_shared, dOut_shared, dQ_part, dK_sum, dV_sum)
                add(before, dQ_sums, *place(shape, step, number, T.max(i - 1, start)))
            add(dQ_part, dQ_sums, *place(shape, step, number, end - 1))
            multiply(dK_sum, scale)
            store(dK_sum, K_shared, dK, first, number)
            store(dV_sum, V_shared, dV, first, number)

    return gradients


class Backward(attention_backward_added.Backward):
    """As that of attention_backward_added, of this kernel."""

    gradients = staticmethod(gradients)


if __name__ == "__main__":
    attention_backward.main(Backward, __doc__, targets=("sm_100a",))
