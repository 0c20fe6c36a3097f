"""Prefix sums of each row of X, of any length.

Threads sum up neighbours in registers, lanes exchange sums by shuffles, warps through shared
memory. A row that does not fit the registers of a block is done in turns, the next of which is
loaded before this one is stored. Where there are fewer rows than multiprocessors, all blocks share
them: a block takes the next tile that nobody has, and adds the sums of the tiles before it.

    python cumsum.py [--rows 7] [--columns 9001] [--dtype float32] [--target sm_90a] [--device cpu]
"""

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

SHAPES = (
    *((32768, 1024), (8192, 4096), (4096, 16384), (1000, 50264), (1000, 50257)),
    *((1, 1 << 24), (16, 1 << 22)),
)
FEW = 132  # rows that leave multiprocessors of an H200 without work
BLOCKS = 792  # at most: six for each of them


def cumsum(rows, columns, dtype, threads=256):
    """Returns Y of X, both (rows, columns) of ``dtype``, as a prim_func."""
    return (by_rows if rows >= FEW else by_grid)(rows, columns, dtype, threads)


def by_rows(rows, columns, dtype, threads):
    """The same, a row a block."""

    @T.prim_func
    def cumsum(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(rows, threads=threads) as row:
            T.cumsum(X[row, :], Y[row, :], dim=1)

    return cumsum


def by_grid(rows, columns, dtype, threads):
    """The same, rows divided among blocks."""
    blocks = min(BLOCKS, -(-rows * columns // 4096))

    @T.prim_func
    def cumsum(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(blocks, threads=threads):
            T.cumsum(X, Y, dim=1, scope="grid")

    return cumsum


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 7, 8192),
        columns=Option("columns of X", 9001, 4096),
        dtype=Option("element type", "float32", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args
    compiled = example.compiled(lambda x: x.cumsum(1))

    def case(rows, columns):
        kernel = example.compile(cumsum(rows, columns, args.dtype))
        x = example.normal(rows, columns, dtype=args.dtype)
        y = example.output(rows, columns, dtype=args.dtype)
        peers = {"torch": lambda: x.cumsum(1), "compile": lambda: compiled(x)}
        return Case(lambda: kernel(x, y), peers, 2 * x.nbytes), x, y

    line, x, y = case(args.rows, args.columns)
    line.run()
    example.check("Y", y, x.double().cumsum(1))
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
