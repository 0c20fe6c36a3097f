"""C = A @ B by blocks that all work equally long, whatever the number of tiles: stream-K.

With 156 tiles and 132 multiprocessors the last 24 tiles take as long as the first 132. Here the
steps along K of the tiles that fill no whole wave, and of one wave more, are one list, of which
each block takes an equal part. A tile that is divided is stored by the block that has its last
steps; the others leave their sums in memory. Blocks walk backwards through their part, so that what
they leave for the next block they compute first, and what they wait for last. As each of them waits
for blocks before it alone, they all must run at once, or begin in order.

To leave sums and to add them up takes time, too: where waves of whole tiles are estimated to take
no longer, no steps are shared.

    python gemm_stream_k.py [--m 200] [--n 264] [--k 520] [--blocks 5] [--shared 4]
                            [--dtype float16] [--target sm_90a] [--device cpu]
"""

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: of tables: rows of A, columns of B, columns of A
SHAPES = (
    (1536, 1664, 8192),
    (1792, 1792, 4096),
    (1408, 3328, 4096),
    (2560, 2560, 8192),
    (3000, 1500, 4096),
)

#: clocks of a step of 128 rows, by columns, and of a column's sums to leave and to add (H200)
STEP = {256: 1024, 192: 790, 128: 620}
EXCHANGE = 100


def tiles(M, N, K, blocks, target):
    """Returns a tile's columns, stages and how many tiles are shared, as keywords.

    The columns are those of which the shorter of both ways is estimated to be shortest.
    """
    if target != "sm_90a":
        stages = 3 if CUDA(target).target.has_tcgen05 else 2
        return {"block_N": 128, "num_stages": stages}
    steps, ways = -(-K // 64), []
    for columns in [128] if N <= 128 or M <= 128 else [256, 192]:
        count, clocks = -(-M // 128) * -(-N // columns), steps * STEP[columns]
        stages = 3 if columns == 256 else 4
        ways.append((-(-count // blocks) * clocks, {"shared": 0}, columns, stages))
        shared = count * clocks / blocks + EXCHANGE * columns
        ways.append((shared, {}, columns, stages))
    _, way, columns, stages = min(ways, key=lambda way: way[0])
    return {**way, "block_N": columns, "num_stages": stages}


def shared_tiles(count, blocks):
    """Returns how many tiles fill no whole wave, and one wave more."""
    return count - max(0, count // blocks - (count % blocks > 0)) * blocks


def gemm_stream_k(
    M, N, K, blocks, dtype, block_M=128, block_N=128, block_K=64, num_stages=3, shared=None,
    group=12,
):  # fmt: skip
    """Returns C (M, N) = A (M, K) @ B (K, N) of ``dtype`` as a prim_func; sums are float32.

    The steps of the first ``shared`` tiles are one list; by default those of ``shared_tiles``.
    ``group`` rows of tiles are walked through together, so that the L2 cache serves them.
    """
    threads, steps = 256, -(-K // block_K)
    rows, columns = -(-M // block_M), -(-N // block_N)
    shared = shared_tiles(rows * columns, blocks) if shared is None else shared
    total, share = shared * steps, max(1, -(-shared * steps // blocks))  # steps; of a block
    octets = blocks, block_M // 8, block_N // 8, 8, 8  # what a warp has side by side

    @T.prim_func
    def gemm_stream_k(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        left = T.alloc_global((blocks, threads), "int32", zeroed=True)
        sums = T.alloc_global(octets, "float32")
        with T.Kernel(blocks, threads=threads) as block:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_shared = T.alloc_shared((block_M, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            step = T.alloc_var("int32")  # the end of what is to do of the list
            next_tile = T.alloc_var("int32", init=shared + block)  # of whole ones

            begin = T.min(block * share, total)
            step = T.min(begin + share, total)
            while step > begin or next_tile < rows * columns:
                whole = step <= begin
                tile = T.if_then_else(whole, next_tile, T.max(step - 1, 0) // steps)
                last = T.if_then_else(whole, steps, step - tile * steps)
                first = T.if_then_else(whole, 0, T.max(begin - tile * steps, 0))
                by, bx = place_of(tile, rows, columns, group)
                row, column = by * block_M, bx * block_N
                T.assume(row >= 0)
                T.assume(column >= 0)
                T.clear(C_local)
                for k in T.Pipelined(last - first, num_stages=num_stages):
                    T.copy(A[row, (first + k) * block_K], A_shared)
                    T.copy(B[(first + k) * block_K, column], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                if last < steps:
                    for i, j in T.Parallel(block_M, block_N):
                        sums[block, i // 8, j // 8, i % 8, j % 8] = C_local[i, j]
                    T.atomic_store(left[block, T.get_thread_binding()], 1, "release")
                else:
                    if first > 0:
                        add_others(C_local, sums, left, tile * steps // share, block)
                    T.copy(C_local, C_shared)
                    T.copy(C_shared, C[row, column])
                next_tile += T.if_then_else(whole, blocks, 0)
                step -= T.if_then_else(whole, 0, last - first)

    return gemm_stream_k


def place_of(tile, rows, columns, group):
    """Returns the row and the column of a tile, of which ``group`` rows come column by column."""
    panel, place = tile // (group * columns), tile % (group * columns)
    height = T.min(group, rows - panel * group)
    return panel * group + place % height, place // height


@T.macro
def add_others(C_local, sums, left, begin, end):
    """Adds what blocks ``begin`` to ``end`` - 1 have left of the tile."""
    for other in T.serial(begin, end):
        take(left, other)
        for i, j in T.Parallel(*C_local.shape):
            C_local[i, j] += sums[other, i // 8, j // 8, i % 8, j % 8]


@T.macro
def take(left, other):
    """Waits for what the same thread of another block has left; the flag is zero again."""
    thread, found = T.get_thread_binding(), T.alloc_var("int32", init=0)
    while found == 0:
        found = T.atomic_load(left[other, thread], "acquire")
    T.atomic_store(left[other, thread], 0, "relaxed")  # for the next launch


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        m=Option("rows of A and C", 200, 1536),
        n=Option("columns of B and C", 264, 1664),
        k=Option("columns of A, rows of B", 520, 8192),
        blocks=Option("blocks: as many as run at a time, one a multiprocessor", 5, 132),
        shared=Option("tiles whose steps are shared; -1: as estimated", 4, -1, least=-1),
        dtype=Option("element type of A, B and C", "float16", choices=("float16", "bfloat16")),
    )
    args = example.args
    columns = tiles(args.m, args.n, args.k, args.blocks, args.target)["block_N"]
    most = -(-args.m // 128) * -(-args.n // columns)
    example.require(
        args.shared <= most, f"--shared is {args.shared}: give at most the {most} tiles"
    )

    def case(m, n, k, shared=-1):
        own = tiles(m, n, k, args.blocks, args.target)
        if shared >= 0:
            own["shared"] = shared
        kernel = example.compile(gemm_stream_k(m, n, k, args.blocks, args.dtype, **own))
        a, b = example.normal(m, k, dtype=args.dtype), example.normal(k, n, dtype=args.dtype)
        c = example.output(m, n, dtype=args.dtype)
        return (
            Case(lambda: kernel(a, b, c), {"cuBLAS": lambda: a @ b}, flops=2 * m * n * k),
            a,
            b,
            c,
        )

    line, a, b, c = case(args.m, args.n, args.k, args.shared)
    line.run()
    example.check("C", c, a.double() @ b.double())
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
