"""Row programs of odd width load all that a block needs before it computes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T


def scaled_rows(rows: Any, columns: int, threads: int = 128, dtype: str = "bfloat16") -> Any:
    """Y = X * W / sum(|X|), and R = R + X in place."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        R: T.Tensor((rows, columns), dtype),
        Y: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(rows, threads=threads) as row:
            x = T.alloc_fragment((1, columns), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_abssum(x, total, dim=1)
            for i, j in T.Parallel(1, columns):
                R[row, j] += x[i, j]
            for i, j in T.Parallel(1, columns):
                if j % 2 == 0:
                    Y[row, j] = x[i, j] * W[j] / total[i]
            for i, j in T.Parallel(1, columns):
                if j % 2 == 1:
                    Y[row, j] = -x[i, j] * W[j] / total[i]

    return main


def norm(rows: Any, columns: int, threads: int = 128, dtype: str = "bfloat16") -> Any:
    """Y = X * W[j] / sum(|X|) + B[j + shift of the row]."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), dtype),
        W: T.Tensor((columns,), dtype),
        B: T.Tensor((rows, 2, columns), "float32"),
        Y: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(rows, threads=threads) as row:
            x = T.alloc_fragment((1, columns), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_abssum(x, total, dim=1)
            half = row % 2
            for i, j in T.Parallel(1, columns):
                Y[row, j] = x[i, j] * W[j] / total[i] + B[row, half, j]

    return main


def run_norm(kernel: Any, rows: int, columns: int, dtype: str = "bfloat16") -> None:
    x, w = torch.randn(rows, columns), torch.randn(columns)
    x, w = x.to(getattr(torch, dtype)), w.to(getattr(torch, dtype))
    b, y = torch.randn(rows, 2, columns), torch.full_like(x, float("nan"))
    kernel(x, w, b, y)
    expected = x.double() * w.double() / x.double().abs().sum(1, keepdim=True)
    expected += b[torch.arange(rows), torch.arange(rows) % 2].double()
    torch.testing.assert_close(y.double(), expected, rtol=1e-2, atol=1e-2)


def before_reduction(kernel: Any, tensor: str) -> bool:
    source = kernel.get_kernel_source()
    body = source[source.index("threadIdx") :]
    return re.search(rf"\b{tensor}(\[| \+)", body[: body.index("shfl_xor")]) is not None


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(("columns", "threads"), [(691, 128), (1500, 256), (2047, 512)])
def test_loads_stand_before_the_reduction(columns: int, threads: int, target: str) -> None:
    kernel = tilelang.compile(norm(5, columns, threads), target=target)
    assert before_reduction(kernel, "W")
    run_norm(kernel, 5, columns)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_numbers_of_rows_are_dynamic(target: str) -> None:
    kernel = tilelang.compile(norm(T.dynamic("m"), 777), target=target)
    for rows in (1, 5):
        run_norm(kernel, rows, 777)


def test_rows_of_float32() -> None:
    kernel = tilelang.compile(norm(3, 301, dtype="float32"), target="sm_100a")
    run_norm(kernel, 3, 301, "float32")


@pytest.mark.parametrize("columns", [1024, 8192])
def test_rows_of_vectors_stay(columns: int) -> None:
    on = tilelang.compile(norm(5, columns), target="sm_90a")
    off = tilelang.compile(
        norm(5, columns), target="sm_90a", pass_configs={"tl.disable_load_early": True}
    )
    assert on.get_kernel_source() == off.get_kernel_source()


def test_the_option_turns_it_off() -> None:
    options = {"tl.disable_load_early": True}
    kernel = tilelang.compile(norm(5, 691), target="sm_90a", pass_configs=options)
    assert not before_reduction(kernel, "W")
    run_norm(kernel, 5, 691)


def test_too_many_elements_stay() -> None:
    assert not before_reduction(tilelang.compile(norm(5, 11999), target="sm_90a"), "W")
    assert before_reduction(tilelang.compile(norm(5, 11999), target="sm_100a"), "W")


@pytest.mark.every_schedule
def test_written_tensors_and_conditions_stay() -> None:
    kernel = tilelang.compile(scaled_rows(4, 691), target="sm_100a")
    assert not before_reduction(kernel, "W")
    assert not before_reduction(kernel, "R")
    x, r = torch.randn(4, 691).bfloat16(), torch.randn(4, 691).bfloat16()
    w, y = torch.randn(691).bfloat16(), torch.zeros(4, 691).bfloat16()
    sum_of_both = r.float() + x.float()
    kernel(x, w, r, y)
    torch.testing.assert_close(r.float(), sum_of_both, rtol=1e-2, atol=1e-2)
    expected = x.double() * w.double() / x.double().abs().sum(1, keepdim=True)
    expected[:, 1::2] *= -1
    torch.testing.assert_close(y.double(), expected, rtol=2e-2, atol=1e-4)
