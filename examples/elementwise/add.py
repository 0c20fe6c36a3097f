"""C = A + B, element by element: as many bytes a second as the memory gives.

Each block adds a tile; where the tile reaches beyond the tensors, nothing is read or written.

    python add.py [--rows 100] [--columns 1001] [--dtype float16] [--target sm_90a] [--device cpu]
"""

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

SHAPES = ((1024, 1024), (4096, 4096), (16384, 8192), (100000, 1000), (1000, 100001))


def add(rows, columns, dtype, block_rows=4, block_columns=512, threads=256):
    """Returns C = A + B, all (rows, columns) of ``dtype``, as a prim_func."""

    @T.prim_func
    def add(
        A: T.Tensor((rows, columns), dtype),
        B: T.Tensor((rows, columns), dtype),
        C: T.Tensor((rows, columns), dtype),
    ):
        grid = T.ceildiv(columns, block_columns), T.ceildiv(rows, block_rows)
        with T.Kernel(*grid, threads=threads) as (bx, by):
            for i, j in T.Parallel(block_rows, block_columns):
                row, column = by * block_rows + i, bx * block_columns + j
                C[row, column] = A[row, column] + B[row, column]

    return add


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of the tensors", 100, 16384),
        columns=Option("columns of the tensors", 1001, 8192),
        dtype=Option("element type", "float16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args

    def case(rows, columns):
        kernel = example.compile(add(rows, columns, args.dtype))
        a, b = (example.normal(rows, columns, dtype=args.dtype) for _ in range(2))
        c = example.output(rows, columns, dtype=args.dtype)
        return Case(lambda: kernel(a, b, c), {"torch": lambda: a + b}, 3 * a.nbytes), (a, b, c)

    line, (a, b, c) = case(args.rows, args.columns)
    line.run()
    example.check("C", c, a.double() + b.double())
    example.speed(line.run, line.peers, line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
