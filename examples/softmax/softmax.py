"""Y = softmax of each row of X, for rows of any length.

A block keeps whole rows in registers where they fit, several where they are short. Longer rows,
also those that vectors do not divide, are divided among blocks, which keep their parts in shared
memory and tell each other what they found in them. So each element is read once, in one launch.

    python softmax.py [--rows 101] [--columns 3000] [--dtype bfloat16] [--target sm_90a]
                      [--device cpu]
"""

import math

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.row_parts import await_parts, leave_parts, load_part, parts_of, take_part
from tilelang.tools.rows import IN_REGISTERS, LONGEST, most_of, several_of, tile_of

LOG2E = math.log2(math.e)  # powers of two in place of e
SHAPES = ((262144, 64), (65536, 1000), (32768, 5000), (4096, 16384), (1000, 50257), (128, 1000000))


def softmax(rows, columns, dtype):
    """Returns Y of X, both (rows, columns) of ``dtype``; both flat where rows exceed LONGEST."""
    return whole_rows(rows, columns, dtype) if columns <= LONGEST else parts(rows, columns, dtype)


def whole_rows(rows, columns, dtype):
    """The same, with rows in the registers of a block."""
    block, threads = tile_of(columns, most_of(columns, dtype), several_of(columns))

    @T.prim_func
    def softmax(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
            if columns > threads * IN_REGISTERS:
                T.annotate_min_blocks_per_sm(1024 // threads)
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


def parts(rows, columns, dtype, threads=128):
    """The same of flat X and Y, with a row divided among blocks, each of which reads its part once.

    It tells the others the largest element of the part and the sum of exp(x - largest), and stores
    the quotients when those of the whole row are there.
    """
    count, length = parts_of(columns, dtype)
    vector = 128 // T.dtype(dtype).bits

    @T.prim_func
    def softmax(X: T.Tensor((rows * columns,), dtype), Y: T.Tensor((rows * columns,), dtype)):
        tickets = T.alloc_global((1,), "int32", zeroed=True)
        arrived = T.alloc_global((rows,), "int32", zeroed=True)
        found = T.alloc_global((rows, count, 2), "float32")
        with T.Kernel(rows * count, threads=threads):
            x = T.alloc_shared((length,), dtype)
            largest = T.alloc_reducer((1,), "float32", op="max")
            total = T.alloc_reducer((1,), "float32")
            scale, most, sum = (T.alloc_fragment((1,), "float32") for _ in range(3))
            each, weight = (T.alloc_fragment((count,), "float32") for _ in range(2))
            number = take_part(tickets, rows * count)
            row, part = number // count, number % count
            T.assume(row >= 0)
            T.assume(row < rows)
            T.assume(part >= 0)
            T.assume(part < count)
            begin = row * columns // vector * vector + part * length
            first = row * columns - begin
            load_part(X, x, begin, vector)
            for j in T.Parallel(length):
                if j >= first and j < first + columns:
                    largest[0] = T.max(largest[0], T.cast(x[j], "float32"))
            T.finalize_reducer(largest)
            for i in T.Parallel(1):  # a part may have no element of its row
                scale[i] = T.if_then_else(largest[i] == -T.infinity("float32"), 0, largest[i])
                scale[i] *= LOG2E
            for j in T.Parallel(length):
                if j >= first and j < first + columns:
                    total[0] += T.__exp2(T.cast(x[j], "float32") * LOG2E - scale[0])
            T.finalize_reducer(total)
            if T.get_thread_binding() == 0:
                found[row, part, 0] = scale[0]
                found[row, part, 1] = total[0]
            await_parts(arrived, row, count)
            for j in T.Parallel(count):
                each[j] = found[row, j, 0]
                weight[j] = found[row, j, 1]
            leave_parts(arrived, row, count)
            T.reduce_max(each, most, dim=0)
            for j in T.Parallel(count):
                weight[j] *= T.exp2(each[j] - most[0])
            T.reduce_sum(weight, sum, dim=0)
            for i in T.Parallel(1):
                scale[i] = most[i] + T.log2(sum[i])
            for j in T.Parallel(length):
                if j >= first and j < first + columns:
                    Y[begin + j] = T.__exp2(T.cast(x[j], "float32") * LOG2E - scale[0])

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
    compiled = example.compiled(lambda x: torch.softmax(x, 1))

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
