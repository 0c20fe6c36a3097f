"""Y = (X - mean) / sqrt(variance + epsilon) * W + B, row by row: LayerNorm.

A block keeps whole rows in registers. The variance is that of the differences from the mean, in a
second pass over them: a sum of squares minus a square would cancel where the mean is large.

    python layer_norm.py [--rows 101] [--columns 1000] [--dtype bfloat16] [--target sm_90a]
                         [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Example, Option

EPSILON = 1e-5


def layer_norm(rows, columns, dtype, block=2, threads=256):
    """Returns Y (rows, columns) of X (rows, columns), W and B (columns,) as a prim_func."""
    width = max(1 << (columns - 1).bit_length(), 2 * threads)

    @T.prim_func
    def layer_norm(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        B: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
            x = T.alloc_fragment((block, width), "float32")
            square = T.alloc_fragment((block, width), "float32")
            weight, bias = (T.alloc_fragment((width,), dtype) for _ in range(2))
            mean, scale = (T.alloc_fragment((block,), "float32") for _ in range(2))

            T.copy(X[bx * block, 0], x)
            T.copy(W[0], weight)
            T.copy(B[0], bias)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(block, width):
                # Columns beyond the row are 0, and take no part in the variance.
                x[i, j] = T.if_then_else(j < columns, x[i, j] - mean[i] / columns, 0)
            for i, j in T.Parallel(block, width):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, scale, dim=1)
            for i in T.Parallel(block):
                scale[i] = T.rsqrt(scale[i] / columns + EPSILON)
            for i, j in T.Parallel(block, width):
                x[i, j] = x[i, j] * scale[i] * weight[j] + bias[j]
            T.copy(x, Y[bx * block, 0])

    return layer_norm


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 101, 32768),
        columns=Option("columns of X, the length of W and B", 1000, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args
    kernel = example.compile(layer_norm(args.rows, args.columns, args.dtype))
    x = example.normal(args.rows, args.columns, dtype=args.dtype) + 1
    w, b = (example.normal(args.columns, dtype=args.dtype) for _ in range(2))
    y = example.output(args.rows, args.columns, dtype=args.dtype)
    kernel(x, w, b, y)

    def reference(x, w, b):
        return torch.nn.functional.layer_norm(x, (args.columns,), w, b, EPSILON)

    example.check("Y", y, reference(x.double(), w.double(), b.double()))
    example.speed(lambda: kernel(x, w, b, y), lambda: reference(x, w, b), moved=2 * x.nbytes)


if __name__ == "__main__":
    main()
