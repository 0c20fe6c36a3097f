"""Y = softmax of each row of X, for rows of any length.

A block keeps whole rows in registers where they fit, several where they are short, so that each
element is read once. Longer rows are divided among blocks: one launch finds the largest element of
each part and the sum of exp(x - largest), a second one combines them for the row and stores the
quotients.

    python softmax.py [--rows 101] [--columns 3000] [--dtype bfloat16] [--target sm_90a]
                      [--device cpu]
"""

import math

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.rows import LONGEST, tile_of

LOG2E = math.log2(math.e)  # powers of two in place of e
SHAPES = ((262144, 64), (65536, 1000), (32768, 5000), (4096, 16384), (1000, 50257), (128, 1000000))


def softmax(rows, columns, dtype):
    """Returns Y of X, both (rows, columns) of ``dtype``; both flat where rows exceed LONGEST."""
    return whole_rows(rows, columns, dtype) if columns <= LONGEST else parts(rows, columns, dtype)


def whole_rows(rows, columns, dtype):
    """The same, with rows in the registers of a block."""
    block, threads = tile_of(columns)

    @T.prim_func
    def softmax(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
            x = T.alloc_fragment((block, columns), "float32")
            largest, total = (T.alloc_fragment((block,), "float32") for _ in range(2))
            T.copy(X[bx * block, 0], x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(block, columns):
                x[i, j] = T.exp2((x[i, j] - largest[i]) * LOG2E)
            T.reduce_sum(x, total, dim=1)
            for i in T.Parallel(block):
                total[i] = 1 / total[i]
            for i, j in T.Parallel(block, columns):
                x[i, j] *= total[i]
            T.copy(x, Y[bx * block, 0])

    return softmax


def parts(rows, columns, dtype, chunk=8192, threads=512):
    """The same of flat X and Y, with a row divided among blocks, in parts of ``chunk`` elements.

    Parts begin at multiples of 16 bytes, so that all of them are vectors: the first one of a row
    that does not begin so has some elements of the row before, and is that much ahead of it.
    """
    vector = 128 // T.dtype(dtype).bits
    most_ahead = vector - 1 if columns % vector else 0
    count = -(-(columns + most_ahead) // chunk)

    def begin(row, part):
        return row * columns // vector * vector + part * chunk

    @T.prim_func
    def softmax(X: T.Tensor((rows * columns,), dtype), Y: T.Tensor((rows * columns,), dtype)):
        largest_of = T.alloc_global((rows, count), "float32")
        total_of = T.alloc_global((rows, count), "float32")
        with T.Kernel(count, rows, threads=threads) as (part, row):
            x = T.alloc_fragment((1, chunk), "float32")
            largest, total = (T.alloc_fragment((1,), "float32") for _ in range(2))
            first = row * columns - begin(row, part)
            for i, j in T.Parallel(1, chunk):
                inside = j >= first and j < first + columns
                x[i, j] = T.if_then_else(inside, X[begin(row, part) + j], -T.infinity(dtype))
            T.reduce_max(x, largest, dim=1)
            T.copy(largest, largest_of[row, part])
            for i in T.Parallel(1):  # a part may have no element of its row
                largest[i] = T.if_then_else(largest[i] == -T.infinity("float32"), 0, largest[i])
            for i, j in T.Parallel(1, chunk):
                x[i, j] = T.exp2((x[i, j] - largest[i]) * LOG2E)
            T.reduce_sum(x, total, dim=1)
            T.copy(total, total_of[row, part])
        with T.Kernel(count, rows, threads=threads) as (part, row):
            x = T.alloc_fragment((1, chunk), "float32")
            each, weight = (T.alloc_fragment((1, count), "float32") for _ in range(2))
            largest, total = (T.alloc_fragment((1,), "float32") for _ in range(2))
            first = row * columns - begin(row, part)
            for i, j in T.Parallel(1, chunk):
                inside = j >= first and j < first + columns
                x[i, j] = T.if_then_else(inside, X[begin(row, part) + j], -T.infinity(dtype))
            T.copy(largest_of[row, 0], each)
            T.copy(total_of[row, 0], weight)
            T.reduce_max(each, largest, dim=1)
            for i, j in T.Parallel(1, count):
                weight[i, j] *= T.exp2((each[i, j] - largest[i]) * LOG2E)
            T.reduce_sum(weight, total, dim=1)
            for i, j in T.Parallel(1, chunk):
                x[i, j] = T.exp2((x[i, j] - largest[i]) * LOG2E) / total[i]
            for i, j in T.Parallel(1, chunk):
                if j >= first and j < first + columns:
                    Y[begin(row, part) + j] = x[i, j]

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
    taken = lambda a: a if a.shape[1] <= LONGEST else a.view(-1)  # noqa: E731
    x = example.normal(args.rows, args.columns, dtype=args.dtype, scale=3)
    y = example.output(args.rows, args.columns, dtype=args.dtype)
    kernel(taken(x), taken(y))
    example.check("Y", y, x.double().softmax(1))
    compiled = torch.compile(lambda x: torch.softmax(x, 1), dynamic=False)

    def case(rows, columns):
        kernel = example.compile(softmax(rows, columns, args.dtype))
        x = example.normal(rows, columns, dtype=args.dtype)
        y = torch.empty_like(x)
        peers = {"torch": lambda: torch.softmax(x, 1), "compile": lambda: compiled(x)}
        return Case(lambda: kernel(taken(x), taken(y)), peers, 2 * x.nbytes)

    example.speed(
        lambda: kernel(taken(x), taken(y)), lambda: torch.softmax(x, 1), moved=2 * x.nbytes
    )
    example.table(SHAPES, case)


if __name__ == "__main__":
    main()
