"""The GEMM of this compiler, for benchmarks: plain tile operators, sizes as arguments."""

from __future__ import annotations

import tilelang
import tilelang.language as T


@tilelang.jit
def tiled_gemm(M, N, K, m=128, n=256, k=64, threads=256, stages=3, panel=12, dtype="bfloat16"):
    """One tile of C a block; the result leaves through shared memory."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=threads) as (bx, by):
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((n, k), dtype)
            c = T.alloc_fragment((m, n), "float32")
            out = T.alloc_shared((m, n), dtype)
            T.use_swizzle(panel)
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                T.copy(A[by * m, i * k], a)
                T.copy(B[bx * n, i * k], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, out)
            T.copy(out, C[by * m, bx * n])

    return main


@tilelang.jit
def persistent_gemm(
    M, N, K, m=128, n=256, k=64, threads=256, stages=3, group=12, blocks=132, dtype="bfloat16"
):
    """A block a multiprocessor, each with several tiles of C; loads run ahead into the next one."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(blocks, threads=threads) as block:
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((n, k), dtype)
            c = T.alloc_fragment((m, n), "float32")
            out = T.alloc_shared((m, n), dtype)
            tiles = [T.ceildiv(M, m), T.ceildiv(N, n)]
            for by, bx in T.Persistent(tiles, blocks, block, group_size=group):
                T.clear(c)
                for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                    T.copy(A[by * m, i * k], a)
                    T.copy(B[bx * n, i * k], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, out)
                T.copy(out, C[by * m, bx * n])

    return main
