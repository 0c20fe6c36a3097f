"""dW and dB of LayerNorm over many short rows, in one launch that reads X and dY once.

The sums over rows are reducers of the grid: each block sums up its share of the rows in registers,
and the block that comes last adds up what all have left, in their order. So the results are the
same bit by bit in every run.

    python gradients.py [--rows 5000] [--columns 16] [--dtype float16] [--target sm_90a]
                        [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

EPSILON = 1e-5
SHAPES = ((1152000, 16), (1000003, 16), (262144, 64), (65536, 256), (300000, 100))
MOST = 500  # blocks


def gradients(rows, columns, dtype, threads=128):
    """Returns dW and dB (columns,) of X and dY (rows, columns), mean and scale (rows,)."""
    share = max(1, -(-rows // MOST))

    @T.prim_func
    def gradients(
        X: T.Tensor((rows, columns), dtype),
        DY: T.Tensor((rows, columns), dtype),
        mean: T.Tensor((rows,), "float32"),
        scale: T.Tensor((rows,), "float32"),
        DW: T.Tensor((columns,), "float32"),
        DB: T.Tensor((columns,), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, share), threads=threads) as bx:
            w = T.alloc_reducer((columns,), "float32", scope="grid", out=DW, deterministic=True)
            b = T.alloc_reducer((columns,), "float32", scope="grid", out=DB, deterministic=True)
            count = T.min(share, rows - bx * share) if rows % share else share
            for i, j in T.Parallel(count, columns):
                row = bx * share + i
                g = T.cast(DY[row, j], "float32")
                w[j] += g * (T.cast(X[row, j], "float32") - mean[row]) * scale[row]
                b[j] += g
            T.finalize_reducer(w)
            T.finalize_reducer(b)

    return gradients


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 5000, 1152000),
        columns=Option("columns of X, the length of W", 16, 16),
        dtype=Option("element type", "float16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args

    def peer(x, dy, mean, scale):
        weight = torch.ones(x.shape[1], dtype=x.dtype, device=x.device)
        statistics = mean[:, None], scale[:, None], weight, weight
        return torch.ops.aten.native_layer_norm_backward(
            dy, x, [x.shape[1]], *statistics, [False, True, True]
        )

    @example.compiled
    def compiled(x, dy, mean, scale):
        dy = dy.float()
        normal = (x.float() - mean[:, None]) * scale[:, None]
        return (dy * normal).sum(0), dy.sum(0)

    def case(rows, columns):
        kernel = example.compile(gradients(rows, columns, args.dtype))
        x, dy = (example.normal(rows, columns, dtype=args.dtype) for _ in range(2))
        variance, mean = torch.var_mean(x.float(), 1, correction=0)
        inputs = x, dy, mean, torch.rsqrt(variance + EPSILON)
        dw, db = example.output(columns), example.output(columns)
        peers = {"torch": lambda: peer(*inputs), "compile": lambda: compiled(*inputs)}
        moved = 2 * x.nbytes + 2 * mean.nbytes
        return Case(lambda: kernel(*inputs, dw, db), peers, moved), inputs, (dw, db)

    line, inputs, outputs = case(args.rows, args.columns)
    line.run()
    x, dy, mean, scale = (a.double() for a in inputs)
    normal = (x - mean[:, None]) * scale[:, None]
    example.check("dW", outputs[0], (dy * normal).sum(0))
    example.check("dB", outputs[1], dy.sum(0))
    example.speed(line.run, line.peers["torch"], line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
