"""Persistent GEMM on Blackwell, from plain tile operators: C = A @ B^T.

As many blocks as the GPU has multiprocessors take tile after tile. The compiler makes roles of the
program: one warp loads tiles ahead, one issues the gemms, and the threads of the program store a
result while the next one accumulates beside it in tensor memory. A result leaves through shared
memory some columns at a time, which leaves room for another stage of the operands. CPU tensors run
on the emulator, CUDA tensors on a B200.

    python gemm_persistent.py [--m 256] [--n 256] [--k 256] [--dtype bfloat16]
"""

from common import run_gemm

import tilelang.language as T

#: multiprocessors of a B200
BLOCKS = 148


def gemm_persistent(
    M, N, K, block_M, block_N, block_K, in_dtype, out_dtype, accum_dtype, blocks=BLOCKS,
    num_stages=4, columns=128,
):  # fmt: skip
    """Returns C (M, N) = A (M, K) @ B (N, K)^T as a prim_func of at most ``blocks`` blocks.

    ``columns`` of a tile of C are stored at a time; all of them where these do not divide it.
    """
    tiles = (M + block_M - 1) // block_M, (N + block_N - 1) // block_N
    columns = columns if block_N % columns == 0 else block_N
    blocks = min(blocks, tiles[0] * tiles[1])

    @T.prim_func
    def gemm_persistent(
        A: T.Tensor((M, K), in_dtype),
        B: T.Tensor((N, K), in_dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(blocks, threads=128) as block:
            A_shared = T.alloc_shared((block_M, block_K), in_dtype)
            B_shared = T.alloc_shared((block_N, block_K), in_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            C_shared = T.alloc_shared((block_M, columns), out_dtype)

            for by, bx in T.Persistent(tiles, blocks, block):
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                for part in T.unroll(block_N // columns):
                    T.copy(C_local[0:block_M, part * columns : (part + 1) * columns], C_shared)
                    T.copy(C_shared, C[by * block_M, bx * block_N + part * columns])

    return gemm_persistent


if __name__ == "__main__":
    run_gemm(__doc__, gemm_persistent)
