"""Y = silu(G) * U, where X = [G, U] is the result of one gemm: the gate of a SwiGLU layer.

Both halves of a row are read once, and computed with in float32.

    python swiglu.py [--rows 100] [--columns 1001] [--dtype bfloat16] [--target sm_90a]
                     [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

SHAPES = ((1024, 4096), (4096, 14336), (16384, 8192), (65536, 1000), (8192, 11009))


def swiglu(rows, columns, dtype, block_rows=4, block_columns=512, threads=256):
    """Returns Y (rows, columns) of X (rows, 2, columns), both of ``dtype``, as a prim_func."""

    @T.prim_func
    def swiglu(
        X: T.Tensor((rows, 2, columns), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        grid = T.ceildiv(columns, block_columns), T.ceildiv(rows, block_rows)
        with T.Kernel(*grid, threads=threads) as (bx, by):
            for i, j in T.Parallel(block_rows, block_columns):
                row, column = by * block_rows + i, bx * block_columns + j
                gate = T.cast(X[row, 0, column], "float32")
                up = T.cast(X[row, 1, column], "float32")
                Y[row, column] = gate / (1 + T.exp(-gate)) * up

    return swiglu


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 100, 16384),
        columns=Option("columns of Y, half those of X", 1001, 8192),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args

    def reference(x):
        gate, up = x.chunk(2, dim=1)
        return torch.nn.functional.silu(gate) * up

    compiled = example.compiled(reference)

    def case(rows, columns):
        kernel = example.compile(swiglu(rows, columns, args.dtype))
        x = example.normal(rows, 2 * columns, dtype=args.dtype)
        y = example.output(rows, columns, dtype=args.dtype)
        halves = x.view(rows, 2, columns)
        peers = {"torch": lambda: reference(x), "compile": lambda: compiled(x)}
        return Case(lambda: kernel(halves, y), peers, x.nbytes + y.nbytes), (x, y)

    line, (x, y) = case(args.rows, args.columns)
    line.run()
    example.check("Y", y, reference(x.double()))
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
