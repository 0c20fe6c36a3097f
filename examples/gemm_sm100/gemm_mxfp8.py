"""Persistent GEMM on Blackwell of mxfp8 or mxfp6: C = (A * scale of A) @ (B * scale of B)^T.

Each 32 elements of a row share a power of two, by which the tensor core multiplies them. Those of
six bits lie in tensors without gaps, four in three bytes, and in padded tiles, into which the
tensor memory accelerator brings them: 16 in the first 12 of 16 bytes. The scale
factors come in the atoms that cuBLAS takes, 512 bytes for 128 rows and 128 columns; they are loaded
with the operands and brought to tensor memory by the warp that issues the gemms. Otherwise as
gemm_persistent.py. CPU tensors run on the emulator, CUDA tensors on a B200.

    python gemm_mxfp8.py [--format mxfp6] [--m 256] [--n 256] [--k 256]
"""

from gemm_persistent import BLOCKS

import tilelang.language as T
from tilelang.tools.scaled import ATOM, FORMATS, run_gemm


def gemm_mxfp8(
    M, N, K, form="mxfp8", block_M=128, block_N=256, blocks=BLOCKS, num_stages=4, columns=64
):
    """Returns C (M, N) of A (M, K), B (N, K) and their factors as a prim_func."""
    elements, padded = FORMATS[form].elements, FORMATS[form].packed
    tiles = (M + block_M - 1) // block_M, (N + block_N - 1) // block_N
    blocks = min(blocks, tiles[0] * tiles[1])
    rows_A, rows_B, depth = block_M // ATOM, block_N // ATOM, T.ceildiv(K, ATOM)

    @T.prim_func
    def gemm_mxfp8(
        A: T.Tensor((M, K), elements),
        B: T.Tensor((N, K), elements),
        scale_A: T.Tensor((T.ceildiv(M, ATOM), depth, 2, 256), T.float8_e8m0fnu),
        scale_B: T.Tensor((T.ceildiv(N, ATOM), depth, 2, 256), T.float8_e8m0fnu),
        C: T.Tensor((M, N), T.bfloat16),
    ):
        with T.Kernel(blocks, threads=128) as block:
            A_shared = T.alloc_shared((block_M, ATOM), elements, padded=padded)
            B_shared = T.alloc_shared((block_N, ATOM), elements, padded=padded)
            factors_A = T.alloc_shared((rows_A, 1, 2, 256), T.float8_e8m0fnu)
            factors_B = T.alloc_shared((rows_B, 1, 2, 256), T.float8_e8m0fnu)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            C_shared = T.alloc_shared((block_M, columns), T.bfloat16)

            for by, bx in T.Persistent(tiles, blocks, block):
                T.clear(C_local)
                for k in T.Pipelined(depth, num_stages=num_stages):
                    T.copy(A[by * block_M, k * ATOM], A_shared)
                    T.copy(B[bx * block_N, k * ATOM], B_shared)
                    T.copy(scale_A[by * rows_A, k, 0, 0], factors_A)
                    T.copy(scale_B[bx * rows_B, k, 0, 0], factors_B)
                    T.gemm(
                        A_shared, B_shared, C_local, transpose_B=True,
                        scale_A=factors_A, scale_B=factors_B,
                    )  # fmt: skip
                for part in T.unroll(block_N // columns):
                    T.copy(C_local[0:block_M, part * columns : (part + 1) * columns], C_shared)
                    T.copy(C_shared, C[by * block_M, bx * block_N + part * columns])

    return gemm_mxfp8


if __name__ == "__main__":
    run_gemm(__doc__, gemm_mxfp8, ("mxfp8", "mxfp6"))
