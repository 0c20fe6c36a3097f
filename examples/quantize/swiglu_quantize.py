"""The gate of a SwiGLU layer whose result is float8 or float4 with scale factors.

Y = silu(G) * U of X = [G, U], in float32, then the largest of the columns that share a factor, and
the elements beside it: what the gemm behind the gate takes. Formats are those of
rms_norm_quantize.py.

    python swiglu_quantize.py [--rows 130] [--columns 1152] [--format mxfp8] [--target sm_90a]
                              [--device cpu]
"""

import torch
from scaled_outputs import FORMAT, check, check_columns, outputs

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.scaled import ATOM, FORMATS, quantised
from tilelang.tools.scaled_rows import shape_of_factors, store_quantised

#: of tables: rows of X, columns of Y
SHAPES = ((16384, 8192), (8192, 14336), (32768, 2048), (4096, 18432), (1000, 4096))


def swiglu_quantize(rows, columns, form, dtype="bfloat16", block=16, width=256, threads=128):
    """Returns Q (rows, columns) and S of X (rows, 2, columns) as a prim_func.

    ``columns`` is a multiple of those that share a factor.
    """
    covered = rows if form == "fp8" else -(-rows // ATOM) * ATOM

    @T.prim_func
    def swiglu_quantize(
        X: T.Tensor((rows, 2, columns), dtype),
        Q: T.Tensor((rows, columns), FORMATS[form].elements),
        S: T.Tensor(shape_of_factors(rows, columns, form), FORMATS[form].factors),
    ):
        grid = T.ceildiv(columns, width), T.ceildiv(covered, block)
        with T.Kernel(*grid, threads=threads) as (bx, by):
            gate, up = (T.alloc_fragment((block, width), "float32") for _ in range(2))
            row, column = by * block, bx * width
            T.copy(X[row : row + block, 0, column : column + width], gate)
            T.copy(X[row : row + block, 1, column : column + width], up)
            for i, j in T.Parallel(block, width):
                up[i, j] *= gate[i, j] / (1 + T.exp(-gate[i, j]))
            store_quantised(up, Q, S, form, row, column)

    return swiglu_quantize


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 130, 16384),
        columns=Option("columns of Y, half those of X", 1152, 8192),
        format=FORMAT,
    )
    check_columns(example)
    args = example.args

    def gated(x):
        return torch.nn.functional.silu(x[:, 0]) * x[:, 1]

    def by_torch(x):
        return quantised(gated(x.float()), args.format)

    compiled = example.compiled(by_torch)

    def case(rows, columns):
        kernel = example.compile(swiglu_quantize(rows, columns, args.format))
        x = example.normal(rows, 2, columns, dtype="bfloat16")
        q, s = outputs(example, rows, columns)
        peers = {"torch": lambda: by_torch(x), "compiled": lambda: compiled(x)}
        moved = x.nbytes + q.nbytes + s.nbytes
        return Case(lambda: kernel(x, q, s), peers, moved), x, (q, s)

    line, x, (q, s) = case(args.rows, args.columns)
    line.run()
    example.verify(check, example, q, s, gated(x.double()))
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
