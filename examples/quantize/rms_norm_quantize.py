"""RMSNorm of rows whose result is float8 or float4 with scale factors, for the next gemm.

A block has whole rows in registers. They are summed, scaled, and quantised without a way through
memory: in fp8 128 columns share a float32, as examples/gemm/gemm_fp8_block_scaled.py takes them; in
mxfp8 32 share a power of two, in nvfp4 16 share a float8, in the atoms that
examples/gemm/gemm_nvfp4.py takes.

    python rms_norm_quantize.py [--rows 130] [--columns 1152] [--format mxfp8] [--target sm_90a]
                                [--device cpu]
"""

import torch
from scaled_outputs import FORMAT, check, check_columns, outputs

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.rows import LONGEST, tile_of
from tilelang.tools.scaled import ATOM, FORMATS, quantised
from tilelang.tools.scaled_rows import shape_of_factors, store_quantised

#: of tables: rows and columns of X
SHAPES = ((32768, 4096), (16384, 8192), (65536, 2048), (4096, 7168), (1000, 16384))

EPSILON = 1e-5


def rms_norm_quantize(rows, columns, form, dtype="bfloat16"):
    """Returns Q (rows, columns) and S of X (rows, columns) and W (columns,) as a prim_func.

    ``columns`` is a multiple of those that share a factor, and at most 16384.
    """
    unit = FORMATS[form].depth if form != "fp8" else FORMATS[form].shared
    width = max(-(-columns // unit) * unit, 2 * FORMATS[form].shared)  # groups of more than one
    block, threads = tile_of(width)
    covered = rows if form == "fp8" else -(-rows // ATOM) * ATOM

    @T.prim_func
    def rms_norm_quantize(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        Q: T.Tensor((rows, columns), FORMATS[form].elements),
        S: T.Tensor(shape_of_factors(rows, columns, form), FORMATS[form].factors),
    ):
        with T.Kernel(T.ceildiv(covered, block), threads=threads) as bx:
            x, square = (T.alloc_fragment((block, width), "float32") for _ in range(2))
            weight = T.alloc_fragment((width,), dtype)
            total = T.alloc_fragment((block,), "float32")
            T.copy(X[bx * block, 0], x)
            T.copy(W[0], weight)
            for i, j in T.Parallel(block, width):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(block):
                total[i] = T.rsqrt(total[i] / columns + EPSILON)
            for i, j in T.Parallel(block, width):
                x[i, j] *= total[i] * weight[j]
            store_quantised(x, Q, S, form, bx * block, 0)

    return rms_norm_quantize


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 130, 32768),
        columns=Option("columns of X, the length of W", 1152, 4096, most=LONGEST),
        format=FORMAT,
    )
    check_columns(example)
    args = example.args

    def norm(x, w):
        return torch.nn.functional.rms_norm(x, x.shape[-1:], w, EPSILON)

    def by_torch(x, w):
        return quantised(norm(x.float(), w.float()), args.format)

    compiled = example.compiled(by_torch)

    def case(rows, columns):
        kernel = example.compile(rms_norm_quantize(rows, columns, args.format))
        x = example.normal(rows, columns, dtype="bfloat16")
        w = example.normal(columns, dtype="bfloat16")
        q, s = outputs(example, rows, columns)
        peers = {"torch": lambda: by_torch(x, w), "compiled": lambda: compiled(x, w)}
        moved = x.nbytes + q.nbytes + s.nbytes
        return Case(lambda: kernel(x, w, q, s), peers, moved), (x, w), (q, s)

    line, (x, w), (q, s) = case(args.rows, args.columns)
    line.run()
    example.verify(check, example, q, s, norm(x.double(), w.double()))
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
