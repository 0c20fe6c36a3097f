"""dX = Y * (dY - sum(Y * dY)) by rows: the gradient of a softmax from its result.

A block has both tensors' rows in registers, so that each element is read once.

    python softmax_backward.py [--rows 101] [--columns 1001] [--dtype bfloat16] [--target sm_90a]
                               [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.rows import tile_of

SHAPES = ((262144, 64), (65536, 1000), (32768, 4096), (32768, 5000), (8192, 16384))


def softmax_backward(rows, columns, dtype):
    """Returns dX of Y and dY, all (rows, columns) of ``dtype``, as a prim_func."""
    block, threads = tile_of(columns)

    @T.prim_func
    def softmax_backward(
        Y: T.Tensor((rows, columns), dtype),
        DY: T.Tensor((rows, columns), dtype),
        DX: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
            y, dy = (T.alloc_fragment((block, columns), dtype) for _ in range(2))
            product = T.alloc_fragment((block, columns), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(Y[bx * block, 0], y)
            T.copy(DY[bx * block, 0], dy)
            for i, j in T.Parallel(block, columns):
                product[i, j] = T.cast(y[i, j], "float32") * T.cast(dy[i, j], "float32")
            T.reduce_sum(product, total, dim=1)
            for i, j in T.Parallel(block, columns):
                product[i, j] -= T.cast(y[i, j], "float32") * total[i]
            T.copy(product, DX[bx * block, 0])

    return softmax_backward


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of Y", 101, 32768),
        columns=Option("columns of Y", 1001, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args

    def reference(y, dy):
        return y * (dy - (y * dy).sum(1, keepdim=True))

    def peer(y, dy):
        return torch._softmax_backward_data(dy, y, 1, y.dtype)

    def arguments(rows, columns):
        x = example.normal(rows, columns).softmax(1).to(getattr(torch, args.dtype))
        return x, example.normal(rows, columns, dtype=args.dtype)

    kernel = example.compile(softmax_backward(args.rows, args.columns, args.dtype))
    y, dy = arguments(args.rows, args.columns)
    dx = example.output(args.rows, args.columns, dtype=args.dtype)
    kernel(y, dy, dx)
    example.check("dX", dx, reference(y.double(), dy.double()))
    compiled = example.compiled(reference)

    def case(rows, columns):
        kernel = example.compile(softmax_backward(rows, columns, args.dtype))
        y, dy = arguments(rows, columns)
        dx = torch.empty_like(y)
        peers = {"torch": lambda: peer(y, dy), "compile": lambda: compiled(y, dy)}
        return Case(lambda: kernel(y, dy, dx), peers, 3 * y.nbytes)

    example.speed(lambda: kernel(y, dy, dx), lambda: peer(y, dy), moved=3 * y.nbytes)
    example.table(SHAPES, case)


if __name__ == "__main__":
    main()
