"""Persistent block-scaled GEMM on Blackwell whose tiles pairs of blocks compute.

C = (A * scale of A) @ (B * scale of B)^T of mxfp8, nvfp4 or mxfp4. The two blocks of a cluster take
tiles one above the other. Each loads its rows of A and half of the rows of B, with the factors of
its rows of A and of all rows of B. Otherwise as gemm_mxfp8.py and gemm_fp4.py. CPU tensors run on
the emulator, CUDA tensors on a B200.

    python gemm_scaled_pairs.py [--format nvfp4] [--m 512] [--n 256] [--k 512]
"""

from gemm_persistent import BLOCKS

import tilelang.language as T
from tilelang.tools.scaled import ATOM, FORMATS, run_gemm


def gemm_scaled_pairs(
    M, N, K, form="nvfp4", block_M=128, block_N=256, blocks=BLOCKS, threads=256, num_stages=5,
    columns=128,
):  # fmt: skip
    """Returns C (M, N) of A (M, K), B (N, K) and their factors as a prim_func."""
    elements, kind, packed = FORMATS[form].elements, FORMATS[form].factors, FORMATS[form].packed
    block_K = 256 if packed else 128  # 128 bytes
    rows = 2 * block_M
    tiles = (M + rows - 1) // rows, (N + block_N - 1) // block_N
    pairs = min(blocks // 2, tiles[0] * tiles[1])
    rows_A, rows_B = block_M // ATOM, block_N // ATOM
    groups, depth = block_K // FORMATS[form].depth, T.ceildiv(K, FORMATS[form].depth)

    @T.prim_func
    def gemm_scaled_pairs(
        A: T.Tensor((M, K), elements),
        B: T.Tensor((N, K), elements),
        scale_A: T.Tensor((T.ceildiv(M, ATOM), depth, 2, 256), kind),
        scale_B: T.Tensor((T.ceildiv(N, ATOM), depth, 2, 256), kind),
        C: T.Tensor((M, N), T.bfloat16),
    ):
        with T.Kernel(2 * pairs, threads=threads, cluster_dims=2) as block:
            A_shared = T.alloc_shared((block_M, block_K), elements, packed=packed)
            B_shared = T.alloc_shared((block_N // 2, block_K), elements, packed=packed)
            factors_A = T.alloc_shared((rows_A, groups, 2, 256), kind)
            factors_B = T.alloc_shared((rows_B, groups, 2, 256), kind)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            C_shared = T.alloc_shared((block_M, columns), T.bfloat16)
            rank = T.block_rank_in_cluster()

            for by, bx in T.Persistent(tiles, pairs, block // 2):
                row = by * rows + rank * block_M
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[row, k * block_K], A_shared)
                    T.copy(B[bx * block_N + rank * (block_N // 2), k * block_K], B_shared)
                    T.copy(scale_A[(by * 2 + rank) * rows_A, k * groups, 0, 0], factors_A)
                    T.copy(scale_B[bx * rows_B, k * groups, 0, 0], factors_B)
                    T.gemm(
                        A_shared, B_shared, C_local, transpose_B=True, use_2cta=True,
                        scale_A=factors_A, scale_B=factors_B,
                    )  # fmt: skip
                for part in T.unroll(block_N // columns):
                    T.copy(C_local[0:block_M, part * columns : (part + 1) * columns], C_shared)
                    T.copy(C_shared, C[row, bx * block_N + part * columns])

    return gemm_scaled_pairs


if __name__ == "__main__":
    run_gemm(__doc__, gemm_scaled_pairs, ("nvfp4", "mxfp4", "mxfp8"), m=512, k=512)
