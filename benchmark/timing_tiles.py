"""Kernels of this compiler, for benchmark/timing.py, beside those of gemm and row benchmarks."""

from __future__ import annotations

import tilelang
import tilelang.language as T


@tilelang.jit
def add(n, block=4096, threads=256, dtype="float32"):
    """Z = X + Y of n elements."""

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype), Z: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=threads) as b:
            for i in T.Parallel(block):
                Z[b * block + i] = X[b * block + i] + Y[b * block + i]

    return main


@tilelang.jit
def gelu(n, block=4096, threads=256, dtype="bfloat16"):
    """Y = X / (1 + exp(-2 inner(X))): the approximation of GELU by tanh."""

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=threads) as b:
            for i in T.Parallel(block):
                x = T.cast(X[b * block + i], "float32")
                inner = x + 0.044715 * x * x * x
                Y[b * block + i] = x / (1.0 + T.exp2(inner * -2.302208))

    return main


@tilelang.jit
def silu_mul(n, block=4096, threads=256, dtype="bfloat16"):
    """Z = X / (1 + exp(-X)) Y."""

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype), Z: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=threads) as b:
            for i in T.Parallel(block):
                x = T.cast(X[b * block + i], "float32")
                Z[b * block + i] = x / (1.0 + T.exp2(x * -1.442695)) * Y[b * block + i]

    return main


@tilelang.jit
def convert(n, block=4096, threads=256, source="float32", target="bfloat16"):
    """Y = X in another type."""

    @T.prim_func
    def main(X: T.Tensor((n,), source), Y: T.Tensor((n,), target)):
        with T.Kernel(T.ceildiv(n, block), threads=threads) as b:
            for i in T.Parallel(block):
                Y[b * block + i] = T.cast(X[b * block + i], target)

    return main


@tilelang.jit
def transpose(m, n, tile=64, threads=256, dtype="float32"):
    """Y (n, m) of X (m, n) through shared memory."""

    @T.prim_func
    def main(X: T.Tensor((m, n), dtype), Y: T.Tensor((n, m), dtype)):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=threads) as (bx, by):
            x = T.alloc_shared((tile, tile), dtype)
            y = T.alloc_fragment((tile, tile), dtype)
            T.copy(X[by * tile, bx * tile], x)
            for i, j in T.Parallel(tile, tile):
                y[i, j] = x[j, i]
            T.copy(y, Y[bx * tile, by * tile])

    return main


@tilelang.jit
def column_sum(m, n, rows=64, columns=128, threads=128):
    """Y (n,) of X (m, n), float32."""

    @T.prim_func
    def main(X: T.Tensor((m, n), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, columns), threads=threads) as b:
            x = T.alloc_fragment((rows, columns), "float32")
            total = T.alloc_fragment((columns,), "float32")
            T.clear(total)
            for i in T.serial(T.ceildiv(m, rows)):
                T.copy(X[i * rows, b * columns], x)
                T.reduce_sum(x, total, dim=0, clear=False)
            T.copy(total, Y[b * columns])

    return main
