"""Conversions of float32 to 16 bits toward zero, up and down, also by the names of CUDA."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from conformance.running import normal, poison, run

import tilelang.language as T

N = 512


def rounded(values: torch.Tensor, dtype: torch.dtype, mode: str) -> torch.Tensor:
    """The neighbour among the values of a type that the mode asks for."""
    near = values.to(dtype)
    exact = near.double() == values.double()
    if mode == "rz":
        wrong = near.double().abs() > values.double().abs()
        other = torch.nextafter(near, torch.zeros_like(near))
    elif mode == "ru":
        wrong = near.double() < values.double()
        other = torch.nextafter(near, torch.full_like(near, math.inf))
    else:
        wrong = near.double() > values.double()
        other = torch.nextafter(near, torch.full_like(near, -math.inf))
    return torch.where(wrong & ~exact, other, near)


CASES = [("float16", mode) for mode in ("rn", "rz", "ru", "rd")]
CASES += [("bfloat16", mode) for mode in ("rn", "rz")]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("dtype", "mode"), CASES)
def test_conversions_in_a_mode(dtype: str, mode: str, named: bool, target: str) -> None:
    name = f"__float2{'half' if dtype == 'float16' else 'bfloat16'}_{mode}"

    def convert(x: Any) -> Any:
        return T.call_extern(dtype, name, x) if named else T.cast(x, dtype, round=mode)

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(N):
                B[i] = convert(A[i])

    a = normal(N) * 100
    a[:9] = torch.tensor([0.0, -0.0, 1.0, 65504.0, 65519.0, -65519.0, 1e-6, 6e-8, 2049.0])
    b = run(main, target, a, poison(N, dtype=dtype))
    kind = getattr(torch, dtype)
    expected = a.to(kind) if mode == "rn" else rounded(a, kind, mode)
    assert torch.equal(b.view(torch.int16), expected.view(torch.int16))


@pytest.mark.parametrize(
    ("dtype", "least", "greatest"),
    [(T.int4, -8, 7), (T.uint4, 0, 15), (T.float4_e2m1fn, -6.0, 6.0), ("float6_e3m2fn", -28.0, 28)],
)
def test_bounds_of_narrow_types(dtype: Any, least: float, greatest: float) -> None:
    assert (T.min_value(dtype), T.max_value(dtype)) == (least, greatest)
    assert T.max_value(T.float4_e2m1fn) * 2.0**-126 == 6 * 2.0**-126
