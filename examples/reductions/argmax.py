"""The index of the largest element of each row, and the k largest with theirs, by records.

A record is what a reduction carries together, here values and their indices. A row is read once, by
vectors; the records of a thread become one in its registers, those of the block through shared
memory.

    python argmax.py [--rows 20] [--columns 3000] [--k 4] [--dtype bfloat16] [--target sm_90a]
                     [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

SHAPES = ((32768, 4096), (4096, 32768), (1000, 50264), (1000, 50257), (262144, 100))


def argmax(rows, columns, dtype, threads=256):
    """Returns the place (rows,) of the largest element of each row of X (rows, columns)."""

    @T.prim_func
    def argmax(X: T.Tensor((rows, columns), dtype), place: T.Tensor((rows,), "int64")):
        with T.Kernel(rows, threads=threads) as row:
            T.reduce_argmax(X[row, :], place[row], dim=1)

    return argmax


def largest(rows, columns, k, dtype, threads=128):
    """Returns the k largest elements of each row, in order, and their places, both (rows, k)."""

    @T.prim_func
    def largest(
        X: T.Tensor((rows, columns), dtype),
        values: T.Tensor((rows, k), dtype),
        places: T.Tensor((rows, k), "int32"),
    ):
        with T.Kernel(rows, threads=threads) as row:
            T.reduce_topk(X[row, :], values[row, :], places[row, :], dim=1)

    return largest


def main():
    """Runs the kernels, checks them, and on a GPU compares their speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 20, 32768),
        columns=Option("columns of X", 3000, 4096),
        k=Option("how many of the largest", 4, 4, most=16),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args
    example.require(args.k <= args.columns, f"--k is {args.k}: give at most --columns")
    compiled = example.compiled(lambda x: x.argmax(1))

    def case(rows, columns):
        kernel = example.compile(argmax(rows, columns, args.dtype))
        x = example.normal(rows, columns, dtype=args.dtype)
        place = torch.full((rows,), -1, device=x.device)
        peers = {"torch": lambda: x.argmax(1), "compile": lambda: compiled(x)}
        return Case(lambda: kernel(x, place), peers, x.nbytes), x, place

    line, x, place = case(args.rows, args.columns)
    line.run()
    # Of equal elements the first is the one: torch on a GPU may give another.
    wide = x.double()
    first = (wide == wide.amax(1, keepdim=True)).int().argmax(1)
    example.check("places of the largest", place, first)
    kernel = example.compile(largest(args.rows, args.columns, args.k, args.dtype))
    values = example.output(args.rows, args.k, dtype=args.dtype)
    places = torch.full((args.rows, args.k), -1, dtype=torch.int32, device=x.device)
    kernel(x, values, places)
    example.check("values of the largest", values, wide.topk(args.k).values)
    found = x.gather(1, places.long() % args.columns)  # a place that is not written is the last
    example.check("elements at their places", found, values.double())
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
