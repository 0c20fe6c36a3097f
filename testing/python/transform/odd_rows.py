"""Plain gemms of tensors whose rows may begin anywhere."""

from __future__ import annotations

import torch

import tilelang
import tilelang.language as T

OFF = {tilelang.PassConfigKey.TL_DISABLE_ROW_REALIGNMENT: True}


def program(
    rows=200, columns=203, depth=77, dtype="float16", sums="float32", order="NN", batch=0,
    m=64, n=64, k=32, apart=None, writes=False,
):  # fmt: skip
    """C = A B of tiles of m x n. ``order``: how A and B are stored, as BLAS says it; ``batch``: of
    so many; ``apart``: elements between rows of A; ``writes``: A, too."""
    of_a = (depth, rows) if order[0] == "T" else (rows, depth)
    of_b = (columns, depth) if order[1] == "T" else (depth, columns)
    leading = (batch,) if batch else ()
    strided = apart is not None
    A_type = (
        T.StridedTensor(of_a, (apart, 1), dtype) if strided else T.Tensor(leading + of_a, dtype)
    )

    @T.prim_func
    def main(
        A: A_type,
        B: T.Tensor(leading + of_b, dtype),
        C: T.Tensor((max(batch, 1), rows, columns), sums),
    ):
        with T.Kernel(T.ceildiv(columns, n), T.ceildiv(rows, m), max(batch, 1), threads=128) as (
            bx,
            by,
            bz,
        ):
            a = T.alloc_shared((k, m) if order[0] == "T" else (m, k), dtype)
            b = T.alloc_shared((n, k) if order[1] == "T" else (k, n), dtype)
            c = T.alloc_fragment((m, n), sums)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(depth, k), num_stages=2):
                corner_a = (step * k, by * m) if order[0] == "T" else (by * m, step * k)
                corner_b = (bx * n, step * k) if order[1] == "T" else (step * k, bx * n)
                if batch:
                    T.copy(A[bz, corner_a[0], corner_a[1]], a)
                    T.copy(B[bz, corner_b[0], corner_b[1]], b)
                else:
                    T.copy(A[corner_a], a)
                    T.copy(B[corner_b], b)
                T.gemm(a, b, c, transpose_A=order[0] == "T", transpose_B=order[1] == "T")
            T.copy(c, C[bz, by * m, bx * n])
            if writes:
                A[by * m, bx * n] = T.cast(0, dtype)

    return main


def random(shape, dtype) -> torch.Tensor:
    if dtype == "int8":
        return torch.randint(-128, 128, shape, dtype=torch.int8)
    return torch.randn(shape).to(getattr(torch, dtype))


def tolerance(dtype: str) -> dict[str, float]:
    """Of a product in float64: products or sums of some types have fewer bits."""
    rough = dtype in ("float32", "float8_e4m3fn", "float8_e5m2")
    return {"rtol": 2e-3, "atol": 2e-2} if rough else {"rtol": 1e-4, "atol": 1e-3}
