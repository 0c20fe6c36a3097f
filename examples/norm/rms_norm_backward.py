"""dX and dW of RMSNorm of rows of any length.

Rows that a block has in registers take one launch, which reads X and dY once: each block takes
every n-th tile of rows, keeps its sums for dW all the while, and the block that comes last adds up
those of the grid. Longer rows take two: one sums up what each row needs, and one in which blocks
share the columns as well.

    python rms_norm_backward.py [--rows 301] [--columns 72] [--dtype bfloat16] [--target sm_90a]
                                [--device cpu]
"""

import torch
from rms_norm import EPSILON

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.rows import LONGEST, tile_of

SHAPES = ((262144, 64), (65536, 1000), (32768, 4096), (32768, 5000), (1024, 131072))
MOST = 264  # blocks: two for each SM
CHUNK = 2048  # columns of a block, of longer rows


def rms_norm_backward(rows, columns, dtype):
    """Returns a prim_func that takes X, dY (rows, columns), W (columns,) and scale (rows,).

    It gives dX (rows, columns) and dW, of :func:`length_of` ``columns`` elements, where scale is
    1 / sqrt(mean(X^2) + epsilon).
    """
    build = whole_rows if columns <= LONGEST // 2 else parts
    return build(rows, columns, dtype)


def length_of(columns):
    """Returns the length of gradients of weights."""
    return columns if columns <= LONGEST // 2 else -(-columns // CHUNK) * CHUNK


def whole_rows(rows, columns, dtype):
    """The same, with rows in the registers of a block."""
    block, threads = tile_of(2 * columns)
    tiles = -(-rows // block)
    blocks = min(MOST, tiles)

    @T.prim_func
    def rms_norm_backward(
        X: T.Tensor((rows, columns), dtype),
        DY: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        scale: T.Tensor((rows,), "float32"),
        DX: T.Tensor((rows, columns), dtype),
        DW: T.Tensor((columns,), "float32"),
    ):
        with T.Kernel(blocks, threads=threads) as bx:
            w = T.alloc_reducer((columns,), "float32", scope="grid", out=DW, deterministic=True)
            x, dy, g, dw = (T.alloc_fragment((block, columns), "float32") for _ in range(4))
            weight = T.alloc_fragment((columns,), dtype)
            of_gx = T.alloc_fragment((block,), "float32")
            T.copy(W, weight)
            T.clear(dw)
            for t in T.serial(T.ceildiv(tiles - bx, blocks)):
                row = (t * blocks + bx) * block
                T.copy(X[row, 0], x)
                T.copy(DY[row, 0], dy)
                for i, j in T.Parallel(block, columns):
                    x[i, j] *= scale[row + i]
                for i, j in T.Parallel(block, columns):
                    dw[i, j] += dy[i, j] * x[i, j]
                    dy[i, j] *= weight[j]
                    g[i, j] = dy[i, j] * x[i, j]
                T.reduce_sum(g, of_gx, dim=1)
                for i, j in T.Parallel(block, columns):
                    dy[i, j] = (dy[i, j] - x[i, j] * of_gx[i] / columns) * scale[row + i]
                T.copy(dy, DX[row, 0])
            for i, j in T.Parallel(block, columns):
                w[j] += dw[i, j]
            T.finalize_reducer(w)

    return rms_norm_backward


def parts(rows, columns, dtype, threads=256):
    """The same, with columns divided among blocks, in parts of CHUNK."""
    count = -(-columns // CHUNK)
    shares = min(rows, max(1, MOST * 2 // count))

    @T.prim_func
    def rms_norm_backward(
        X: T.Tensor((rows, columns), dtype),
        DY: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        scale: T.Tensor((rows,), "float32"),
        DX: T.Tensor((rows, columns), dtype),
        DW: T.Tensor((count * CHUNK,), "float32"),
    ):
        of_gx = T.alloc_global((rows,), "float32")
        with T.Kernel(rows, threads=threads) as row:
            total = T.alloc_reducer((1,), "float32")
            for j in T.Parallel(columns):
                g = T.cast(DY[row, j], "float32") * T.cast(W[j], "float32")
                total[0] += g * T.cast(X[row, j], "float32") * scale[row]
            T.finalize_reducer(total)
            T.copy(total, of_gx[row])
        with T.Kernel(count, shares, threads=threads) as (part, share):
            out = DW[part * CHUNK : part * CHUNK + CHUNK]
            w = T.alloc_reducer((CHUNK,), "float32", scope="grid", out=out, deterministic=True)
            x, dy, dw = (T.alloc_fragment((CHUNK,), "float32") for _ in range(3))
            weight = T.alloc_fragment((CHUNK,), "float32")
            T.copy(W[part * CHUNK], weight)
            T.clear(dw)
            for t in T.serial(T.ceildiv(rows - share, shares)):
                row = t * shares + share
                T.copy(X[row, part * CHUNK], x)
                T.copy(DY[row, part * CHUNK], dy)
                for j in T.Parallel(CHUNK):
                    x[j] *= scale[row]
                    dw[j] += dy[j] * x[j]
                    dy[j] = (dy[j] * weight[j] - x[j] * of_gx[row] / columns) * scale[row]
                T.copy(dy, DX[row, part * CHUNK])
            for j in T.Parallel(CHUNK):
                w[j] += dw[j]
            T.finalize_reducer(w)

    return rms_norm_backward


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 301, 32768),
        columns=Option("columns of X, the length of W", 72, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args

    def reference(x, dy, w, scale):
        normal, g = x * scale[:, None], dy * w
        return (g - normal * (g * normal).mean(1, keepdim=True)) * scale[:, None], (
            dy * normal
        ).sum(0)

    @example.compiled
    def compiled(x, dy, w, scale):
        return reference(x.float(), dy.float(), w.float(), scale)

    def case(rows, columns):
        kernel = example.compile(rms_norm_backward(rows, columns, args.dtype))
        x, dy = (example.normal(rows, columns, dtype=args.dtype) for _ in range(2))
        w = example.normal(columns, dtype=args.dtype)
        inputs = x, dy, w, torch.rsqrt(x.float().square().mean(1) + EPSILON)
        dx = example.output(rows, columns, dtype=args.dtype)
        dw = example.output(length_of(columns))
        peers = {"torch": lambda: reference(*inputs), "compile": lambda: compiled(*inputs)}
        return Case(lambda: kernel(*inputs, dx, dw), peers, 3 * x.nbytes), inputs, (dx, dw)

    line, inputs, (dx, dw) = case(args.rows, args.columns)
    line.run()
    wanted = reference(*(a.double() for a in inputs))
    example.check("dX", dx, wanted[0])
    example.check("dW", dw[: args.columns], wanted[1])
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
