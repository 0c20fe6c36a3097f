"""GEMM on Hopper in clusters of blocks that share their tiles of B: C = A @ B^T.

A pipeline by hand. In each block one warp loads, eight compute. The blocks of a cluster have tiles
of C one above the other; the tile of B goes to all of them at once. Who loads it must know that its
slot is free in all of them, so a thread of each warp that computes releases it in every block.
Clusters take one tile after another: the next ones load while the last ones are stored.
(T.Pipelined is shorter, and the L2 cache merges loads of neighbouring blocks anyway: measure before
you use this.)

    python gemm_multicast.py [--m 512] [--n 512] [--k 256] [--blocks 2] [--grid 4]
                             [--device cpu]
"""

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: rows and columns of a block's tile of C, columns of its tiles of A
TILE_M, TILE_N, TILE_K = 128, 256, 64

#: of tables: rows of A, rows of B, columns of both
SHAPES = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 14336, 4096),
    (2048, 8192, 8192),
    (16384, 4096, 1024),
)


def gemm_multicast(
    M, N, K, blocks, grid=132, block_M=TILE_M, block_N=TILE_N, block_K=TILE_K, stages=4, group=8,
    columns=64, dtype="bfloat16",
):  # fmt: skip
    """Returns C (M, N) = A (M, K) @ B (N, K)^T, all of ``dtype``, as a prim_func.

    ``blocks`` form a cluster along M; ``block_M * blocks``, ``block_N`` and ``block_K`` divide M, N
    and K. ``grid`` blocks are a multiple of it. ``group`` rows of clusters are walked through
    together, so that the L2 cache serves them. Results are stored ``columns`` at a time, which
    leaves room for stages.
    """
    everyone, steps = (1 << blocks) - 1, K // block_K
    domain = M // block_M // blocks, N // block_N  # of clusters

    @T.prim_func
    def gemm_multicast(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(grid, threads=384, cluster_dims=blocks) as index:
            a = T.alloc_shared((stages, block_M, block_K), dtype)
            b = T.alloc_shared((stages, block_N, block_K), dtype)
            c = T.alloc_fragment((block_M, block_N), "float32")
            out = T.alloc_shared((block_M, columns), dtype)
            full = T.alloc_barrier([32] * stages)
            empty = T.alloc_cluster_barrier([8 * blocks] * stages)  # warps that compute
            use = T.alloc_var("int32", init=0)  # of slots
            cluster, rank = index // blocks, index % blocks
            if T.get_thread_binding() >= 256:
                T.set_max_nreg(40, 0)
                if T.get_warp_idx() == 8:
                    for by, bx in T.Persistent(domain, grid // blocks, cluster, group):
                        for k in T.serial(steps):
                            s, row = use % stages, (by * blocks + rank) * block_M
                            T.mbarrier_wait_parity(empty[s], use // stages % 2 ^ 1)
                            T.tma_copy(A[row, k * block_K], a[s, :, :], barrier=full[s])
                            T.tma_copy(
                                B[bx * block_N, k * block_K], b[s, :, :], barrier=full[s],
                                cluster_mask=everyone,
                            )  # fmt: skip
                            T.mbarrier_arrive(full[s])
                            use += 1
            else:
                T.set_max_nreg(232, 1)
                for by, bx in T.Persistent(domain, grid // blocks, cluster, group):
                    T.clear(c)
                    for _ in T.serial(steps):
                        s = use % stages
                        T.mbarrier_wait_parity(full[s], use // stages % 2)
                        T.gemm(a[s, :, :], b[s, :, :], c, transpose_B=True)
                        if T.get_lane_idx() == 0:
                            for other in T.serial(blocks):
                                T.mbarrier_arrive(empty[s], other)
                        use += 1
                    for part in list(range(0, block_N, columns)):
                        T.copy(c[:, part : part + columns], out)
                        T.copy(out, C[(by * blocks + rank) * block_M, bx * block_N + part])

    return gemm_multicast


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        ("sm_90a",),
        m=Option(f"rows of A and C, a multiple of {TILE_M} * blocks", 512, 4096),
        n=Option("rows of B, columns of C", 512, 4096, multiple=TILE_N),
        k=Option("columns of A and B", 256, 4096, multiple=TILE_K),
        blocks=Option("of a cluster", 2, least=2, most=8),
        grid=Option("blocks of the grid, a multiple; 0: one a multiprocessor", 4, 0, least=0),
    )
    args = example.args
    rows = TILE_M * args.blocks
    example.require(args.m % rows == 0, f"--m is {args.m}: give a multiple of {rows}")
    whole = args.grid % args.blocks == 0
    example.require(whole, f"--grid is {args.grid}: give a multiple of --blocks, {args.blocks}")
    grid = args.grid or CUDA(args.target).compute_max_core // args.blocks * args.blocks

    def case(m, n, k):
        kernel = example.compile(gemm_multicast(m, n, k, args.blocks, grid))
        a, b = example.normal(m, k, dtype="bfloat16"), example.normal(n, k, dtype="bfloat16")
        c = example.output(m, n, dtype="bfloat16")
        peers = {"cuBLAS": lambda: a @ b.T}
        return Case(lambda: kernel(a, b, c), peers, flops=2 * m * n * k), a, b, c

    line, a, b, c = case(args.m, args.n, args.k)
    line.run()
    example.check("C", c, a.double() @ b.double().T)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
