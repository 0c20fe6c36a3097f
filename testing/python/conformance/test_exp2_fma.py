"""T.exp2_fma against float64: its stated errors, edges of its range, its types, its refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from conformance.running import poison, run

import tilelang.language as T
from tilelang import errors

N = 8192
#: units in the last place, and relative, as T.exp2_fma states them
STATED = {3: (1345.2, 1.02e-4), 4: (42.9, 2.9e-6), 5: (2.04, 1.8e-7)}


def powers(degree: int, dtype: str = "float32") -> Any:
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(N // 1024, threads=128) as bx:
            for i in T.Parallel(1024):
                B[bx * 1024 + i] = T.exp2_fma(A[bx * 1024 + i], degree=degree)

    return main


@pytest.mark.parametrize("degree", STATED)
def test_error(degree: int, target: str) -> None:
    ulps, relative = STATED[degree]
    a = torch.empty(N).uniform_(-126, 127.49)
    a[::2] = torch.empty(N // 2).uniform_(-0.5, 0.5)
    a[-64:] = torch.arange(-63, 65)[:64].float() / 2 + 0.5  # where it rounds the other way
    actual = run(powers(degree), target, a, poison(N)).double().numpy()
    expected = np.exp2(a.double().numpy())
    error = np.abs(actual - expected)
    assert (error <= relative * expected).all()
    last_place = np.spacing(2.0 ** np.floor(a.double().numpy()).astype(np.float32))
    assert (error <= ulps * last_place).all()
    # A polynomial of another degree, or another function, is told apart.
    assert (error > relative / 4 * expected).any()


@pytest.mark.parametrize("degree", STATED)
def test_edges(degree: int, target: str) -> None:
    inf, nan = float("inf"), float("nan")
    values = [-inf, -1e30, -127.0, -126.6, 0.0, -0.0, 1.0, -126.0, 100.0, 127.0, 128.0, 300.0, inf]
    a = torch.zeros(N)
    a[: len(values)], a[-1] = torch.tensor(values), nan
    b = run(powers(degree), target, a, poison(N))
    expected = [0, 0, 0, 0, 1, 1, 2, 2.0**-126, 2.0**100, 2.0**127, inf, inf, inf]
    assert b[: len(values)].tolist() == expected
    assert b[-1].isnan() and (b[len(values) : -1] == 1).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_types_of_16_bits(dtype: str, target: str) -> None:
    kind = getattr(torch, dtype)
    a = torch.empty(N).uniform_(-12, 12).to(kind)
    b = run(powers(4, dtype), target, a, poison(N, dtype=dtype))
    # Computed in float32 and rounded once.
    torch.testing.assert_close(
        b.double(), a.double().exp2(), rtol=torch.finfo(kind).eps * 0.51, atol=0
    )


def test_refusals() -> None:
    with pytest.raises(errors.SemanticsError, match=r"degree must be 3, 4 or 5, got 2"):
        T.exp2_fma(1.0, degree=2)
    with pytest.raises(errors.DTypeError, match="float64: it computes in float32"):
        T.exp2_fma(T.float64(1.0))
