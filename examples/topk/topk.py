"""The k largest elements of each row, in order, and where they are: the choice of experts.

A block keeps whole rows in registers. k times it takes the largest element, looks for the first
place that has it, and removes it from the row. So of equal elements the one further left comes
first, as torch.topk does not promise.

    python topk.py [--rows 100] [--columns 200] [--k 6] [--target sm_90a] [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

#: of tables: rows and columns of X, elements to find
SHAPES = ((65536, 128, 8), (16384, 64, 6), (65536, 256, 8), (8192, 128, 4), (131072, 32, 2))


def topk(rows, columns, k, block=16, threads=128):
    """Returns Values (rows, k) float32 and Indices (rows, k) int32 of X (rows, columns) float32.

    No element of X is -inf or not a number.
    """
    width = max(1 << (columns - 1).bit_length(), 32)

    @T.prim_func
    def topk(
        X: T.Tensor((rows, columns), "float32"),
        Values: T.Tensor((rows, k), "float32"),
        Indices: T.Tensor((rows, k), "int32"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
            T.annotate_safe_value({X: -T.infinity("float32")})  # beyond a row there is nothing
            x = T.alloc_fragment((block, width), "float32")
            places = T.alloc_fragment((block, width), "int32")
            largest = T.alloc_fragment((block,), "float32")
            place = T.alloc_fragment((block,), "int32")

            T.copy(X[bx * block, 0], x)
            for n in T.serial(k):
                T.reduce_max(x, largest, dim=1)
                for i, j in T.Parallel(block, width):
                    places[i, j] = T.if_then_else(x[i, j] == largest[i], j, width)
                T.reduce_min(places, place, dim=1)
                for i, j in T.Parallel(block, width):
                    x[i, j] = T.if_then_else(j == place[i], -T.infinity("float32"), x[i, j])
                for i in T.Parallel(block):
                    Values[bx * block + i, n] = largest[i]
                    Indices[bx * block + i, n] = place[i]

    return topk


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 100, 65536),
        columns=Option("columns of X", 200, 128),
        k=Option("elements to find in each row", 6, 8),
    )
    args = example.args
    example.require(args.k <= args.columns, f"--k is {args.k}: give at most --columns")

    def case(rows, columns, k):
        kernel = example.compile(topk(rows, columns, k))
        # A few values only, so that many are equal.
        x = example.integers(0, max(columns // 2, 1), rows, columns).float()
        values = example.output(rows, k)
        indices = example.output(rows, k, dtype="int32")
        moved = sum(y.nbytes for y in (x, values, indices))
        peers = {"torch": lambda: x.topk(k)}
        return Case(lambda: kernel(x, values, indices), peers, moved), x, values, indices

    line, x, values, indices = case(args.rows, args.columns, args.k)
    line.run()
    want, order = torch.sort(x, dim=1, descending=True, stable=True)
    example.check("Values", values, want[:, : args.k], tolerance=0)
    example.check("Indices", indices, order[:, : args.k], tolerance=0)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
