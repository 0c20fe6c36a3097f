"""Y = X / sqrt(mean(X^2) + epsilon) * W, row by row: RMSNorm of rows of any length.

A block keeps whole rows in registers where they fit, several where they are short, so that they are
read once. Longer rows are divided among blocks: one launch sums the squares of each part, a second
one scales them.

    python rms_norm.py [--rows 101] [--columns 1000] [--dtype bfloat16] [--target sm_90a]
                       [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.rows import LONGEST, tile_of

EPSILON = 1e-5
SHAPES = ((262144, 64), (65536, 1000), (32768, 4096), (32768, 5000), (4096, 16384), (1024, 131072))


def rms_norm(rows, columns, dtype):
    """Returns Y (rows, columns) of X (rows, columns) and W (columns,) as a prim_func."""
    return whole_rows(rows, columns, dtype) if columns <= LONGEST else parts(rows, columns, dtype)


def whole_rows(rows, columns, dtype):
    """The same, with rows in the registers of a block."""
    block, threads = tile_of(columns)

    @T.prim_func
    def rms_norm(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
            x = T.alloc_fragment((block, columns), dtype)
            square = T.alloc_fragment((block, columns), "float32")
            weight = T.alloc_fragment((columns,), dtype)
            total = T.alloc_fragment((block,), "float32")
            T.copy(X[bx * block, 0], x)
            T.copy(W, weight)
            for i, j in T.Parallel(block, columns):
                square[i, j] = T.cast(x[i, j], "float32") * T.cast(x[i, j], "float32")
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(block):
                total[i] = T.rsqrt(total[i] / columns + EPSILON)
            for i, j in T.Parallel(block, columns):
                x[i, j] = T.cast(x[i, j], "float32") * total[i] * weight[j]
            T.copy(x, Y[bx * block, 0])

    return rms_norm


def parts(rows, columns, dtype, chunk=8192, threads=512):
    """The same, with a row divided among blocks, in parts of ``chunk`` elements."""
    count = -(-columns // chunk)

    @T.prim_func
    def rms_norm(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        squares = T.alloc_global((rows, count), "float32")
        with T.Kernel(count, rows, threads=threads) as (part, row):
            x = T.alloc_fragment((1, chunk), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[row, part * chunk], x)
            for i, j in T.Parallel(1, chunk):
                x[i, j] *= x[i, j]
            T.reduce_sum(x, total, dim=1)
            T.copy(total, squares[row, part])
        with T.Kernel(count, rows, threads=threads) as (part, row):
            x, weight = (T.alloc_fragment((1, chunk), "float32") for _ in range(2))
            each = T.alloc_fragment((1, count), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[row, part * chunk], x)
            T.copy(W[part * chunk], weight[0, :])
            T.copy(squares[row, 0], each)
            T.reduce_sum(each, total, dim=1)
            for i, j in T.Parallel(1, chunk):
                x[i, j] *= T.rsqrt(total[i] / columns + EPSILON) * weight[i, j]
            T.copy(x, Y[row, part * chunk])

    return rms_norm


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 101, 32768),
        columns=Option("columns of X, the length of W", 1000, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args

    def reference(x, w):
        return torch.nn.functional.rms_norm(x, x.shape[-1:], w, EPSILON)

    compiled = example.compiled(reference)

    def case(rows, columns):
        kernel = example.compile(rms_norm(rows, columns, args.dtype))
        x = example.normal(rows, columns, dtype=args.dtype)
        w = example.normal(columns, dtype=args.dtype)
        y = example.output(rows, columns, dtype=args.dtype)
        peers = {"torch": lambda: reference(x, w), "compile": lambda: compiled(x, w)}
        return Case(lambda: kernel(x, w, y), peers, 2 * x.nbytes), (x, w, y)

    line, (x, w, y) = case(args.rows, args.columns)
    line.run()
    example.check("Y", y, reference(x.double(), w.double()))
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
