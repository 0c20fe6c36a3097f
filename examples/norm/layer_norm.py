"""Y = (X - mean) / sqrt(variance + epsilon) * W + B, row by row: LayerNorm of rows of any length.

A block keeps whole rows in registers where they fit, several where they are short. The variance is
that of the differences from the mean, in a second pass over registers: a sum of squares minus a
square would cancel where the mean is large. Longer rows, also those that vectors do not divide, are
divided among blocks, which keep their parts in shared memory and tell each other mean and squared
differences (combined by the formula of Chan, Golub and LeVeque). So each element is read once.

    python layer_norm.py [--rows 101] [--columns 1000] [--dtype bfloat16] [--target sm_90a]
                         [--device cpu]
"""

import functools

import torch
from rms_norm import EPSILON

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.row_parts import await_parts, leave_parts, load_part, parts_of, take_part
from tilelang.tools.rows import IN_REGISTERS, LONGEST, several_of, tile_of

SHAPES = ((262144, 64), (65536, 1000), (32768, 4096), (32768, 5000), (4096, 16384), (1024, 131072))


def layer_norm(rows, columns, dtype):
    """Returns Y (rows, columns) of X (rows, columns), W and B (columns,) as a prim_func."""
    return whole_rows(rows, columns, dtype) if columns <= LONGEST else parts(rows, columns, dtype)


def whole_rows(rows, columns, dtype):
    """The same, with rows in the registers of a block."""
    block, threads = tile_of(columns, several=several_of(columns))
    # Threads that have a row, a power of two.
    of_row = 1 << max(1, threads // block).bit_length() - 1
    resident = 1024 if columns <= of_row * IN_REGISTERS else 640

    @T.prim_func
    def layer_norm(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        B: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
            # W and B may be loaded late: more threads at once hide more than registers would.
            T.annotate_min_blocks_per_sm(resident // threads)
            x, square = (T.alloc_fragment((block, columns), "float32") for _ in range(2))
            weight, bias = (T.alloc_fragment((columns,), dtype) for _ in range(2))
            mean, scale = (T.alloc_fragment((block,), "float32") for _ in range(2))
            T.copy(X[bx * block, 0], x)
            T.copy(W, weight)
            T.copy(B, bias)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(block, columns):
                x[i, j] -= mean[i] / columns
            for i, j in T.Parallel(block, columns):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, scale, dim=1)
            for i in T.Parallel(block):
                scale[i] = T.rsqrt(scale[i] / columns + EPSILON)
            for i, j in T.Parallel(block, columns):
                x[i, j] = x[i, j] * scale[i] * weight[j] + bias[j]
            T.copy(x, Y[bx * block, 0])

    return layer_norm


@T.macro
def length_of(at, length, columns):
    """How many elements of its row a part has that begins ``at`` elements before it."""
    return T.max(0, T.min(length, at + columns) - T.max(at, 0))


@T.macro
def shift(W, B, weights, biases):
    """Copies W and B behind as many zeros as the row says, and zeros behind them."""
    places, width = weights.shape
    with T.Kernel(T.ceildiv(width, 1024), places, threads=256) as (bx, ahead):
        for j in T.Parallel(1024):
            at = bx * 1024 + j - ahead
            if bx * 1024 + j < width:
                inside = T.And(at >= 0, at < W.shape[0])
                weights[ahead, bx * 1024 + j] = T.if_then_else(inside, W[at], 0)
                biases[ahead, bx * 1024 + j] = T.if_then_else(inside, B[at], 0)


@T.macro
def moments(x, first, columns, mean, square):
    """The mean of the elements of a part that are its row's, and the squares of what is off it."""
    length = x.shape[0]
    sum = T.alloc_reducer((1,), "float32")
    for j in T.Parallel(length):
        if j >= first and j < first + columns:
            sum[0] += T.cast(x[j], "float32")
    T.finalize_reducer(sum)
    for i in T.Parallel(1):
        mean[i] = sum[i] / T.max(length_of(first, length, columns), 1)
    for j in T.Parallel(length):
        if j >= first and j < first + columns:
            away = T.cast(x[j], "float32") - mean[0]
            square[0] += away * away
    T.finalize_reducer(square)


@T.macro
def combine(found, row, ahead, length, columns, mean, scale):
    """Mean and scale of a row, of the means and squared differences of its parts."""
    count = found.shape[1]
    each, weight = (T.alloc_fragment((count,), "float32") for _ in range(2))
    for j in T.Parallel(count):
        weight[j] = length_of(ahead - j * length, length, columns)
        each[j] = found[row, j, 0] * weight[j] / columns
    T.reduce_sum(each, mean, dim=0)
    for j in T.Parallel(count):
        away = found[row, j, 0] - mean[0]
        each[j] = found[row, j, 1] + away * away * weight[j]
    T.reduce_sum(each, scale, dim=0)
    for i in T.Parallel(1):
        scale[i] = T.rsqrt(scale[i] / columns + EPSILON)


def parts(rows, columns, dtype, threads=128):
    """The same of flat X and Y, with a row divided among blocks, each of which reads its part once.

    Parts begin at multiples of 16 bytes. Where vectors do not divide rows, W and B would not lie
    so: a first launch copies them as often as there are places where a row can begin.
    """
    count, length = parts_of(columns, dtype)
    vector = 128 // T.dtype(dtype).bits
    divided = columns % vector == 0

    @T.prim_func
    def layer_norm(
        X: T.Tensor((rows * columns,), dtype),
        W: T.Tensor((columns,), dtype),
        B: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows * columns,), dtype),
    ):
        if divided:
            weights, biases = W, B
        else:
            weights, biases = (T.alloc_global((vector, count * length), dtype) for _ in range(2))
            shift(W, B, weights, biases)
        tickets = T.alloc_global((1,), "int32", zeroed=True)
        arrived = T.alloc_global((rows,), "int32", zeroed=True)
        found = T.alloc_global((rows, count, 2), "float32")
        with T.Kernel(rows * count, threads=threads):
            x = T.alloc_shared((length,), dtype)
            square = T.alloc_reducer((1,), "float32")
            mean, scale = (T.alloc_fragment((1,), "float32") for _ in range(2))
            number = take_part(tickets, rows * count)
            row, part = number // count, number % count
            T.assume(row >= 0)
            T.assume(row < rows)
            T.assume(part >= 0)
            T.assume(part < count)
            start = row * columns // vector * vector
            ahead = row * columns - start
            begin = start + part * length
            first = ahead - part * length
            load_part(X, x, begin, vector)
            moments(x, first, columns, mean, square)
            if T.get_thread_binding() == 0:
                found[row, part, 0] = mean[0]
                found[row, part, 1] = square[0]
            await_parts(arrived, row, count)
            combine(found, row, ahead, length, columns, mean, scale)
            leave_parts(arrived, row, count)
            for j in T.Parallel(length):
                if j >= first and j < first + columns:
                    normal = (T.cast(x[j], "float32") - mean[0]) * scale[0]
                    at = part * length + j
                    if divided:
                        Y[begin + j] = normal * weights[at] + biases[at]
                    else:
                        Y[begin + j] = normal * weights[ahead, at] + biases[ahead, at]

    return layer_norm


def run(text, make, shapes, rows, columns, **options):
    """Runs a kernel, checks it, and on a GPU compares its speed with torch.

    Args:
        text: what the program says of itself.
        make: of rows, columns and a type the kernel; its X and Y have any shape of their elements.
        shapes: of the table of speeds.
        rows, columns: of X by default, small and on a GPU.
        options: further ones of the example.
    """
    example = Example(
        text,
        rows=Option("rows of X", *rows),
        columns=Option("columns of X, the length of W and B", *columns),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
        **options,
    )
    args = example.args

    def reference(x, w, b):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, EPSILON)

    compiled = example.compiled(reference)

    def case(rows, columns):
        func = make(rows, columns, args.dtype)
        kernel = example.compile(func)
        x = example.normal(rows, columns, dtype=args.dtype) + 1
        w, b = (example.normal(columns, dtype=args.dtype) for _ in range(2))
        y = example.output(rows, columns, dtype=args.dtype)
        shape = [int(extent) for extent in func.params[0].shape]
        call = functools.partial(kernel, x.view(shape), w, b, y.view(shape))
        peers = {"torch": lambda: reference(x, w, b), "compile": lambda: compiled(x, w, b)}
        return Case(call, peers, 2 * x.nbytes), (x, w, b, y)

    line, (x, w, b, y) = case(args.rows, args.columns)
    line.run()
    example.check("Y", y, reference(x.double(), w.double(), b.double()))
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(shapes, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    run(__doc__, layer_norm, SHAPES, rows=(101, 32768), columns=(1000, 4096))
