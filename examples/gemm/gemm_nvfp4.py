"""C = (A * scale of A) @ (B * scale of B)^T of nvfp4, mxfp4 or mxfp8: one source for all targets.

RTX 50 (sm_120a) multiplies elements and factors by mma.sync, in tiles that its 99 KiB of shared
memory hold; sm_100a by tcgen05, the factors in tensor memory. sm_90a has no such instruction:
elements times factors become operands in bfloat16 there, in the main loop, as a remark says. The
factors come in the atoms that cuBLAS takes.

    python gemm_nvfp4.py [--format nvfp4] [--m 200] [--n 256] [--k 512] [--target sm_120a]
                         [--device cpu]
"""

import tilelang.language as T
from tilelang.tools.scaled import ATOM, FORMATS, run_gemm


def gemm_nvfp4(M, N, K, form="nvfp4", block_M=128, block_N=128, threads=256, num_stages=2):
    """Returns C (M, N) bfloat16 of A (M, K), B (N, K) and their factors as a prim_func.

    Factors are (ceil(rows / 128), atoms along K, 2, 256); tiles have a multiple of 128 rows.
    """
    kind = FORMATS[form]
    block_K = 256 if kind.packed else 128  # 128 bytes
    rows_A, rows_B = block_M // ATOM, block_N // ATOM
    groups, depth = block_K // kind.depth, T.ceildiv(K, kind.depth)

    @T.prim_func
    def gemm_nvfp4(
        A: T.Tensor((M, K), kind.elements),
        B: T.Tensor((N, K), kind.elements),
        scale_A: T.Tensor((T.ceildiv(M, ATOM), depth, 2, 256), kind.factors),
        scale_B: T.Tensor((T.ceildiv(N, ATOM), depth, 2, 256), kind.factors),
        C: T.Tensor((M, N), T.bfloat16),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), kind.elements, packed=kind.packed)
            B_shared = T.alloc_shared((block_N, block_K), kind.elements, packed=kind.packed)
            factors_A = T.alloc_shared((rows_A, groups, 2, 256), kind.factors)
            factors_B = T.alloc_shared((rows_B, groups, 2, 256), kind.factors)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.copy(scale_A[by * rows_A, k * groups, 0, 0], factors_A)
                T.copy(scale_B[bx * rows_B, k * groups, 0, 0], factors_B)
                T.gemm(
                    A_shared, B_shared, C_local, transpose_B=True,
                    scale_A=factors_A, scale_B=factors_B,
                )  # fmt: skip
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm_nvfp4


if __name__ == "__main__":
    targets, formats = ("sm_90a", "sm_100a", "sm_120a"), ("nvfp4", "mxfp4", "mxfp8")
    run_gemm(__doc__, gemm_nvfp4, formats, m=200, k=512, targets=targets)
