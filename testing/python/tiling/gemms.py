"""Straightforward GEMMs of constant or dynamic sizes, from which the compiler chooses tiles."""

from __future__ import annotations

import tilelang.language as T


def plain_gemm(
    rows, columns, depth, *, m=128, k=64, threads=128, stages=2, dtype="bfloat16", out=None,
    order="NT", swapped=False, twice=False,
):  # fmt: skip
    """C = A B with tiles of m x 128 elements.

    Args:
        rows, columns, depth: sizes, or dimensions of the call.
        m, k: rows of a tile, and elements along K of a step.
        dtype, out: of the operands and of C, by default the same.
        order: "NT", B is (columns, depth); "NN", (depth, columns).
        swapped: the rows of the grid come first.
        twice: C = 2 A B.
    """
    transposed = order == "NT"

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), dtype),
        B: T.Tensor((columns, depth) if transposed else (depth, columns), dtype),
        C: T.Tensor((rows, columns), out or dtype),
    ):
        grid = T.ceildiv(columns, 128), T.ceildiv(rows, m)
        with T.Kernel(*(grid[::-1] if swapped else grid), threads=threads) as (x, y):
            bx, by = (y, x) if swapped else (x, y)
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((128, k) if transposed else (k, 128), dtype)
            c = T.alloc_fragment((m, 128), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(depth, k), num_stages=stages):
                T.copy(A[by * m, step * k], a)
                if transposed:
                    T.copy(B[bx * 128, step * k], b)
                else:
                    T.copy(B[step * k, bx * 128], b)
                T.gemm(a, b, c, transpose_B=transposed)
            if twice:
                for i, j in T.Parallel(m, 128):
                    c[i, j] = c[i, j] * 2.0
            T.copy(c, C[by * m, bx * 128])

    return main
