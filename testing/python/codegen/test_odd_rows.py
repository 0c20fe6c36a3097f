"""Rows whose columns no number of threads divides: the last registers of some threads are empty."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T


def layer_norm(rows: Any, columns: int, dtype: str, threads: int, block: int = 1) -> Any:
    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        Y: T.Tensor((rows, columns), dtype),
        M: T.Tensor((rows,), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
            x = T.alloc_fragment((block, columns), "float32")
            square = T.alloc_fragment((block, columns), "float32")
            mean = T.alloc_fragment((block,), "float32")
            variance = T.alloc_fragment((block,), "float32")
            T.copy(X[bx * block, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(block, columns):
                x[i, j] -= mean[i] / columns
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, variance, dim=1)
            for i, j in T.Parallel(block, columns):
                Y[bx * block + i, j] = x[i, j] * T.rsqrt(variance[i] / columns + 1e-5) * W[j]
            T.reduce_absmax(x, variance, dim=1)
            T.copy(variance, M[bx * block])

    return main


def check(kernel: Any, rows: int, columns: int, dtype: str) -> None:
    x = (3 * torch.randn(rows, columns) + 1).to(getattr(torch, dtype))
    w = torch.randn(columns).to(x.dtype)
    y, m = torch.full_like(x, float("nan")), torch.full((rows,), float("nan"))
    kernel(x, w, y, m)
    centred = x.double() - x.double().mean(1, keepdim=True)
    scale = (centred.square().mean(1, keepdim=True) + 1e-5).rsqrt()
    expected = centred * scale * w.double()
    tolerance = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    torch.testing.assert_close(y.double(), expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(m.double(), centred.abs().amax(1), rtol=1e-4, atol=1e-4)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(
    ("columns", "dtype", "threads", "block"),
    [
        (691, "bfloat16", 128, 1),
        (1023, "float16", 256, 2),
        (777, "float32", 128, 3),
        (2049, "bfloat16", 512, 1),
        (7, "float16", 128, 5),
    ],
)
def test_rows_are_normalised(
    columns: int, dtype: str, threads: int, block: int, target: str
) -> None:
    rows = 6 * block
    kernel = tilelang.compile(layer_norm(rows, columns, dtype, threads, block), target=target)
    check(kernel, rows, columns, dtype)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_numbers_of_rows_are_dynamic(target: str) -> None:
    kernel = tilelang.compile(layer_norm(T.dynamic("m"), 691, "bfloat16", 128, 4), target=target)
    for rows in (1, 4, 7):
        check(kernel, rows, 691, "bfloat16")


def test_empty_registers_take_no_part() -> None:
    """Infinities stay in their rows, and each row has its own maximum."""

    @T.prim_func
    def main(X: T.Tensor((5, 701), "bfloat16"), Y: T.Tensor((5,), "float32")):
        with T.Kernel(5, threads=128) as row:
            x = T.alloc_fragment((1, 701), "float32")
            most = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            for i, j in T.Parallel(1, 701):
                x[i, j] = x[i, j] + 1
            T.reduce_max(x, most, dim=1)
            for i in T.Parallel(1):
                Y[row] = most[i]

    x = -torch.rand(5, 701) - 2
    x[1, 700], x[3, 0], x[4] = float("inf"), float("inf"), float("-inf")
    y = torch.zeros(5)
    tilelang.compile(main, target="sm_90a")(x.bfloat16(), y)
    assert torch.equal(y, (x.bfloat16().float() + 1).amax(1))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_loads_of_full_registers_have_no_branch(target: str) -> None:
    """Each branch would let the next load wait for the one before it."""
    kernel = tilelang.compile(layer_norm(16, 8191, "bfloat16", 128), target=target)
    assert "__builtin_assume(0 <= tx && tx < 128);" in kernel.get_kernel_source()
    assert len(re.findall(r"\bbra\b", kernel.get_ptx())) < 32


def test_other_kernels_assume_nothing() -> None:
    kernel = tilelang.compile(layer_norm(16, 8192, "bfloat16", 128), target="sm_90a")
    assert "__builtin_assume" not in kernel.get_kernel_source()
