"""C[rows of group g] = A[rows of group g] @ B[g]: gemms of different heights in one launch.

The rows of all groups lie one after the other, as tokens do that were sorted by expert. A block
does not know its group beforehand: it goes through the groups until it has passed as many tiles as
its index. The grid is large enough whatever the sizes; blocks that find no tile have nothing to
do.

    python grouped_gemm.py [--sizes 100 0 129 30] [--n 136] [--k 200] [--dtype bfloat16]
                           [--target sm_90a] [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Example, Option


def tiles(N, target):
    """Returns tiles whose sums two warpgroups hold in registers, and that N fills."""
    return {"block_N": 256 if target == "sm_90a" and N > 128 else 128}


def grouped_gemm(rows, groups, N, K, dtype, block_M=128, block_N=128, block_K=64, threads=256):
    """Returns C (rows, N) of A (rows, K), B (groups, K, N) and Ends (groups,) as a prim_func.

    Group g has the rows Ends[g - 1] .. Ends[g] - 1 (int32).
    """
    tiles = rows // block_M + groups  # each group may have one that is not full

    @T.prim_func
    def grouped_gemm(
        A: T.Tensor((rows, K), dtype),
        B: T.Tensor((groups, K, N), dtype),
        Ends: T.Tensor((groups,), "int32"),
        C: T.Tensor((rows, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), tiles, threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_shared = T.alloc_shared((block_M, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            group, first, end = (T.alloc_var("int32", init=-1) for _ in range(3))
            begin, before = (T.alloc_var("int32", init=0) for _ in range(2))

            for g in T.serial(groups):  # ``before``: the tiles of the groups before g
                inside = by - before
                if (inside >= 0) & (inside < T.ceildiv(Ends[g] - begin, block_M)):
                    group, first, end = g, begin + inside * block_M, Ends[g]
                before += T.ceildiv(Ends[g] - begin, block_M)
                begin = Ends[g]

            if group >= 0:
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                    T.copy(A[first, k * block_K], A_shared)
                    T.copy(B[group, k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                T.copy(C_local, C_shared)
                if first + block_M <= end:
                    T.copy(C_shared, C[first, bx * block_N])
                else:
                    for i, j in T.Parallel(block_M, block_N):
                        if first + i < end:  # what follows belongs to the next group
                            C[first + i, bx * block_N + j] = C_shared[i, j]

    return grouped_gemm


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        sizes=Option("rows of each group", [100, 0, 129, 30], [3000, 1000, 2500, 500, 0, 1192]),
        n=Option("columns of B and C", 136, 4096),
        k=Option("columns of A, rows of B", 200, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args
    rows, groups = sum(args.sizes), len(args.sizes)
    sizes = rows, groups, args.n, args.k, args.dtype
    kernel = example.compile(grouped_gemm(*sizes, **tiles(args.n, args.target)))
    a = example.normal(rows, args.k, dtype=args.dtype)
    b = example.normal(groups, args.k, args.n, dtype=args.dtype)
    ends = torch.tensor(args.sizes).cumsum(0).to(args.device, torch.int32)
    c = example.output(rows, args.n, dtype=args.dtype)
    kernel(a, b, ends, c)

    def one_by_one(a, b):
        return torch.cat([x @ y for x, y in zip(a.split(args.sizes), b, strict=True)])

    example.check("C", c, one_by_one(a.double(), b.double()))
    peers = {"one by one": lambda: one_by_one(a, b)}
    if args.dtype == "bfloat16":
        peers["torch"] = lambda: torch.nn.functional.grouped_mm(a, b, offs=ends)
    example.speed(lambda: kernel(a, b, ends, c), peers, flops=2 * rows * args.n * args.k)


if __name__ == "__main__":
    main()
