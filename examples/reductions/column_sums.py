"""The sum of each column of a matrix of any size.

Blocks share the columns, and each part of the columns is shared by blocks that take some of the
rows: reducers of the grid add up their sums, by whichever plan costs least.

    python column_sums.py [--rows 3000] [--columns 100] [--dtype bfloat16] [--target sm_90a]
                          [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

SHAPES = ((65536, 4096), (1000000, 64), (16384, 1000), (1000003, 33), (4096, 32768))
RESIDENT = 4  # blocks of an SM at once
MOST = 132 * RESIDENT


def column_sums(rows, columns, dtype, threads=256, most=512):
    """Returns S of X (rows, columns) as a prim_func, and the length of S: columns, rounded up."""
    part = columns if columns <= most else most
    parts = -(-columns // part)
    shares = max(1, MOST // parts)
    share = -(-rows // shares)

    @T.prim_func
    def column_sums(X: T.Tensor((rows, columns), dtype), S: T.Tensor((parts * part,), "float32")):
        with T.Kernel(parts, T.ceildiv(rows, share), threads=threads) as (bx, by):
            # As many registers as let all blocks run at once.
            T.annotate_min_blocks_per_sm(RESIDENT)
            out = S[bx * part : bx * part + part]
            sums = T.alloc_reducer((part,), "float32", scope="grid", out=out, deterministic=True)
            count = T.min(share, rows - by * share) if rows % share else share
            for i, j in T.Parallel(count, part):
                if bx * part + j < columns:
                    sums[j] += T.cast(X[by * share + i, bx * part + j], "float32")
            T.finalize_reducer(sums)

    return column_sums, parts * part


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 3000, 65536),
        columns=Option("columns of X", 100, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args
    compiled = example.compiled(lambda x: x.sum(0, dtype=torch.float32))

    def case(rows, columns):
        func, length = column_sums(rows, columns, args.dtype)
        kernel = example.compile(func)
        x, sums = example.normal(rows, columns, dtype=args.dtype), example.output(length)
        peers = {
            "torch": lambda: x.sum(0, dtype=torch.float32),
            "compile": lambda: compiled(x),
        }
        return Case(lambda: kernel(x, sums), peers, x.nbytes), x, sums

    line, x, sums = case(args.rows, args.columns)
    line.run()
    example.check("S", sums[: args.columns], x.double().sum(0))
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
