"""Persistent GEMM on Blackwell whose tiles pairs of blocks compute: C = A @ B^T.

The two blocks of a cluster take tiles one above the other. Each loads its rows of A and half of the
rows of B, and their tensor cores multiply with the whole of it (``use_2cta``): half the bytes of B
enter each multiprocessor. Otherwise as gemm_persistent.py. CPU tensors run on the emulator, CUDA
tensors on a B200.

    python gemm_persistent_pairs.py [--m 256] [--n 256] [--k 256] [--dtype bfloat16]
"""

from common import run_gemm
from gemm_persistent import BLOCKS

import tilelang.language as T


def gemm_persistent_pairs(
    M, N, K, block_M, block_N, block_K, in_dtype, out_dtype, accum_dtype, blocks=BLOCKS,
    num_stages=4, columns=64,
):  # fmt: skip
    """Returns C (M, N) = A (M, K) @ B (N, K)^T as a prim_func of at most ``blocks`` blocks.

    A pair computes a tile of 2 ``block_M`` x ``block_N`` at a time, of which ``columns`` are stored
    at a time; all of them where these do not divide it.
    """
    rows = 2 * block_M
    tiles = (M + rows - 1) // rows, (N + block_N - 1) // block_N
    columns = columns if block_N % columns == 0 else block_N
    pairs = min(blocks // 2, tiles[0] * tiles[1])

    @T.prim_func
    def gemm_persistent_pairs(
        A: T.Tensor((M, K), in_dtype),
        B: T.Tensor((N, K), in_dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(2 * pairs, threads=128, cluster_dims=2) as block:
            A_shared = T.alloc_shared((block_M, block_K), in_dtype)
            B_shared = T.alloc_shared((block_N // 2, block_K), in_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            C_shared = T.alloc_shared((block_M, columns), out_dtype)
            rank = T.block_rank_in_cluster()

            for by, bx in T.Persistent(tiles, pairs, block // 2):
                row = by * rows + rank * block_M
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[row, k * block_K], A_shared)
                    T.copy(B[bx * block_N + rank * (block_N // 2), k * block_K], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True, use_2cta=True)
                for part in T.unroll(block_N // columns):
                    T.copy(C_local[0:block_M, part * columns : (part + 1) * columns], C_shared)
                    T.copy(C_shared, C[row, bx * block_N + part * columns])

    return gemm_persistent_pairs


if __name__ == "__main__":
    run_gemm(__doc__, gemm_persistent_pairs)
