"""Y = X / sqrt(mean(X^2) + epsilon) * W, row by row: RMSNorm.

A block keeps whole rows in registers, so that they are read once. The tile is as wide as a power of
two: what lies beyond a row is read as 0, which adds nothing to the sum of squares.

    python rms_norm.py [--rows 101] [--columns 1000] [--dtype bfloat16] [--target sm_90a]
                       [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Example, Option

EPSILON = 1e-5


def rms_norm(rows, columns, dtype, block=4, threads=256):
    """Returns Y (rows, columns) of X (rows, columns) and W (columns,) as a prim_func."""
    width = max(1 << (columns - 1).bit_length(), 2 * threads)

    @T.prim_func
    def rms_norm(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
            x = T.alloc_fragment((block, width), "float32")
            square = T.alloc_fragment((block, width), "float32")
            weight = T.alloc_fragment((width,), dtype)
            total = T.alloc_fragment((block,), "float32")

            T.copy(X[bx * block, 0], x)
            T.copy(W[0], weight)
            for i, j in T.Parallel(block, width):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(block):
                total[i] = T.rsqrt(total[i] / columns + EPSILON)
            for i, j in T.Parallel(block, width):
                x[i, j] *= total[i] * weight[j]
            T.copy(x, Y[bx * block, 0])

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
    kernel = example.compile(rms_norm(args.rows, args.columns, args.dtype))
    x = example.normal(args.rows, args.columns, dtype=args.dtype)
    w = example.normal(args.columns, dtype=args.dtype)
    y = example.output(args.rows, args.columns, dtype=args.dtype)
    kernel(x, w, y)

    def reference(x, w):
        return torch.nn.functional.rms_norm(x, (args.columns,), w, EPSILON)

    example.check("Y", y, reference(x.double(), w.double()))
    example.speed(lambda: kernel(x, w, y), lambda: reference(x, w), moved=2 * x.nbytes)


if __name__ == "__main__":
    main()
