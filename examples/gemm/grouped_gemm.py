"""C[rows of group g] = A[rows of group g] @ B[g]: gemms of different heights in one launch.

The rows of all groups lie one after the other, as tokens do that were sorted by expert. Each block
computes one tile after another, of the list of all groups' tiles, and loads for the next one while
it stores the last. It does not know the group of a tile beforehand: it goes through the groups
until it has passed as many tiles as the tile's number. Tiles that a group fills are stored by TMA,
others by threads, since the rows that follow belong to the next group.

    python grouped_gemm.py [--sizes 100 0 129 30] [--n 136] [--k 200] [--blocks 3]
                           [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

import functools

import torch

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: of tables: groups, rows of all together, columns of B, columns of A
SHAPES = (
    (8, 8192, 4096, 4096),
    (32, 16384, 2048, 1024),
    (64, 32768, 1408, 2048),
    (8, 1000, 14336, 4096),
    (128, 16384, 1536, 2048),
)


def tiles(N, target):
    """Returns tiles whose sums two warpgroups hold in registers, and that N fills."""
    return {"block_N": 256 if target == "sm_90a" and N > 128 else 128}


def grouped_gemm(
    rows, groups, N, K, dtype, blocks=132, block_M=128, block_N=128, block_K=64, threads=256
):
    """Returns C (rows, N) of A (rows, K), B (groups, K, N) and Ends (groups,) as a prim_func.

    Group g has the rows Ends[g - 1] .. Ends[g] - 1 (int32). ``blocks`` share the tiles.
    """
    columns = T.ceildiv(N, block_N)
    tiles = (rows // block_M + groups) * columns  # each group may have a row that is not full

    @T.prim_func
    def grouped_gemm(
        A: T.Tensor((rows, K), dtype),
        B: T.Tensor((groups, K, N), dtype),
        Ends: T.Tensor((groups,), "int32"),
        C: T.Tensor((rows, N), dtype),
    ):
        with T.Kernel(blocks, threads=threads) as block:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_shared = T.alloc_shared((block_M, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            group, begin, before = (T.alloc_var("int32", init=0) for _ in range(3))
            height = T.alloc_var("int32", init=T.ceildiv(Ends[0], block_M))  # in tiles

            for turn in T.serial(T.ceildiv(tiles, blocks)):
                T.assume_disjoint(C, turn)
                tile = turn * blocks + block
                while group < groups and tile >= before + height * columns:
                    before += height * columns  # the tiles of the groups before this one
                    begin = Ends[group]
                    group += 1
                    if group < groups:
                        height = T.ceildiv(Ends[group] - begin, block_M)
                if group < groups:
                    first = begin + (tile - before) % height * block_M
                    column = (tile - before) // height * block_N  # neighbours load the same of B
                    T.assume(first >= 0)
                    T.assume(column >= 0)
                    T.clear(C_local)
                    for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                        T.copy(A[first, k * block_K], A_shared)
                        T.copy(B[group, k * block_K, column], B_shared)
                        T.gemm(A_shared, B_shared, C_local)
                    T.copy(C_local, C_shared)
                    if first + block_M <= Ends[group]:
                        T.copy(C_shared, C[first, column])
                    else:
                        for i, j in T.Parallel(block_M, block_N):
                            if first + i < Ends[group]:
                                C[first + i, column + j] = C_shared[i, j]

    return grouped_gemm


def one_by_one(a, b, heights):
    """Returns C, of the type of the arguments."""
    return torch.cat([x @ y for x, y in zip(a.split(heights), b, strict=True)])


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        sizes=Option(
            "rows of each group", [100, 0, 129, 30], [3000, 1000, 2500, 500, 0, 1192], least=0
        ),
        n=Option("columns of B and C", 136, 4096),
        k=Option("columns of A, rows of B", 200, 4096),
        blocks=Option("blocks that share the tiles; 0: one a multiprocessor", 3, 0, least=0),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args
    example.require(max(args.sizes) > 0, "--sizes are all 0: give one group a row")
    blocks = args.blocks or CUDA(args.target).compute_max_core

    def case(heights, n, k):
        rows, groups = sum(heights), len(heights)
        sizes = rows, groups, n, k, args.dtype
        kernel = example.compile(grouped_gemm(*sizes, blocks, **tiles(n, args.target)))
        a = example.normal(rows, k, dtype=args.dtype)
        b = example.normal(groups, k, n, dtype=args.dtype)
        ends = torch.tensor(heights).cumsum(0).to(args.device, torch.int32)
        c = example.output(rows, n, dtype=args.dtype)
        peers = {"one by one": lambda: one_by_one(a, b, heights)}
        if args.dtype == "bfloat16":
            peers["torch"] = lambda: torch.nn.functional.grouped_mm(a, b, offs=ends)
        run = functools.partial(kernel, a, b, ends, c)
        return Case(run, peers, flops=2 * rows * n * k), (a, b), c

    def drawn(groups, rows, n, k):
        return case(torch.randint(groups, (rows,)).bincount(minlength=groups).tolist(), n, k)[0]

    line, (a, b), c = case(args.sizes, args.n, args.k)
    line.run()
    example.check("C", c, one_by_one(a.double(), b.double(), args.sizes))
    example.speed(*line)
    example.table(SHAPES, drawn)


if __name__ == "__main__":
    main()
