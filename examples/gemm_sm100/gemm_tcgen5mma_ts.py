"""GEMM on Blackwell with A in tensor memory (TS): C = A @ B^T.

A goes global -> shared -> registers -> tensor memory (tcgen05.st); tcgen05.mma then reads A from
tensor memory and B from shared memory. CPU tensors run on the emulator, CUDA tensors on a B200.

    python gemm_tcgen5mma_ts.py [--m 256] [--n 256] [--k 256] [--dtype bfloat16]
"""

from common import run_gemm

import tilelang.language as T


def gemm_ts(M, N, K, block_M, block_N, block_K, in_dtype, out_dtype, accum_dtype, threads=128):
    """Returns C (M, N) = A (M, K) @ B (N, K)^T as a prim_func."""

    @T.prim_func
    def gemm_ts(
        A: T.Tensor((M, K), in_dtype),
        B: T.Tensor((N, K), in_dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), in_dtype)
            A_local = T.alloc_fragment((block_M, block_K), in_dtype)
            A_tmem = T.alloc_tmem([block_M, block_K], in_dtype)
            B_shared = T.alloc_shared((block_N, block_K), in_dtype)
            C_tmem = T.alloc_tmem([block_M, block_N], accum_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            mbar = T.alloc_barrier(1)

            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(A_shared, A_local)
                T.copy(A_local, A_tmem)  # tcgen05.st
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_tmem, B_shared, C_tmem, transpose_B=True, mbar=mbar, clear_accum=(k == 0))
                T.mbarrier_wait_parity(mbar, k % 2)

            T.copy(C_tmem, C_local)  # tcgen05.ld
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm_ts


if __name__ == "__main__":
    run_gemm(__doc__, gemm_ts)
