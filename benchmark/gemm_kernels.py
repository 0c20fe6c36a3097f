"""The GEMM of this compiler, for benchmarks: plain tile operators, sizes as arguments.

C (M, N) = A B. ``order`` says how A and B are stored, as BLAS names it: N for as written, A (M, K)
or B (K, N), and T for transposed, A (K, M) or B (N, K). ``k`` is the extent of a tile along K,
128 bytes where it is not given. ``staged`` sends the result through shared memory, as a whole or so
many columns at a time. ``panel`` is that of T.use_swizzle, 0 for none. ``turning`` walks about
every other tile of a block backwards along K, which begins with what the L2 cache still holds, and
adds up in another order.
"""

from __future__ import annotations

import tilelang
import tilelang.language as T


def _at(order, row, column):
    """Indices of a corner in a matrix stored as written (N) or transposed (T)."""
    return (column, row) if order == "T" else (row, column)


def _bytes_of_k(dtype, size=128):
    return size * 8 // T.dtype(dtype).bits


@tilelang.jit
def tiled_gemm(
    M, N, K, m=128, n=256, k=None, threads=256, stages=3, panel=12,
    dtype="bfloat16", out_dtype=None, sums="float32", order="NT", staged=True,
):  # fmt: skip
    """One tile of C a block."""
    (ta, tb), k, out_dtype = order, k or _bytes_of_k(dtype), out_dtype or dtype

    @T.prim_func
    def main(
        A: T.Tensor(_at(ta, M, K), dtype),
        B: T.Tensor(_at(tb, K, N), dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=threads) as (bx, by):
            a = T.alloc_shared(_at(ta, m, k), dtype)
            b = T.alloc_shared(_at(tb, k, n), dtype)
            c = T.alloc_fragment((m, n), sums)
            if panel:
                T.use_swizzle(panel)
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                T.copy(A[_at(ta, by * m, i * k)], a)
                T.copy(B[_at(tb, i * k, bx * n)], b)
                T.gemm(a, b, c, transpose_A=ta == "T", transpose_B=tb == "T")
            if staged:
                out = T.alloc_shared((m, n), out_dtype)
                T.copy(c, out)
                T.copy(out, C[by * m, bx * n])
            else:
                T.copy(c, C[by * m, bx * n])

    return main


@tilelang.jit
def persistent_gemm(
    M, N, K, m=128, n=256, k=None, threads=256, stages=3, group=12, blocks=132, turning=False,
    dtype="bfloat16", out_dtype=None, sums="float32", order="NT", staged=True,
):  # fmt: skip
    """A block a multiprocessor, each with several tiles of C; loads run ahead into the next one."""
    (ta, tb), k, out_dtype = order, k or _bytes_of_k(dtype), out_dtype or dtype

    @T.prim_func
    def main(
        A: T.Tensor(_at(ta, M, K), dtype),
        B: T.Tensor(_at(tb, K, N), dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(blocks, threads=threads) as block:
            a = T.alloc_shared(_at(ta, m, k), dtype)
            b = T.alloc_shared(_at(tb, k, n), dtype)
            c = T.alloc_fragment((m, n), sums)
            columns = n if staged is True else staged
            out = T.alloc_shared((m, columns), out_dtype) if staged else None
            tiles = [T.ceildiv(M, m), T.ceildiv(N, n)]
            steps = T.ceildiv(K, k)
            for by, bx in T.Persistent(tiles, blocks, block, group_size=group):
                back = turning and bx * group // blocks % 2 == 1
                T.clear(c)
                for step in T.Pipelined(steps, num_stages=stages):
                    i = T.if_then_else(back, steps - 1 - step, step) if turning else step
                    T.copy(A[_at(ta, by * m, i * k)], a)
                    T.copy(B[_at(tb, i * k, bx * n)], b)
                    T.gemm(a, b, c, transpose_A=ta == "T", transpose_B=tb == "T")
                if staged is True:
                    T.copy(c, out)
                    T.copy(out, C[by * m, bx * n])
                elif staged:
                    for first in T.unroll(0, n, columns):
                        T.copy(c[:, first : first + columns], out)
                        T.copy(out, C[by * m, bx * n + first])
                else:
                    T.copy(c, C[by * m, bx * n])

    return main
