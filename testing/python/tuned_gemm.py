"""A gemm whose tiles are chosen, and the function that returns it."""

import tilelang
import tilelang.language as T


def product_of(M, N, K, m, n, k, stages, threads):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=threads) as (bx, by):
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((k, n), "float16")
            c = T.alloc_fragment((m, n), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                T.copy(A[by * m, i * k], a)
                T.copy(B[i * k, bx * n], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * m, bx * n])

    return main


@tilelang.autotune
@tilelang.jit(target="sm_90a")
def gemm(M, N, K, block_M=64, BN=64, tile_k=32, num_stages=2, threads=128):
    return product_of(M, N, K, block_M, BN, tile_k, num_stages, threads)
