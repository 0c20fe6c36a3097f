"""C[g] = A[g] @ B[g] for the first rows of each group: gemms of experts while decoding.

Every group has room for the same number of rows, of which the device knows how many are in use.
Shapes, and so the launch, do not depend on these counts: the kernel can be part of a CUDA graph. A
block whose tile has no row in use leaves at once. Rows beyond the counts are not written.

    python grouped_gemm_masked.py [--counts 100 0 129 30] [--rows 200] [--n 136] [--k 200]
                                  [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Example, Option


def grouped_gemm_masked(
    groups, rows, N, K, dtype, block_M=64, block_N=128, block_K=64, threads=128, num_stages=4
):
    """Returns C (groups, rows, N) of A (groups, rows, K), B (groups, K, N), Counts as a prim_func.

    Group g has Counts[g] rows (int32, up to ``rows``).
    """

    @T.prim_func
    def grouped_gemm_masked(
        A: T.Tensor((groups, rows, K), dtype),
        B: T.Tensor((groups, K, N), dtype),
        Counts: T.Tensor((groups,), "int32"),
        C: T.Tensor((groups, rows, N), dtype),
    ):
        grid = T.ceildiv(N, block_N), T.ceildiv(rows, block_M), groups
        with T.Kernel(*grid, threads=threads) as (bx, by, g):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            count = Counts[g] - by * block_M  # rows of the tile
            if count > 0:
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[g, by * block_M, k * block_K], A_shared)
                    T.copy(B[g, k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                for i, j in T.Parallel(block_M, block_N):
                    if i < count:
                        C[g, by * block_M + i, bx * block_N + j] = C_local[i, j]

    return grouped_gemm_masked


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        counts=Option("rows in use of each group", [100, 0, 129, 30], [13, 64, 40, 0] * 8, least=0),
        rows=Option("rows that a group has room for", 200, 256),
        n=Option("columns of B and C", 136, 4096),
        k=Option("columns of A, rows of B", 200, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args
    groups = len(args.counts)
    kernel = example.compile(grouped_gemm_masked(groups, args.rows, args.n, args.k, args.dtype))
    a = example.normal(groups, args.rows, args.k, dtype=args.dtype)
    b = example.normal(groups, args.k, args.n, dtype=args.dtype)
    counts = torch.tensor(args.counts, dtype=torch.int32, device=args.device)
    c = example.output(groups, args.rows, args.n, dtype=args.dtype)
    kernel(a, b, counts, c)
    inside = torch.arange(args.rows, device=args.device) < counts[:, None]
    example.check("C", c[inside], (a.double() @ b.double())[inside])
    assert bool(c[~inside].isnan().all()), "rows beyond the counts were written"

    def one_by_one():
        return [a[g, :count] @ b[g] for g, count in enumerate(args.counts)]

    peers = {"one by one": one_by_one, "all rows": lambda: torch.bmm(a, b)}
    flops = 2 * sum(args.counts) * args.n * args.k
    moved = b.element_size() * args.k * args.n * sum(count > 0 for count in args.counts)
    example.speed(lambda: kernel(a, b, counts, c), peers, moved=moved, flops=flops)


if __name__ == "__main__":
    main()
