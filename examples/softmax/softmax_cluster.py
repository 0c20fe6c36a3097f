"""Y = softmax of each row of X, for long rows of any length, also those that vectors do not divide.

The blocks of a cluster share a row: each keeps its part in registers, so that the row is read once,
and tells the others the largest element of the part and the sum of exp(x - largest) through shared
memory. Parts begin at multiples of 16 bytes, so that all but their ends are moved by vectors: the
first one of a row may have some elements of the row before. Of rows longer than the registers of
a cluster, sixteen blocks have most in their shared memory.

    python softmax_cluster.py [--rows 5] [--columns 3001] [--dtype bfloat16] [--target sm_90a]
                              [--device cpu]
"""

import torch
from softmax import LOG2E

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.rows import part_of

SHAPES = ((1000, 50257), (2670, 50257), (4096, 32001), (1024, 100003), (128, 1000000))
IN_CLUSTER = 2**17 - 16  # columns of a row that a cluster has in its registers
BLOCKS = 16  # that share a longer row


def softmax_cluster(rows, columns, dtype):
    """Returns Y of X, both flat, of (rows, columns) elements of ``dtype``."""
    build = in_registers if columns <= IN_CLUSTER else in_shared_memory
    return build(rows, columns, dtype)


@T.macro
def combine(maximum, total, of_all, part, most, sum):
    """The largest element and the sum of a row, of those of its parts."""
    size = of_all.shape[0]
    own = T.alloc_shared((2,), "float32")
    each, weight = (T.alloc_fragment((1, size), "float32") for _ in range(2))
    for i in T.Parallel(1):
        own[0] = maximum[i]
        own[1] = total[i]
    for block in T.serial(size):
        T.copy_cluster(own, of_all[part, :], dst_block=block)
    T.cluster_sync()
    for i, j in T.Parallel(1, size):
        each[i, j] = of_all[j, 0]
        weight[i, j] = of_all[j, 1]
    T.reduce_max(each, most, dim=1)
    for i, j in T.Parallel(1, size):
        weight[i, j] *= T.exp2((each[i, j] - most[i]) * LOG2E)
    T.reduce_sum(weight, sum, dim=1)


def in_registers(rows, columns, dtype):
    """The same, of rows that the registers of a cluster hold."""
    size, threads, chunk, vector = part_of(columns, dtype)

    @T.prim_func
    def softmax_cluster(
        X: T.Tensor((rows * columns,), dtype), Y: T.Tensor((rows * columns,), dtype)
    ):
        with T.Kernel(size, rows, threads=threads, cluster_dims=(size, 1, 1)) as (part, row):
            T.annotate_min_blocks_per_sm(max(1, 1280 // threads))
            x = T.alloc_fragment((1, chunk), "float32")
            largest, total, most = (T.alloc_fragment((1,), "float32") for _ in range(3))
            of_all = T.alloc_shared((size, 2), "float32")
            begin = row * columns // vector * vector + part * chunk
            first = row * columns - begin
            for i, j in T.Parallel(1, chunk):
                inside = j >= first and j < first + columns
                x[i, j] = T.if_then_else(inside, X[begin + j], -T.infinity(dtype))
            T.reduce_max(x, largest, dim=1)
            for i in T.Parallel(1):  # a part may have no element of its row
                largest[i] = T.if_then_else(largest[i] == -T.infinity("float32"), 0, largest[i])
            for i, j in T.Parallel(1, chunk):
                x[i, j] = T.exp2((x[i, j] - largest[i]) * LOG2E)
            T.reduce_sum(x, total, dim=1)
            combine(largest, total, of_all, part, most, total)
            for i in T.Parallel(1):
                total[i] = T.exp2((largest[i] - most[i]) * LOG2E) / total[i]
            for i, j in T.Parallel(1, chunk):
                if j >= first and j < first + columns:
                    Y[begin + j] = x[i, j] * total[i]

    return softmax_cluster


def in_shared_memory(rows, columns, dtype, held=8192, threads=512):
    """The same, of longer rows: a block has ``held`` elements in registers, others in a tile."""
    vector = 128 // T.dtype(dtype).bits
    part_of_row = -(-(columns + vector - 1) // BLOCKS)
    staged = max(256, -(-(part_of_row - held) // 256) * 256)
    resident = 2 if staged * T.dtype(dtype).bits <= 112 * 8192 else 1

    @T.prim_func
    def softmax_cluster(
        X: T.Tensor((rows * columns,), dtype), Y: T.Tensor((rows * columns,), dtype)
    ):
        with T.Kernel(BLOCKS, rows, threads=threads, cluster_dims=BLOCKS) as (part, row):
            T.annotate_min_blocks_per_sm(resident)
            staging = T.alloc_shared((staged,), dtype)
            of_all = T.alloc_shared((BLOCKS, 2), "float32")
            x = T.alloc_fragment((held,), dtype)
            scale, most, sum = (T.alloc_fragment((1,), "float32") for _ in range(3))
            largest = T.alloc_reducer((1,), "float32", op="max")
            total = T.alloc_reducer((1,), "float32")
            begin = row * columns // vector * vector + part * (held + staged)
            first = row * columns - begin
            end = first + columns
            T.async_copy(X[begin + held], staging)
            for j in T.Parallel(held):
                inside = j >= first and j < end
                x[j] = T.if_then_else(inside, X[begin + j], -T.infinity(dtype))
            for j in T.Parallel(held):
                largest[0] = T.max(largest[0], T.cast(x[j], "float32"))
            T.ptx_wait_group(0)
            T.sync_threads()
            for j in T.Parallel(staged):
                if held + j >= first and held + j < end:
                    largest[0] = T.max(largest[0], T.cast(staging[j], "float32"))
            T.finalize_reducer(largest)
            for i in T.Parallel(1):  # a part may have no element of its row
                scale[i] = T.if_then_else(largest[i] == -T.infinity("float32"), 0, largest[i])
            for j in T.Parallel(held):
                total[0] += T.exp2((T.cast(x[j], "float32") - scale[0]) * LOG2E)
            for j in T.Parallel(staged):
                if held + j >= first and held + j < end:
                    total[0] += T.exp2((T.cast(staging[j], "float32") - scale[0]) * LOG2E)
            T.finalize_reducer(total)
            combine(scale, total, of_all, part, most, sum)
            for i in T.Parallel(1):
                scale[i] = most[i] * LOG2E + T.log2(sum[i])
            for j in T.Parallel(held):
                if j >= first and j < end:
                    Y[begin + j] = T.exp2(T.cast(x[j], "float32") * LOG2E - scale[0])
            for j in T.Parallel(staged):
                if held + j >= first and held + j < end:
                    value = T.cast(staging[j], "float32")
                    Y[begin + held + j] = T.exp2(value * LOG2E - scale[0])

    return softmax_cluster


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        targets=("sm_90a", "sm_100a"),
        rows=Option("rows of X", 5, 1000),
        columns=Option("columns of X", 3001, 50257),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args
    compiled = torch.compile(lambda x: torch.softmax(x, 1), dynamic=False)

    def case(rows, columns):
        kernel = example.compile(softmax_cluster(rows, columns, args.dtype))
        x = example.normal(rows, columns, dtype=args.dtype, scale=3)
        y = example.output(rows, columns, dtype=args.dtype)
        peers = {"torch": lambda: torch.softmax(x, 1), "compile": lambda: compiled(x)}
        return Case(lambda: kernel(x.view(-1), y.view(-1)), peers, 2 * x.nbytes), x, y

    line, x, y = case(args.rows, args.columns)
    line.run()
    example.check("Y", y, x.double().softmax(1))
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
