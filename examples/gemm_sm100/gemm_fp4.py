"""Persistent GEMM on Blackwell of nvfp4 or mxfp4: C = (A * scale of A) @ (B * scale of B)^T.

Elements of four bits (e2m1) lie two in a byte, in tensors and in shared memory. In nvfp4 each 16 of
a row share a factor, a float8_e4m3fn; in mxfp4 each 32 share a power of two. The factors come in
the atoms that cuBLAS takes, 512 bytes for 128 rows and four blocks. Otherwise as gemm_mxfp8.py. CPU
tensors run on the emulator, CUDA tensors on a B200.

    python gemm_fp4.py [--format nvfp4] [--m 256] [--n 256] [--k 512]
"""

from gemm_persistent import BLOCKS

import tilelang.language as T
from tilelang.tools.scaled import ATOM, FORMATS, run_gemm

#: columns of a tile, of 128 bytes
DEPTH = 256


def gemm_fp4(
    M, N, K, form="nvfp4", block_M=128, block_N=256, blocks=BLOCKS, num_stages=4, columns=32
):
    """Returns C (M, N) of A (M, K), B (N, K) and their factors as a prim_func."""
    tiles = (M + block_M - 1) // block_M, (N + block_N - 1) // block_N
    blocks = min(blocks, tiles[0] * tiles[1])
    rows_A, rows_B = block_M // ATOM, block_N // ATOM
    kind = FORMATS[form].factors
    # Atoms along K: of a tile, and of a tensor.
    groups, depth = DEPTH // FORMATS[form].depth, T.ceildiv(K, FORMATS[form].depth)

    @T.prim_func
    def gemm_fp4(
        A: T.Tensor((M, K), T.float4_e2m1fn),
        B: T.Tensor((N, K), T.float4_e2m1fn),
        scale_A: T.Tensor((T.ceildiv(M, ATOM), depth, 2, 256), kind),
        scale_B: T.Tensor((T.ceildiv(N, ATOM), depth, 2, 256), kind),
        C: T.Tensor((M, N), T.bfloat16),
    ):
        with T.Kernel(blocks, threads=128) as block:
            A_shared = T.alloc_shared((block_M, DEPTH), T.float4_e2m1fn, packed=True)
            B_shared = T.alloc_shared((block_N, DEPTH), T.float4_e2m1fn, packed=True)
            factors_A = T.alloc_shared((rows_A, groups, 2, 256), kind)
            factors_B = T.alloc_shared((rows_B, groups, 2, 256), kind)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            C_shared = T.alloc_shared((block_M, columns), T.bfloat16)

            for by, bx in T.Persistent(tiles, blocks, block):
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, DEPTH), num_stages=num_stages):
                    T.copy(A[by * block_M, k * DEPTH], A_shared)
                    T.copy(B[bx * block_N, k * DEPTH], B_shared)
                    T.copy(scale_A[by * rows_A, k * groups, 0, 0], factors_A)
                    T.copy(scale_B[bx * rows_B, k * groups, 0, 0], factors_B)
                    T.gemm(
                        A_shared, B_shared, C_local, transpose_B=True,
                        scale_A=factors_A, scale_B=factors_B,
                    )  # fmt: skip
                for part in T.unroll(block_N // columns):
                    T.copy(C_local[0:block_M, part * columns : (part + 1) * columns], C_shared)
                    T.copy(C_shared, C[by * block_M, bx * block_N + part * columns])

    return gemm_fp4


if __name__ == "__main__":
    run_gemm(__doc__, gemm_fp4, ("nvfp4", "mxfp4"), k=512)
