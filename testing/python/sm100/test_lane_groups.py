"""Accumulators with columns in several groups of lanes: of 32 rows, and of 64 rows in pairs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sm100_kernels import compile_sm100, poisoned, random_values

import tilelang.language as T


def persistent(M: int, N: int, K: int, columns: int, stages: int) -> Any:
    """Tiles of 32 rows, one after the other in two blocks, with a bias and relu."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        Bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(2, threads=128) as block:
            a = T.alloc_shared((32, 64), "bfloat16")
            b = T.alloc_shared((columns, 64), "bfloat16")
            c = T.alloc_tmem((32, columns), "float32")
            result = T.alloc_fragment((32, columns), "float32")
            for bx, by in T.Persistent([T.ceildiv(N, columns), T.ceildiv(M, 32)], 2, block):
                for k in T.Pipelined(T.ceildiv(K, 64), num_stages=stages):
                    T.copy(A[by * 32, k * 64], a)
                    T.copy(B[bx * columns, k * 64], b)
                    T.gemm(a, b, c, transpose_B=True, clear_accum=k == 0)
                T.copy(c, result)
                for i, j in T.Parallel(32, columns):
                    result[i, j] = T.max(result[i, j] + Bias[bx * columns + j], 0)
                T.copy(result, C[by * 32, bx * columns])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("stages", [0, 2, 3])
@pytest.mark.parametrize("columns", [64, 128, 256])
def test_tiles_of_32_rows_one_after_the_other(columns: int, stages: int) -> None:
    M, N, K = 70, 300, 200
    a, b = random_values(M, K, "bfloat16"), random_values(N, K, "bfloat16")
    bias, c = torch.randint(-3, 4, (N,)).float(), poisoned(M, N, "float32")
    compile_sm100(persistent(M, N, K, columns, stages))(a, b, bias, c)
    expected = (a.double() @ b.double().T + bias.double()).clamp(min=0)
    torch.testing.assert_close(c.double(), expected, rtol=1e-5, atol=1e-4)


def begun(rows: int, columns: int, pair: bool, half: bool) -> Any:
    """Adds a product to what the tensor holds; with ``half``, its halves are read one by one."""
    blocks = 2 if pair else 1

    @T.prim_func
    def main(
        A: T.Tensor((blocks * rows, 64), "float16"),
        B: T.Tensor((columns, 64), "float16"),
        C: T.Tensor((blocks * rows, columns), "float32"),
    ):
        with T.Kernel(blocks, threads=128, cluster_dims=blocks) as block:
            a = T.alloc_shared((rows, 64), "float16")
            b = T.alloc_shared((columns // blocks, 64), "float16")
            c = T.alloc_tmem((rows, columns), "float32")
            whole = T.alloc_fragment((rows, columns), "float32")
            part = T.alloc_fragment((rows, columns // 2), "float32")
            T.copy(A[block * rows, 0], a)
            T.copy(B[block * (columns // blocks), 0], b)
            T.copy(C[block * rows, 0], whole)
            T.copy(whole, c)
            T.gemm(a, b, c, transpose_B=True, use_2cta=pair)
            if half:
                for side in T.unroll(2):
                    T.copy(c[:, side * (columns // 2) : (side + 1) * (columns // 2)], part)
                    for i, j in T.Parallel(rows, columns // 2):
                        part[i, j] *= 1 + side
                    T.copy(part, C[block * rows, side * (columns // 2)])
            else:
                T.copy(c, whole)
                T.copy(whole, C[block * rows, 0])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns", "pair"),
    [(32, 64, False), (32, 256, False), (64, 64, True), (64, 160, True)],
)
def test_accumulators_with_a_first_value(rows: int, columns: int, pair: bool, half: bool) -> None:
    a = random_values(rows * (1 + pair), 64, "float16")
    b = random_values(columns, 64, "float16")
    c = torch.randint(-9, 10, (rows * (1 + pair), columns)).float()
    expected = c.double() + a.double() @ b.double().T
    if half:
        expected[:, columns // 2 :] *= 2
    compile_sm100(begun(rows, columns, pair, half))(a, b, c)
    torch.testing.assert_close(c.double(), expected, rtol=1e-5, atol=1e-4)
