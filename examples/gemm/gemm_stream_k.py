"""C = A @ B by blocks that all work equally long, whatever the number of tiles: stream-K.

With 156 tiles and 132 multiprocessors the last 24 tiles take as long as the first 132. Here the
steps along K of all tiles are one list, and each block takes an equal part of it. A block that
gets a whole tile stores it; of a tile that is divided, blocks add their sums up in C, which begins
as zeros.

    python gemm_stream_k.py [--m 200] [--n 264] [--k 520] [--blocks 5] [--dtype float16]
                            [--target sm_90a] [--device cpu]
"""

from gemm_split_k import run_adding

import tilelang.language as T
from tilelang.tools.example import Example, Option


def gemm_stream_k(M, N, K, blocks, dtype, block_M=128, block_N=128, block_K=64, threads=128):
    """Returns C (M, N) float32 += A (M, K) @ B (K, N) of ``dtype`` as a prim_func."""
    columns, steps = -(-N // block_N), -(-K // block_K)
    total = -(-M // block_M) * columns * steps
    share = -(-total // blocks)  # steps of a block

    @T.prim_func
    def gemm_stream_k(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(blocks, threads=threads) as block:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            step = T.alloc_var("int32")  # the next one, counted through all tiles

            step = block * share
            end = T.min(step + share, total)
            while step < end:
                tile, first = step // steps, step % steps
                last = T.min(first + end - step, steps)  # of this tile, exclusive
                row, column = tile // columns * block_M, tile % columns * block_N
                T.clear(C_local)
                for k in T.Pipelined(last - first, num_stages=3):
                    T.copy(A[row, (first + k) * block_K], A_shared)
                    T.copy(B[(first + k) * block_K, column], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                if last - first == steps:
                    T.copy(C_local, C[row, column])
                else:
                    T.atomic_add(C[row, column], C_local)
                step += last - first

    return gemm_stream_k


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        m=Option("rows of A and C", 200, 1536),
        n=Option("columns of B and C", 264, 1664),
        k=Option("columns of A, rows of B", 520, 8192),
        blocks=Option("blocks: as many as run at a time, two a multiprocessor", 5, 264),
        dtype=Option("element type of A and B", "float16", choices=("float16", "bfloat16")),
    )
    args = example.args
    kernel = example.compile(gemm_stream_k(args.m, args.n, args.k, args.blocks, args.dtype))
    run_adding(example, kernel)


if __name__ == "__main__":
    main()
