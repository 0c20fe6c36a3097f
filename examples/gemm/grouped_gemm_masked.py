"""C[g] = A[g] @ B[g] for the first rows of each group: gemms of experts while decoding.

Every group has room for the same number of rows, of which the device knows how many are in use.
Shapes, and so the launch, do not depend on these counts: the kernel can be part of a CUDA graph. A
block whose tile has no row in use leaves at once. Rows beyond the counts are not written.

    python grouped_gemm_masked.py [--counts 100 0 129 30] [--rows 200] [--n 136] [--k 200]
                                  [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

import functools

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

#: of tables: groups, rows that each has room for, columns of B, columns of A
SHAPES = (
    (32, 256, 4096, 4096),
    (8, 512, 4096, 14336),
    (64, 128, 2816, 2048),
    (128, 64, 1536, 2048),
    (16, 1024, 4096, 7168),
)


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
    room = max(args.counts) <= args.rows
    example.require(room, f"--counts has {max(args.counts)}: give at most --rows, {args.rows}")

    def case(given, rows, n, k):
        groups = len(given)
        kernel = example.compile(grouped_gemm_masked(groups, rows, n, k, args.dtype))
        a = example.normal(groups, rows, k, dtype=args.dtype)
        b = example.normal(groups, k, n, dtype=args.dtype)
        counts = torch.tensor(given, dtype=torch.int32, device=args.device)
        c = example.output(groups, rows, n, dtype=args.dtype)
        peers = {
            "one by one": lambda: [a[g, :count] @ b[g] for g, count in enumerate(given)],
            "all rows": lambda: torch.bmm(a, b),
        }
        moved = b.element_size() * k * n * sum(count > 0 for count in given)
        run = functools.partial(kernel, a, b, counts, c)
        return Case(run, peers, moved, 2 * sum(given) * n * k), (a, b, counts), c

    def drawn(groups, rows, n, k):
        return case(torch.randint(rows + 1, (groups,)).tolist(), rows, n, k)[0]

    line, (a, b, counts), c = case(args.counts, args.rows, args.n, args.k)
    line.run()
    inside = torch.arange(args.rows, device=args.device) < counts[:, None]
    example.check("C", c[inside], (a.double() @ b.double())[inside])
    assert bool(c[~inside].isnan().all()), "rows beyond the counts were written"
    example.speed(*line)
    example.table(SHAPES, drawn)


if __name__ == "__main__":
    main()
