"""Programs on rows in spellings of their users, for ``benchmark/blackwell_spellings.py``.

As in ``blackwell_programs.py``, no program names a barrier, a role or a swizzle.
"""

from __future__ import annotations

import tilelang.language as T


def softmax(rows, columns, dtype="bfloat16", threads=128):
    """Y = exp(X - max) / sum, a row a block, by T.exp and a division."""

    @T.prim_func
    def main(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(rows, threads=threads) as row:
            x = T.alloc_fragment((1, columns), "float32")
            highest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_max(x, highest, dim=1)
            for i, j in T.Parallel(1, columns):
                x[i, j] = T.exp(x[i, j] - highest[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, columns):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[row, 0])

    return main


def layer_norm(rows, columns, dtype="bfloat16"):
    """Y = (X - mean) / sqrt(variance + 1e-5) * W + B, a row a block."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        B: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(rows, threads=128) as row:
            x = T.alloc_fragment((1, columns), "float32")
            square = T.alloc_fragment((1, columns), "float32")
            mean = T.alloc_fragment((1,), "float32")
            variance = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(1, columns):
                x[i, j] = x[i, j] - mean[i] / columns
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, variance, dim=1)
            for i, j in T.Parallel(1, columns):
                scaled = x[i, j] / T.sqrt(variance[i] / columns + 1e-5)
                Y[row, j] = scaled * W[j] + B[j]

    return main


def residual_norm(rows, columns, dtype="bfloat16"):
    """R += X and Y = R / sqrt(mean(R * R) + 1e-6) * W, a row a block."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), dtype),
        R: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(rows, threads=128) as row:
            x = T.alloc_fragment((1, columns), "float32")
            r = T.alloc_fragment((1, columns), "float32")
            square = T.alloc_fragment((1, columns), "float32")
            norm = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.copy(R[row, 0], r)
            for i, j in T.Parallel(1, columns):
                r[i, j] = r[i, j] + x[i, j]
            T.copy(r, R[row, 0])
            for i, j in T.Parallel(1, columns):
                square[i, j] = r[i, j] * r[i, j]
            T.reduce_sum(square, norm, dim=1)
            for i, j in T.Parallel(1, columns):
                r[i, j] = r[i, j] * T.rsqrt(norm[i] / columns + 1e-6) * W[j]
            T.copy(r, Y[row, 0])

    return main


def quantised_rows(rows, columns, dtype="bfloat16"):
    """Y = X / S in float8_e4m3fn, where S is the largest of a row over 448."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), dtype),
        S: T.Tensor((rows,), "float32"),
        Y: T.Tensor((rows, columns), "float8_e4m3fn"),
    ):
        with T.Kernel(rows, threads=128) as row:
            x = T.alloc_fragment((1, columns), "float32")
            highest = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_absmax(x, highest, dim=1)
            for i in T.Parallel(1):
                highest[i] = T.max(highest[i], 1e-4) / 448.0
                S[row] = highest[i]
            for i, j in T.Parallel(1, columns):
                Y[row, j] = T.cast(T.clamp(x[i, j] / highest[i], -448.0, 448.0), "float8_e4m3fn")

    return main


def quantised_groups(rows, columns, group=128, tall=32, dtype="bfloat16"):
    """Y = X / S in float8_e4m3fn, where S is the largest of ``group`` of a row over 448."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), dtype),
        S: T.Tensor((rows, T.ceildiv(columns, group)), "float32"),
        Y: T.Tensor((rows, columns), "float8_e4m3fn"),
    ):
        with T.Kernel(T.ceildiv(columns, group), T.ceildiv(rows, tall), threads=128) as (bx, by):
            x = T.alloc_fragment((tall, group), "float32")
            highest = T.alloc_fragment((tall,), "float32")
            factor = T.alloc_fragment((tall,), "float32")
            y = T.alloc_fragment((tall, group), "float8_e4m3fn")
            T.copy(X[by * tall, bx * group], x)
            T.reduce_absmax(x, highest, dim=1)
            for i in T.Parallel(tall):
                factor[i] = T.max(highest[i], 1e-4) / 448.0
                S[by * tall + i, bx] = factor[i]
            for i, j in T.Parallel(tall, group):
                y[i, j] = T.clamp(x[i, j] / factor[i], -448.0, 448.0)
            T.copy(y, Y[by * tall, bx * group])

    return main


def elementwise(rows, columns, function, dtype="bfloat16", tall=64, wide=128):
    """Y = function(X, G), by the name of an activation."""
    functions = {
        "gelu": lambda x, g: 0.5 * x * (1.0 + T.erf(x * 0.7071067811865476)) * g,
        "gelu_tanh": lambda x, g: (
            0.5 * x * (1.0 + T.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) * g
        ),
        "log": lambda x, g: T.log(T.abs(x) + 1.0) * g,
        "pow": lambda x, g: T.pow(T.abs(x), 1.5) * g,
        "sigmoid": lambda x, g: T.sigmoid(x) * g,
        "silu": lambda x, g: x / (1.0 + T.exp(-x)) * g,
        "sin": lambda x, g: T.sin(x) * g,
        "softplus": lambda x, g: T.log(1.0 + T.exp(x)) * g,
        "sqrt": lambda x, g: T.sqrt(T.abs(x)) * g,
        "tanh": lambda x, g: T.tanh(x) * g,
    }
    apply = functions[function]

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), dtype),
        G: T.Tensor((rows, columns), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(T.ceildiv(columns, wide), T.ceildiv(rows, tall), threads=128) as (bx, by):
            for i, j in T.Parallel(tall, wide):
                x = T.cast(X[by * tall + i, bx * wide + j], "float32")
                g = T.cast(G[by * tall + i, bx * wide + j], "float32")
                Y[by * tall + i, bx * wide + j] = apply(x, g)

    return main


def transpose(rows, columns, tile=64, dtype="bfloat16"):
    """B = A^T without a shared tile."""

    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((columns, rows), dtype)):
        with T.Kernel(T.ceildiv(columns, tile), T.ceildiv(rows, tile), threads=256) as (bx, by):
            for i, j in T.Parallel(tile, tile):
                B[bx * tile + i, by * tile + j] = A[by * tile + j, bx * tile + i]

    return main
