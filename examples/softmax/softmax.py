"""Y = softmax of each row of X, for rows of any length.

A block goes through the columns of its rows chunk by chunk. It keeps the largest element so far,
and the sum of exp(x - largest), which it rescales when a larger one comes (the online softmax).
Then it goes through them once more, which the L2 cache still has, and stores the quotients.

    python softmax.py [--rows 101] [--columns 3000] [--dtype bfloat16] [--target sm_90a]
                      [--device cpu]
"""

import math

import torch

import tilelang.language as T
from tilelang.tools.example import Example, Option


def softmax(rows, columns, dtype, block=4, chunk=1024, threads=128):
    """Returns Y of X, both (rows, columns) of ``dtype``, as a prim_func."""
    log2e = math.log2(math.e)  # powers of two in place of e

    @T.prim_func
    def softmax(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
            # What lies beyond a row has no weight.
            T.annotate_safe_value({X: -T.infinity(dtype)})
            x = T.alloc_fragment((block, chunk), "float32")
            largest, previous, total, part = (
                T.alloc_fragment((block,), "float32") for _ in range(4)
            )
            T.fill(largest, -T.infinity("float32"))
            T.clear(total)
            for c in T.serial(T.ceildiv(columns, chunk)):
                T.copy(X[bx * block, c * chunk], x)
                T.copy(largest, previous)
                T.reduce_max(x, largest, dim=1, clear=False)
                for i, j in T.Parallel(block, chunk):
                    x[i, j] = T.exp2((x[i, j] - largest[i]) * log2e)
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(block):
                    total[i] = total[i] * T.exp2((previous[i] - largest[i]) * log2e) + part[i]
            for c in T.serial(T.ceildiv(columns, chunk)):
                T.copy(X[bx * block, c * chunk], x)
                for i, j in T.Parallel(block, chunk):
                    x[i, j] = T.exp2((x[i, j] - largest[i]) * log2e) / total[i]
                T.copy(x, Y[bx * block, c * chunk])

    return softmax


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 101, 8192),
        columns=Option("columns of X", 3000, 32768),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args
    kernel = example.compile(softmax(args.rows, args.columns, args.dtype))
    x = example.normal(args.rows, args.columns, dtype=args.dtype, scale=3)
    y = example.output(args.rows, args.columns, dtype=args.dtype)
    kernel(x, y)
    example.check("Y", y, x.double().softmax(1))
    example.speed(lambda: kernel(x, y), lambda: torch.softmax(x, 1), moved=2 * x.nbytes)


if __name__ == "__main__":
    main()
