"""Kernels as users write them; each function gives a ``T.prim_func``."""

from __future__ import annotations

from typing import Any

import tilelang.language as T


def elementwise(m: int, n: int, dtype: str, block_m: int = 32, block_n: int = 64) -> Any:
    """C = A * B + bias, bias broadcast along rows; any sizes."""

    @T.prim_func
    def kernel(
        A: T.Tensor((m, n), dtype),
        B: T.Tensor((m, n), dtype),
        bias: T.Tensor((n,), dtype),
        C: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=128) as (bx, by):
            for i, j in T.Parallel(block_m, block_n):
                C[by * block_m + i, bx * block_n + j] = (
                    A[by * block_m + i, bx * block_n + j] * B[by * block_m + i, bx * block_n + j]
                    + bias[bx * block_n + j]
                )

    return kernel


def dynamic_scale(dtype: str, block: int = 64) -> Any:
    """B = A * s for a matrix whose sizes are known at run time."""
    m = T.dynamic("m")
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype), s: T.float32):
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block), threads=128) as (bx, by):
            tile = T.alloc_fragment((block, block), dtype)
            T.copy(A[by * block, bx * block], tile)
            for i, j in T.Parallel(block, block):
                tile[i, j] = tile[i, j] * s
            T.copy(tile, B[by * block, bx * block])

    return kernel


def transpose(m: int, n: int, dtype: str, block: int = 64) -> Any:
    """B = A^T through shared memory."""

    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), B: T.Tensor((n, m), dtype)):
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block), threads=128) as (bx, by):
            tile = T.alloc_shared((block, block), dtype)
            T.copy(A[by * block, bx * block], tile)
            for i, j in T.Parallel(block, block):
                B[bx * block + i, by * block + j] = tile[j, i]

    return kernel


def softmax(m: int, n: int, dtype: str, rows: int = 4, threads: int = 128) -> Any:
    """Row softmax in one pass over fragments."""

    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as bx:
            x = T.alloc_fragment((rows, n), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(A[bx * rows, 0], x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = T.exp2((x[i, j] - largest[i]) * 1.4426950408889634)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, B[bx * rows, 0])

    return kernel


def rms_norm(m: int, n: int, dtype: str, rows: int = 2, threads: int = 128) -> Any:
    """B = A / rms(A) * w."""

    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), w: T.Tensor((n,), dtype), B: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as bx:
            x = T.alloc_fragment((rows, n), "float32")
            squares = T.alloc_fragment((rows, n), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(A[bx * rows, 0], x)
            for i, j in T.Parallel(rows, n):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(rows):
                total[i] = T.rsqrt(total[i] / n + 1e-6)
            for i, j in T.Parallel(rows, n):
                if bx * rows + i < m:
                    B[bx * rows + i, j] = x[i, j] * total[i] * w[j]

    return kernel


def layer_norm(m: int, n: int, dtype: str, rows: int = 2, threads: int = 128) -> Any:
    """B = (A - mean) / std * w + b."""

    @T.prim_func
    def kernel(
        A: T.Tensor((m, n), dtype),
        w: T.Tensor((n,), dtype),
        b: T.Tensor((n,), dtype),
        B: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as bx:
            x = T.alloc_fragment((rows, n), "float32")
            mean = T.alloc_fragment((rows,), "float32")
            variance = T.alloc_fragment((rows,), "float32")
            squares = T.alloc_fragment((rows, n), "float32")
            T.copy(A[bx * rows, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = x[i, j] - mean[i] / n
            for i, j in T.Parallel(rows, n):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, variance, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = x[i, j] * T.rsqrt(variance[i] / n + 1e-5) * w[j] + b[j]
            T.copy(x, B[bx * rows, 0])

    return kernel


def reduction(m: int, n: int, dtype: str, op: str, dim: int, clear: bool, threads: int) -> Any:
    """out = reduce(A, dim), or combined with the old out."""
    size = m if dim == 1 else n
    reduce = getattr(T, f"reduce_{op}")

    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), out: T.Tensor((size,), dtype)):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_fragment((m, n), dtype)
            result = T.alloc_fragment((size,), dtype)
            T.copy(A, tile)
            if not clear:
                T.copy(out, result)
            reduce(tile, result, dim=dim, clear=clear)
            T.copy(result, out)

    return kernel


def histogram(n: int, bins: int, block: int = 256) -> Any:
    """counts[k] += number of k in A."""

    @T.prim_func
    def kernel(A: T.Tensor((n,), "int32"), counts: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                if bx * block + i < n:
                    T.atomic_add(counts[A[bx * block + i]], 1)

    return kernel


def simt_matmul(m: int, n: int, k: int, dtype: str, block: int = 32, block_k: int = 16) -> Any:
    """C = A @ B with one thread for each 2 x 4 outputs, written with thread indices."""

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block), threads=128) as (bx, by):
            a = T.alloc_shared((block, block_k), dtype)
            b = T.alloc_shared((block_k, block), dtype)
            acc = T.alloc_local((2, 4), "float32")
            tid = T.get_thread_binding()
            row = (tid // 8) * 2
            col = (tid % 8) * 4
            T.clear(acc)
            for step in T.serial(T.ceildiv(k, block_k)):
                T.copy(A[by * block, step * block_k], a)
                T.copy(B[step * block_k, bx * block], b)
                for kk in T.serial(block_k):
                    for i in T.unroll(2):
                        for j in T.unroll(4):
                            acc[i, j] += T.cast(a[row + i, kk], "float32") * T.cast(
                                b[kk, col + j], "float32"
                            )
            for i in T.unroll(2):
                for j in T.unroll(4):
                    if by * block + row + i < m and bx * block + col + j < n:
                        C[by * block + row + i, bx * block + col + j] = acc[i, j]

    return kernel
