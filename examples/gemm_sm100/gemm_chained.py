"""Two GEMMs on Blackwell with the matrix between them in tensor memory: C = (A @ B1) @ B2.

The skeleton of flash attention: S = A @ B1 accumulates as float32 in tensor memory, is loaded
(tcgen05.ld), rounded to the element type in registers and stored packed (tcgen05.st); the second
gemm reads it from there as its A operand (TS).

    python gemm_chained.py [--m 256] [--k 128] [--s 128] [--n 64] [--dtype bfloat16]
"""

import torch
from common import parse_arguments, random_matrix, run_and_check

import tilelang
import tilelang.language as T


def gemm_chained(M, K, S, N, block_M, in_dtype, out_dtype, accum_dtype, threads=128):
    """Returns C (M, N) = (A (M, K) @ B1 (K, S)) @ B2 (S, N) as a prim_func."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), in_dtype),
        B1: T.Tensor((K, S), in_dtype),
        B2: T.Tensor((S, N), in_dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
            A_shared = T.alloc_shared((block_M, K), in_dtype)
            B1_shared = T.alloc_shared((K, S), in_dtype)
            B2_shared = T.alloc_shared((S, N), in_dtype)
            S_tmem = T.alloc_tmem([block_M, S], accum_dtype)
            S_local = T.alloc_fragment((block_M, S), accum_dtype)
            P_local = T.alloc_fragment((block_M, S), in_dtype)
            P_tmem = T.alloc_tmem([block_M, S], in_dtype)
            C_tmem = T.alloc_tmem([block_M, N], accum_dtype)

            T.copy(A[by * block_M, 0], A_shared)
            T.copy(B1, B1_shared)
            T.copy(B2, B2_shared)
            T.gemm(A_shared, B1_shared, S_tmem, clear_accum=True)  # SS
            T.copy(S_tmem, S_local)  # tcgen05.ld
            for i, j in T.Parallel(block_M, S):
                P_local[i, j] = T.cast(S_local[i, j], in_dtype)
            T.copy(P_local, P_tmem)  # tcgen05.st
            T.gemm(P_tmem, B2_shared, C_tmem, clear_accum=True)  # TS
            T.copy(C_tmem, C[by * block_M, 0])

    return main


def main():
    """Compiles, runs and checks the kernel."""
    dtypes = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
    args = parse_arguments(__doc__, dtypes, m=256, k=128, s=128, n=64)
    function = gemm_chained(
        args.m, args.k, args.s, args.n, 128, args.dtype, args.out_dtype, args.accum_dtype
    )
    kernel = tilelang.compile(function, target=args.target)
    a = random_matrix(args.m, args.k, args)
    b1 = random_matrix(args.k, args.s, args)
    b2 = random_matrix(args.s, args.n, args)
    between = (a.cpu().double() @ b1.cpu().double()).to(getattr(torch, args.dtype))
    run_and_check(kernel, (a, b1, b2), between.double() @ b2.cpu().double(), args)


if __name__ == "__main__":
    main()
