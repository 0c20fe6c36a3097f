"""dX, dW and dB of LayerNorm in one launch that reads X and dY once.

Each block takes every n-th tile of rows. It keeps sums for dW and dB in registers all the while;
at the end they are reduced over the block, and over the grid by the block that comes last.

    python layer_norm_backward.py [--rows 301] [--columns 72] [--dtype bfloat16] [--target sm_90a]
                                  [--device cpu]
"""

import torch
from rms_norm import EPSILON, tile_of

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

SHAPES = ((1152000, 16), (262144, 64), (65536, 1024), (32768, 4096), (32768, 5000))
MOST = 264  # blocks: two for each SM


def layer_norm_backward(rows, columns, dtype):
    """Returns dX (rows, columns), dW and dB (columns,), of X, dY, W and the rows' statistics."""
    block, threads = tile_of(columns)
    tiles = -(-rows // block)
    blocks = min(MOST, tiles)

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

    @torch.compile(dynamic=False)
    def compiled(x, dy, w, mean, scale):
        return reference(x.float(), dy.float(), w.float(), mean, scale)

    def case(rows, columns):
        kernel = example.compile(layer_norm_backward(rows, columns, args.dtype))
        x, dy = (example.normal(rows, columns, dtype=args.dtype) for _ in range(2))
        w = example.normal(columns, dtype=args.dtype)
        variance, mean = torch.var_mean(x.float(), 1, correction=0)
        inputs = x, dy, w, mean, torch.rsqrt(variance + EPSILON)
        dx = example.output(rows, columns, dtype=args.dtype)
        dw, db = example.output(columns), example.output(columns)
        peers = {"torch": lambda: peer(*inputs), "compile": lambda: compiled(*inputs)}
        line = Case(lambda: kernel(*inputs, dx, dw, db), peers, 3 * x.nbytes)
        return line, inputs, (dx, dw, db)

    line, inputs, outputs = case(args.rows, args.columns)
    line.run()
    wanted = reference(*(a.double() for a in inputs))
    for name, got, want in zip(("dX", "dW", "dB"), outputs, wanted, strict=True):
        example.check(name, got, want)
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
