"""Y = (X - mean) / sqrt(variance + epsilon) * W + B, row by row: LayerNorm of rows of any length.

A block keeps whole rows in registers where they fit, several where they are short. The variance is
that of the differences from the mean, in a second pass over registers: a sum of squares minus a
square would cancel where the mean is large. Longer rows are divided among blocks: one launch finds
the mean of each part and its squared differences, a second one combines them (the formula of Chan,
Golub and LeVeque) and stores the result.

    python layer_norm.py [--rows 101] [--columns 1000] [--dtype bfloat16] [--target sm_90a]
                         [--device cpu]
"""

import functools

import torch
from rms_norm import EPSILON

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.rows import IN_REGISTERS, LONGEST, tile_of

SHAPES = ((262144, 64), (65536, 1000), (32768, 4096), (32768, 5000), (4096, 16384), (1024, 131072))


def layer_norm(rows, columns, dtype):
    """Returns Y (rows, columns) of X (rows, columns), W and B (columns,) as a prim_func."""
    return whole_rows(rows, columns, dtype) if columns <= LONGEST else parts(rows, columns, dtype)


def whole_rows(rows, columns, dtype):
    """The same, with rows in the registers of a block."""
    block, threads = tile_of(columns)
    of_row = 1 << (threads // block).bit_length() - 1  # threads that have a row, a power of two
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


def parts(rows, columns, dtype, chunk=8192, threads=512):
    """The same, with a row divided among blocks, in parts of ``chunk`` elements."""
    count = -(-columns // chunk)

    @T.prim_func
    def layer_norm(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        B: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        means = T.alloc_global((rows, count), "float32")
        squares = T.alloc_global((rows, count), "float32")
        with T.Kernel(count, rows, threads=threads) as (part, row):
            x = T.alloc_fragment((1, chunk), "float32")
            mean, total = (T.alloc_fragment((1,), "float32") for _ in range(2))
            length = T.min(chunk, columns - part * chunk)
            T.copy(X[row, part * chunk], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(1):
                mean[i] /= length
            for i, j in T.Parallel(1, chunk):
                x[i, j] = T.if_then_else(j < length, x[i, j] - mean[i], 0)
            for i, j in T.Parallel(1, chunk):
                x[i, j] *= x[i, j]
            T.reduce_sum(x, total, dim=1)
            T.copy(mean, means[row, part])
            T.copy(total, squares[row, part])
        with T.Kernel(count, rows, threads=threads) as (part, row):
            x = T.alloc_fragment((1, chunk), "float32")
            weight, bias = (T.alloc_fragment((1, chunk), dtype) for _ in range(2))
            each, square = (T.alloc_fragment((1, count), "float32") for _ in range(2))
            mean, scale = (T.alloc_fragment((1,), "float32") for _ in range(2))
            T.copy(X[row, part * chunk], x)
            T.copy(W[part * chunk], weight[0, :])
            T.copy(B[part * chunk], bias[0, :])
            for i, j in T.Parallel(1, count):
                each[i, j] = means[row, j] * T.min(chunk, columns - j * chunk) / columns
            T.reduce_sum(each, mean, dim=1)
            for i, j in T.Parallel(1, count):
                away = means[row, j] - mean[i]
                square[i, j] = squares[row, j] + away * away * T.min(chunk, columns - j * chunk)
            T.reduce_sum(square, scale, dim=1)
            for i in T.Parallel(1):
                scale[i] = T.rsqrt(scale[i] / columns + EPSILON)
            for i, j in T.Parallel(1, chunk):
                x[i, j] = (x[i, j] - mean[i]) * scale[i] * weight[i, j] + bias[i, j]
            T.copy(x, Y[row, part * chunk])

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

    compiled = torch.compile(reference, dynamic=False)

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
