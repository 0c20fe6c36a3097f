"""Straightforward programs for ``benchmark/blackwell.py``: tiles, copies, GEMMs and parallel loops.

No program names a barrier, tensor memory, a pair of CTAs, a cluster, a role or a swizzle. Each
function returns a prim_func. Tiles are 128 x 128 with 128 threads unless the arguments say
otherwise, and the depth of a GEMM's tiles is 128 bytes.
"""

from __future__ import annotations

import math

import tilelang.language as T


def gemm(
    m, n, k, order="NT", tile=(128, 128), threads=128, dtype="bfloat16", out="bfloat16", batch=None
):
    """C (m, n) = A B, or as many products as ``batch``; ``order`` as BLAS names the layout of B."""
    rows, columns = tile
    depth = 1024 // T.dtype(dtype).bits
    lead = (batch,) if batch else ()
    transposed = order[1] == "T"

    def of_b(column, row):
        return (column, row) if transposed else (row, column)

    @T.prim_func
    def main(
        A: T.Tensor((*lead, m, k), dtype),
        B: T.Tensor((*lead, *of_b(n, k)), dtype),
        C: T.Tensor((*lead, m, n), out),
    ):
        grid = T.ceildiv(n, columns), T.ceildiv(m, rows), *lead
        with T.Kernel(*grid, threads=threads) as block:
            x, y, z = block[0] * columns, block[1] * rows, block[2:]
            left = T.alloc_shared((rows, depth), dtype)
            right = T.alloc_shared(of_b(columns, depth), dtype)
            sums = T.alloc_fragment((rows, columns), "float32")
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=3):
                T.copy(A[(*z, y, step * depth)], left)
                T.copy(B[(*z, *of_b(x, step * depth))], right)
                T.gemm(left, right, sums, transpose_B=transposed)
            T.copy(sums, C[(*z, y, x)])

    return main


def gemm_bias_gelu(m, n, k, dtype="bfloat16"):
    """C = gelu(A B^T + bias), by the approximation with tanh."""
    tile, depth = 128, 64

    @T.prim_func
    def main(
        A: T.Tensor((m, k), dtype),
        B: T.Tensor((n, k), dtype),
        bias: T.Tensor((n,), dtype),
        C: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=128) as (bx, by):
            left = T.alloc_shared((tile, depth), dtype)
            right = T.alloc_shared((tile, depth), dtype)
            x = T.alloc_fragment((tile, tile), "float32")
            T.clear(x)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=3):
                T.copy(A[by * tile, step * depth], left)
                T.copy(B[bx * tile, step * depth], right)
                T.gemm(left, right, x, transpose_B=True)
            for i, j in T.Parallel(tile, tile):
                x[i, j] += bias[bx * tile + j]
            for i, j in T.Parallel(tile, tile):
                cube = x[i, j] * x[i, j] * x[i, j]
                inner = math.sqrt(2 / math.pi) * (x[i, j] + 0.044715 * cube)
                x[i, j] = 0.5 * x[i, j] * (1 + T.tanh(inner))
            T.copy(x, C[by * tile, bx * tile])

    return main


def mxfp8(m, n, k):
    """C (m, n) = (A * SA) (B * SB)^T in float8_e4m3fn; 32 elements of a row share a factor."""
    tile, block = 128, 32
    blocks = tile // block
    element, factor = "float8_e4m3fn", "float8_e8m0fnu"

    @T.prim_func
    def main(
        A: T.Tensor((m, k), element),
        B: T.Tensor((n, k), element),
        SA: T.Tensor((m, k // block), factor),
        SB: T.Tensor((n, k // block), factor),
        C: T.Tensor((m, n), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=128) as (bx, by):
            left = T.alloc_shared((tile, tile), element)
            right = T.alloc_shared((tile, tile), element)
            of_left = T.alloc_shared((tile, blocks), factor)
            of_right = T.alloc_shared((tile, blocks), factor)
            sums = T.alloc_fragment((tile, tile), "float32")
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(k, tile), num_stages=3):
                T.copy(A[by * tile, step * tile], left)
                T.copy(B[bx * tile, step * tile], right)
                T.copy(SA[by * tile, step * blocks], of_left)
                T.copy(SB[bx * tile, step * blocks], of_right)
                T.gemm(left, right, sums, transpose_B=True, scale_A=of_left, scale_B=of_right)
            T.copy(sums, C[by * tile, bx * tile])

    return main


def attention(batch, heads, length, dim, causal=False, kv_heads=None, dtype="bfloat16"):
    """O = softmax(Q K^T / sqrt(dim)) V of tensors (batch, length, heads, dim)."""
    tile = 128
    groups = heads // (kv_heads or heads)
    scale = math.log2(math.e) / math.sqrt(dim)
    heads_of_q = T.Tensor((batch, length, heads, dim), dtype)
    heads_of_kv = T.Tensor((batch, length, heads // groups, dim), dtype)

    @T.prim_func
    def main(Q: heads_of_q, K: heads_of_kv, V: heads_of_kv, O: heads_of_q):  # noqa: E741
        with T.Kernel(T.ceildiv(length, tile), heads, batch, threads=128) as (
            block,
            head,
            sequence,
        ):
            first = block * tile
            queries = T.alloc_shared((tile, dim), dtype)
            keys = T.alloc_shared((tile, dim), dtype)
            values = T.alloc_shared((tile, dim), dtype)
            scores = T.alloc_fragment((tile, tile), "float32")
            weights = T.alloc_fragment((tile, tile), dtype)
            result = T.alloc_fragment((tile, dim), "float32")
            highest = T.alloc_fragment((tile,), "float32")
            before = T.alloc_fragment((tile,), "float32")
            shrink = T.alloc_fragment((tile,), "float32")
            total = T.alloc_fragment((tile,), "float32")
            added = T.alloc_fragment((tile,), "float32")
            T.copy(Q[sequence, first : first + tile, head, :], queries)
            T.clear(result)
            T.clear(total)
            T.fill(highest, -T.infinity("float32"))
            steps = T.ceildiv(first + tile, tile) if causal else T.ceildiv(length, tile)
            for step in T.Pipelined(steps, num_stages=2):
                at = step * tile
                T.copy(K[sequence, at : at + tile, head // groups, :], keys)
                T.clear(scores)
                T.gemm(queries, keys, scores, transpose_B=True)
                if causal or length % tile:
                    for i, j in T.Parallel(tile, tile):
                        seen = first + i >= at + j if causal else at + j < length
                        scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity("float32"))
                T.copy(highest, before)
                T.reduce_max(scores, highest, dim=1, clear=False)
                for i in T.Parallel(tile):
                    shrink[i] = T.exp2((before[i] - highest[i]) * scale)
                for i, j in T.Parallel(tile, tile):
                    scores[i, j] = T.exp2(scores[i, j] * scale - highest[i] * scale)
                T.reduce_sum(scores, added, dim=1)
                for i in T.Parallel(tile):
                    total[i] = total[i] * shrink[i] + added[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(tile, dim):
                    result[i, j] *= shrink[i]
                T.copy(V[sequence, at : at + tile, head // groups, :], values)
                T.gemm(weights, values, result)
            for i, j in T.Parallel(tile, dim):
                result[i, j] /= total[i]
            T.copy(result, O[sequence, first : first + tile, head, :])

    return main


def rms_norm(rows, columns, dtype="bfloat16"):
    """Y = X / sqrt(mean(X * X) + 1e-6) * W, a row a block."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(rows, threads=128) as row:
            x = T.alloc_fragment((1, columns), "float32")
            squares = T.alloc_fragment((1, columns), "float32")
            norm = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            for i, j in T.Parallel(1, columns):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, norm, dim=1)
            for i in T.Parallel(1):
                norm[i] = T.rsqrt(norm[i] / columns + 1e-6)
            for i, j in T.Parallel(1, columns):
                Y[row, j] = x[i, j] * norm[i] * W[j]

    return main


def add(rows, columns, dtype="bfloat16"):
    """C = A + B, a tile of 64 x 128 a block."""
    tall, wide = 64, 128

    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), dtype),
        B: T.Tensor((rows, columns), dtype),
        C: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(T.ceildiv(columns, wide), T.ceildiv(rows, tall), threads=128) as (bx, by):
            for i, j in T.Parallel(tall, wide):
                y, x = by * tall + i, bx * wide + j
                C[y, x] = A[y, x] + B[y, x]

    return main


def transpose(rows, columns, dtype="bfloat16"):
    """B (columns, rows) = A^T through a shared tile of 64 x 64."""
    tile = 64

    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((columns, rows), dtype)):
        with T.Kernel(T.ceildiv(columns, tile), T.ceildiv(rows, tile), threads=256) as (bx, by):
            square = T.alloc_shared((tile, tile), dtype)
            T.copy(A[by * tile, bx * tile], square)
            for i, j in T.Parallel(tile, tile):
                B[bx * tile + i, by * tile + j] = square[j, i]

    return main
