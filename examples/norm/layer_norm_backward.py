"""dX, dW and dB of LayerNorm of rows of any length.

Rows that a block has in registers take one launch, which reads X and dY once: each block takes
every n-th tile of rows, keeps its sums for dW and dB all the while, and the block that comes last
adds up those of the grid. Longer rows take two: one sums up what each row needs, and one in which
blocks share the columns as well.

    python layer_norm_backward.py [--rows 301] [--columns 72] [--dtype bfloat16] [--target sm_90a]
                                  [--device cpu]
"""

import torch
from rms_norm import EPSILON
from rms_norm_backward import CHUNK, MOST, length_of

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.rows import LONGEST, tile_of

SHAPES = ((1152000, 16), (262144, 64), (65536, 1024), (32768, 4096), (32768, 5000), (1024, 131072))


def layer_norm_backward(rows, columns, dtype):
    """Returns dX (rows, columns), dW and dB, of X, dY, W and the rows' statistics.

    dW and dB have :func:`length_of` ``columns`` elements.
    """
    return (whole_rows if columns <= LONGEST // 2 else parts)(rows, columns, dtype)


def whole_rows(rows, columns, dtype):
    """The same, with rows in the registers of a block."""
    block, threads = tile_of(columns)
    # Short rows in half of the registers, so that twice as many threads run at once.
    halves = 2 if columns <= 32 else 1
    block //= halves
    tiles = -(-rows // block)
    blocks = min(halves * MOST, tiles)

    @T.prim_func
    def layer_norm_backward(
        X: T.Tensor((rows, columns), dtype),
        DY: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        mean: T.Tensor((rows,), "float32"),
        scale: T.Tensor((rows,), "float32"),
        DX: T.Tensor((rows, columns), dtype),
        DW: T.Tensor((columns,), "float32"),
        DB: T.Tensor((columns,), "float32"),
    ):
        with T.Kernel(blocks, threads=threads) as bx:
            T.annotate_min_blocks_per_sm(max(1, 256 * halves // threads))
            w = T.alloc_reducer((columns,), "float32", scope="grid", out=DW, deterministic=True)
            b = T.alloc_reducer((columns,), "float32", scope="grid", out=DB, deterministic=True)
            x, dy, g = (T.alloc_fragment((block, columns), "float32") for _ in range(3))
            dw, db = (T.alloc_fragment((block, columns), "float32") for _ in range(2))
            weight = T.alloc_fragment((columns,), dtype)
            of_g, of_gx = (T.alloc_fragment((block,), "float32") for _ in range(2))
            T.copy(W, weight)
            T.clear(dw)
            T.clear(db)
            for t in T.serial(T.ceildiv(tiles - bx, blocks)):
                row = (t * blocks + bx) * block
                T.copy(X[row, 0], x)
                T.copy(DY[row, 0], dy)
                for i, j in T.Parallel(block, columns):
                    x[i, j] = (x[i, j] - mean[row + i]) * scale[row + i]
                for i, j in T.Parallel(block, columns):
                    dw[i, j] += dy[i, j] * x[i, j]
                    db[i, j] += dy[i, j]
                    dy[i, j] *= weight[j]
                    g[i, j] = dy[i, j] * x[i, j]
                T.reduce_sum(dy, of_g, dim=1)
                T.reduce_sum(g, of_gx, dim=1)
                for i, j in T.Parallel(block, columns):
                    dy[i, j] -= (of_g[i] + x[i, j] * of_gx[i]) / columns
                    dy[i, j] *= scale[row + i]
                T.copy(dy, DX[row, 0])
            for i, j in T.Parallel(block, columns):
                w[j] += dw[i, j]
                b[j] += db[i, j]
            T.finalize_reducer(w)
            T.finalize_reducer(b)

    return layer_norm_backward


def parts(rows, columns, dtype, threads=256):
    """The same, with columns divided among blocks."""
    count = -(-columns // CHUNK)
    shares = min(rows, max(1, MOST * 2 // count))

    @T.prim_func
    def layer_norm_backward(
        X: T.Tensor((rows, columns), dtype),
        DY: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        mean: T.Tensor((rows,), "float32"),
        scale: T.Tensor((rows,), "float32"),
        DX: T.Tensor((rows, columns), dtype),
        DW: T.Tensor((count * CHUNK,), "float32"),
        DB: T.Tensor((count * CHUNK,), "float32"),
    ):
        of_g, of_gx = (T.alloc_global((rows,), "float32") for _ in range(2))
        with T.Kernel(rows, threads=threads) as row:
            total, of_x = (T.alloc_reducer((1,), "float32") for _ in range(2))
            for j in T.Parallel(columns):
                g = T.cast(DY[row, j], "float32") * T.cast(W[j], "float32")
                total[0] += g
                of_x[0] += g * (T.cast(X[row, j], "float32") - mean[row]) * scale[row]
            T.finalize_reducer(total)
            T.finalize_reducer(of_x)
            T.copy(total, of_g[row])
            T.copy(of_x, of_gx[row])
        with T.Kernel(count, shares, threads=threads) as (part, share):
            place = slice(part * CHUNK, part * CHUNK + CHUNK)
            outs = DW[place], DB[place]
            w, b = (
                T.alloc_reducer((CHUNK,), "float32", scope="grid", out=out, deterministic=True)
                for out in outs
            )
            x, dy, dw, db, weight = (T.alloc_fragment((CHUNK,), "float32") for _ in range(5))
            T.copy(W[part * CHUNK], weight)
            T.clear(dw)
            T.clear(db)
            for t in T.serial(T.ceildiv(rows - share, shares)):
                row = t * shares + share
                T.copy(X[row, part * CHUNK], x)
                T.copy(DY[row, part * CHUNK], dy)
                for j in T.Parallel(CHUNK):
                    x[j] = (x[j] - mean[row]) * scale[row]
                    dw[j] += dy[j] * x[j]
                    db[j] += dy[j]
                    dy[j] = dy[j] * weight[j] - (of_g[row] + x[j] * of_gx[row]) / columns
                    dy[j] *= scale[row]
                T.copy(dy, DX[row, part * CHUNK])
            for j in T.Parallel(CHUNK):
                w[j] += dw[j]
                b[j] += db[j]
            T.finalize_reducer(w)
            T.finalize_reducer(b)

    return layer_norm_backward


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 301, 32768),
        columns=Option("columns of X, the length of W", 72, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args

    def reference(x, dy, w, mean, scale):
        normal = (x - mean[:, None]) * scale[:, None]
        g = dy * w
        of_g, of_gx = g.mean(1, keepdim=True), (g * normal).mean(1, keepdim=True)
        return (g - of_g - normal * of_gx) * scale[:, None], (dy * normal).sum(0), dy.sum(0)

    def peer(x, dy, w, mean, scale):
        statistics = mean[:, None], scale[:, None], w, w
        return torch.ops.aten.native_layer_norm_backward(
            dy, x, list(w.shape), *statistics, [True, True, True]
        )

    @example.compiled
    def compiled(x, dy, w, mean, scale):
        return reference(x.float(), dy.float(), w.float(), mean, scale)

    def case(rows, columns):
        kernel = example.compile(layer_norm_backward(rows, columns, args.dtype))
        x, dy = (example.normal(rows, columns, dtype=args.dtype) for _ in range(2))
        w = example.normal(columns, dtype=args.dtype)
        variance, mean = torch.var_mean(x.float(), 1, correction=0)
        inputs = x, dy, w, mean, torch.rsqrt(variance + EPSILON)
        dx = example.output(rows, columns, dtype=args.dtype)
        dw, db = (example.output(length_of(columns)) for _ in range(2))
        peers = {"torch": lambda: peer(*inputs), "compile": lambda: compiled(*inputs)}
        line = Case(lambda: kernel(*inputs, dx, dw, db), peers, 3 * x.nbytes)
        return line, inputs, (dx, dw, db)

    line, inputs, outputs = case(args.rows, args.columns)
    line.run()
    wanted = reference(*(a.double() for a in inputs))
    for name, got, want in zip(("dX", "dW", "dB"), outputs, wanted, strict=True):
        example.check(name, got if name == "dX" else got[: args.columns], want)
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
