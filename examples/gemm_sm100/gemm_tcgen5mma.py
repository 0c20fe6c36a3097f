"""GEMM on Blackwell with both operands in shared memory (SS): C = A @ B^T.

The gemm accumulates in tensor memory; with no barrier given, the compiler waits where the
result is used. CPU tensors run on the emulator, CUDA tensors on a B200.

    python gemm_tcgen5mma.py [--m 256] [--n 256] [--k 256] [--dtype bfloat16]
"""

from common import run_gemm

import tilelang.language as T


def gemm_ss(M, N, K, block_M, block_N, block_K, in_dtype, out_dtype, accum_dtype, threads=128):
    """Returns C (M, N) = A (M, K) @ B (N, K)^T as a prim_func."""

    @T.prim_func
    def gemm_ss(
        A: T.Tensor((M, K), in_dtype),
        B: T.Tensor((N, K), in_dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), in_dtype)
            B_shared = T.alloc_shared((block_N, block_K), in_dtype)
            C_tmem = T.alloc_tmem([block_M, block_N], accum_dtype)

            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_tmem, transpose_B=True, clear_accum=(k == 0))

            T.copy(C_tmem, C[by * block_M, bx * block_N])

    return gemm_ss


if __name__ == "__main__":
    run_gemm(__doc__, gemm_ss)
