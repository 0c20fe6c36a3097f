"""GEMM on Hopper in clusters of blocks that share their tiles of A: C = A @ B^T.

A pipeline by hand. In each block one warp loads, eight compute. The tile of A goes to all blocks of
a cluster at once; who loads it must know that its slot is free in all of them, so the consumers of
every block release it in every block. (T.Pipelined is shorter, and the L2 cache merges loads of
neighbouring blocks anyway: measure before you use this.)

    python gemm_multicast.py [--m 256] [--n 512] [--k 256] [--blocks 2] [--device cpu]
"""

import tilelang.language as T
from tilelang.tools.example import Example, Option


def gemm_multicast(
    M, N, K, blocks, block_M=128, block_N=256, block_K=64, stages=3, panel=8, dtype="bfloat16"
):
    """Returns C (M, N) = A (M, K) @ B (N, K)^T, all of ``dtype``, as a prim_func.

    ``blocks`` form a cluster along N; ``block_M``, ``block_N * blocks`` and ``block_K`` divide M, N
    and K.
    """
    everyone = (1 << blocks) - 1
    rows, across = M // block_M, N // block_N // blocks  # of clusters

    @T.prim_func
    def gemm_multicast(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(rows * across * blocks, threads=288, cluster_dims=(blocks, 1, 1)) as index:
            # Panels of some rows: clusters that run together load few different tiles.
            cluster = index // blocks
            first = cluster // (panel * across) * panel
            height = T.min(panel, rows - first)
            by = first + cluster % (panel * across) % height
            bx = cluster % (panel * across) // height * blocks + index % blocks
            a = T.alloc_shared((stages, block_M, block_K), dtype)
            b = T.alloc_shared((stages, block_N, block_K), dtype)
            c = T.alloc_fragment((block_M, block_N), "float32")
            out = T.alloc_shared((block_M, block_N), dtype)
            full = T.alloc_barrier([32] * stages)
            empty = T.alloc_cluster_barrier([256 * blocks] * stages)
            if T.get_warp_idx() == 8:
                for k in T.serial(K // block_K):
                    s = k % stages
                    T.mbarrier_wait_parity(empty[s], k // stages % 2 ^ 1)
                    row, column = by * block_M, bx * block_N
                    T.tma_copy(
                        A[row, k * block_K], a[s, :, :], barrier=full[s], cluster_mask=everyone
                    )
                    T.tma_copy(B[column, k * block_K], b[s, :, :], barrier=full[s])
                    T.mbarrier_arrive(full[s])
            else:
                T.clear(c)
                for k in T.serial(K // block_K):
                    s = k % stages
                    T.mbarrier_wait_parity(full[s], k // stages % 2)
                    T.gemm(a[s, :, :], b[s, :, :], c, transpose_B=True)
                    for rank in T.serial(blocks):
                        T.mbarrier_arrive(empty[s], rank)
                T.copy(c, out)
                T.copy(out, C[by * block_M, bx * block_N])

    return gemm_multicast


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        ("sm_90a",),
        m=Option("rows of A and C, a multiple of 128", 256, 4096),
        n=Option("rows of B, columns of C, a multiple of 256 * blocks", 512, 4096),
        k=Option("columns of A and B, a multiple of 64", 256, 4096),
        blocks=Option("of a cluster", 2),
    )
    args = example.args
    kernel = example.compile(gemm_multicast(args.m, args.n, args.k, args.blocks))
    a = example.normal(args.m, args.k, dtype="bfloat16")
    b = example.normal(args.n, args.k, dtype="bfloat16")
    c = example.output(args.m, args.n, dtype="bfloat16")
    kernel(a, b, c)
    example.check("C", c, a.double() @ b.double().T)
    flops = 2 * args.m * args.n * args.k
    example.speed(lambda: kernel(a, b, c), lambda: a @ b.T, flops=flops)


if __name__ == "__main__":
    main()
