"""GEMMs in spellings of their users, for ``benchmark/blackwell_spellings.py``.

As in ``blackwell_programs.py``, no program names a barrier, tensor memory, a role or a swizzle.
"""

from __future__ import annotations

import tilelang.language as T


def gemm(m, n, k, rows=128, columns=128, depth=64, stages=3, threads=128, dtype="bfloat16"):
    """C (m, n) = A B with other tiles."""

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((rows, depth), dtype)
            b = T.alloc_shared((depth, columns), dtype)
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[by * rows, step * depth], a)
                T.copy(B[step * depth, bx * columns], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * rows, bx * columns])

    return main


def swiglu(m, n, k, rows=128, columns=128, depth=64, dtype="bfloat16"):
    """C = silu(A G^T) * (A U^T), by two gemms of an iteration."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), dtype),
        G: T.Tensor((n, k), dtype),
        U: T.Tensor((n, k), dtype),
        C: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=128) as (bx, by):
            a = T.alloc_shared((rows, depth), dtype)
            g = T.alloc_shared((columns, depth), dtype)
            u = T.alloc_shared((columns, depth), dtype)
            gate = T.alloc_fragment((rows, columns), "float32")
            up = T.alloc_fragment((rows, columns), "float32")
            T.clear(gate)
            T.clear(up)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=2):
                T.copy(A[by * rows, step * depth], a)
                T.copy(G[bx * columns, step * depth], g)
                T.copy(U[bx * columns, step * depth], u)
                T.gemm(a, g, gate, transpose_B=True)
                T.gemm(a, u, up, transpose_B=True)
            for i, j in T.Parallel(rows, columns):
                up[i, j] = up[i, j] * (gate[i, j] / (1.0 + T.exp(-gate[i, j])))
            T.copy(up, C[by * rows, bx * columns])

    return main


def epilogue(m, n, k, function, tile=128, depth=64, dtype="bfloat16"):
    """C = function(A B), by the name of an activation."""
    functions = {
        "gelu": lambda x: 0.5 * x * (1.0 + T.erf(x * 0.7071067811865476)),
        "sigmoid": lambda x: T.sigmoid(x),
        "silu": lambda x: x / (1.0 + T.exp(-x)),
        "softplus": lambda x: T.log(1.0 + T.exp(x)),
        "tanh": lambda x: T.tanh(x),
    }
    apply = functions[function]

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=128) as (bx, by):
            a = T.alloc_shared((tile, depth), dtype)
            b = T.alloc_shared((depth, tile), dtype)
            c = T.alloc_fragment((tile, tile), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=3):
                T.copy(A[by * tile, step * depth], a)
                T.copy(B[step * depth, bx * tile], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(tile, tile):
                c[i, j] = apply(c[i, j])
            T.copy(c, C[by * tile, bx * tile])

    return main


def dequantised(m, n, k, group=128, rows=128, columns=128, depth=64, dtype="bfloat16"):
    """C = A W^T, W of four bits in bytes (n, k / 2), with a factor for ``group`` of a row."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), dtype),
        W: T.Tensor((n, k // 2), "uint8"),
        S: T.Tensor((n, k // group), dtype),
        C: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=128) as (bx, by):
            a = T.alloc_shared((rows, depth), dtype)
            packed = T.alloc_shared((columns, depth // 2), "uint8")
            w = T.alloc_shared((columns, depth), dtype)
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=3):
                T.copy(A[by * rows, step * depth], a)
                T.copy(W[bx * columns, step * depth // 2], packed)
                for i, j in T.Parallel(columns, depth):
                    nibble = (packed[i, j // 2] >> T.cast(4 * (j % 2), "uint8")) & 15
                    factor = S[bx * columns + i, step * depth // group]
                    w[i, j] = (T.cast(nibble, dtype) - T.cast(8, dtype)) * factor
                T.gemm(a, w, c, transpose_B=True)
            T.copy(c, C[by * rows, bx * columns])

    return main


def scaled_fp8(m, n, k, rows=128, columns=128, depth=128):
    """C = A B^T in float8_e4m3fn, with float32 factors of 1 x 128 of A and 128 x 128 of B."""
    element = "float8_e4m3fn"

    @T.prim_func
    def main(
        A: T.Tensor((m, k), element),
        B: T.Tensor((n, k), element),
        SA: T.Tensor((m, T.ceildiv(k, depth)), "float32"),
        SB: T.Tensor((T.ceildiv(n, columns), T.ceildiv(k, depth)), "float32"),
        C: T.Tensor((m, n), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=128) as (bx, by):
            a = T.alloc_shared((rows, depth), element)
            b = T.alloc_shared((columns, depth), element)
            factor = T.alloc_fragment((rows,), "float32")
            partial = T.alloc_fragment((rows, columns), "float32")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=4):
                T.copy(A[by * rows, step * depth], a)
                T.copy(B[bx * columns, step * depth], b)
                T.clear(partial)
                for i in T.Parallel(rows):
                    factor[i] = SA[by * rows + i, step] * SB[bx, step]
                T.gemm(a, b, partial, transpose_B=True)
                for i, j in T.Parallel(rows, columns):
                    c[i, j] += partial[i, j] * factor[i]
            T.copy(c, C[by * rows, bx * columns])

    return main


def convolution(images, side, channels, features, window=3, tile=128, depth=64, dtype="bfloat16"):
    """Y (places, features) of X (images, side, side, channels), padded by ``window // 2``."""
    places, steps = images * side * side, window * window * channels
    pad = window // 2

    @T.prim_func
    def main(
        X: T.Tensor((images, side, side, channels), dtype),
        W: T.Tensor((steps, features), dtype),
        Y: T.Tensor((places, features), dtype),
    ):
        with T.Kernel(T.ceildiv(features, tile), T.ceildiv(places, tile), threads=128) as (bx, by):
            x = T.alloc_shared((tile, depth), dtype)
            w = T.alloc_shared((depth, tile), dtype)
            y = T.alloc_fragment((tile, tile), "float32")
            T.clear(y)
            for step in T.Pipelined(T.ceildiv(steps, depth), num_stages=3):
                for i, j in T.Parallel(tile, depth):
                    at, m = step * depth + j, by * tile + i
                    row = m % (side * side) // side + at // (window * channels) - pad
                    column = m % side + at // channels % window - pad
                    inside = (row >= 0) & (column >= 0) & (row < side) & (column < side)
                    x[i, j] = T.if_then_else(
                        inside, X[m // (side * side), row, column, at % channels], 0
                    )
                T.copy(W[step * depth, bx * tile], w)
                T.gemm(x, w, y)
            T.copy(y, Y[by * tile, bx * tile])

    return main


def split_k(m, n, k, parts, tile=128, depth=64, dtype="bfloat16"):
    """C (float32) += A B by ``parts`` blocks a tile, which add by atomics."""
    share = k // parts

    @T.prim_func
    def main(
        A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), parts, threads=128) as (bx, by, bz):
            a = T.alloc_shared((tile, depth), dtype)
            b = T.alloc_shared((depth, tile), dtype)
            c = T.alloc_fragment((tile, tile), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(share, depth), num_stages=3):
                T.copy(A[by * tile, bz * share + step * depth], a)
                T.copy(B[bz * share + step * depth, bx * tile], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(tile, tile):
                T.atomic_add(C[by * tile + i, bx * tile + j], c[i, j])

    return main


def grouped(groups, rows_of_group, n, k, tile=128, depth=64, dtype="bfloat16"):
    """C = A B[group]: each group has as many rows, whose ends a tensor holds, as tiles."""
    m = groups * rows_of_group

    @T.prim_func
    def main(
        A: T.Tensor((m, k), dtype),
        B: T.Tensor((groups, k, n), dtype),
        ends: T.Tensor((groups,), "int32"),
        C: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=128) as (bx, by):
            a = T.alloc_shared((tile, depth), dtype)
            b = T.alloc_shared((depth, tile), dtype)
            c = T.alloc_fragment((tile, tile), "float32")
            group = T.alloc_var("int32")
            group = 0
            for i in T.serial(groups):
                if by * tile >= ends[i]:
                    group = i + 1
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=3):
                T.copy(A[by * tile, step * depth], a)
                T.copy(B[group, step * depth, bx * tile], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * tile, bx * tile])

    return main
