"""The IR of small kernels after each pass that changes its form, as readable text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilelang.language as T
from tilelang.transform import pipeline, run_pass


def row_sum() -> Any:
    @T.prim_func
    def row_sum(A: T.Tensor((100, 64), "float16"), B: T.Tensor((100,), "float32")):
        with T.Kernel(T.ceildiv(100, 32), threads=128) as bx:
            tile = T.alloc_shared((32, 64), "float16")
            x = T.alloc_fragment((32, 64), "float32")
            total = T.alloc_fragment((32,), "float32")
            T.copy(A[bx * 32, 0], tile, disable_tma=True)
            T.copy(tile, x)
            T.reduce_sum(x, total, dim=1)
            T.copy(total, B[bx * 32])

    return row_sum


def transpose() -> Any:
    @T.prim_func
    def transpose(A: T.Tensor((64, 32), "float32"), B: T.Tensor((32, 64), "float32")):
        with T.Kernel(2, threads=64) as bx:
            tile = T.alloc_shared((32, 32), "float32")
            T.copy(A[bx * 32, 0], tile, disable_tma=True)
            for i, j in T.Parallel(32, 32):
                B[i, bx * 32 + j] = tile[j, i]

    return transpose


def ts_gemm() -> Any:
    @T.prim_func
    def ts_gemm(
        A: T.Tensor((128, 32), "bfloat16"),
        B: T.Tensor((64, 32), "bfloat16"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((128, 32), "bfloat16")
            b = T.alloc_shared((64, 32), "bfloat16")
            c = T.alloc_fragment((128, 64), "float32")
            T.copy(A, a)
            T.copy(B, b, disable_tma=True)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    return ts_gemm


@pytest.mark.parametrize("kernel", [row_sum, transpose, ts_gemm])
def test_every_form_of_a_kernel(kernel: Callable[[], Any], golden: Any) -> None:
    func = kernel()
    texts = [f"== as written\n{func}"]
    for name in pipeline():
        after = run_pass(name, func)
        same = str(after) == str(func)
        texts.append(f"== {name}\n" + ("(unchanged)" if same else str(after)))
        func = after
    golden(kernel.__name__, "\n".join(texts))
