"""Minima and maxima of floats: elements are chosen by the floats, whatever the instruction."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilelang.algebra import Algebra, Elements, same
from tilelang.emulator import Device

SOURCE = """
extern "C" __global__ void k(const float* x, const float* y, float* out) {
  float a = x[threadIdx.x], b = y[threadIdx.x], result;
  asm volatile("%s;" : "=f"(result) : "f"(a), "f"(b));
  out[threadIdx.x] = result;
}
"""


def run(
    instruction: str,
) -> tuple[np.ndarray, np.ndarray, Elements, Elements, Elements, np.ndarray]:
    """Returns floats and elements of x and y, elements of the result, and its floats."""
    kernel = Device("sm_100a").load_cuda(SOURCE % instruction)["k"]
    x, y, out = torch.randn(32), torch.randn(32), torch.zeros(32)
    algebra = Algebra()
    for number, value in enumerate((x, y)):
        algebra.draw(value, 3, number)
    with algebra.mode():
        kernel.launch(1, 32, [x, y, out])
    a, b, got = (algebra.read(each) for each in (x, y, out))
    return x.numpy(), y.numpy(), a, b, got, out.numpy()


@pytest.mark.parametrize(("name", "choose"), [
    ("max", lambda x: x.argmax()), ("min", lambda x: x.argmin()),
    ("max.abs", lambda x: np.abs(x).argmax()), ("min.abs", lambda x: np.abs(x).argmin()),
])  # fmt: skip
def test_of_a_warp(name: str, choose) -> None:
    operation, _, absolute = name.partition(".")
    suffix = f".{absolute}" if absolute else ""
    x, _, a, _, got, out = run(f"redux.sync.{operation}{suffix}.f32 %0, %1, 0xffffffff")
    at = int(choose(x))
    want = -a[at] if absolute and x[at] < 0 else a[at]
    assert (out == (abs(x[at]) if absolute else x[at])).all()
    assert all(same(got[i], want) for i in range(32))


@pytest.mark.parametrize("operation", ["max", "min"])
def test_of_sizes(operation: str) -> None:
    """The result has the product of both signs."""
    x, y, a, b, got, out = run(f"{operation}.xorsign.abs.f32 %0, %1, %2")
    for i in range(32):
        first = (abs(x[i]) > abs(y[i])) == (operation == "max")
        chosen, value = (a[i], x[i]) if first else (b[i], y[i])
        want = chosen if (value < 0) == (out[i] < 0) else -chosen
        assert abs(out[i]) == abs(value) and (out[i] < 0) == ((x[i] < 0) != (y[i] < 0))
        assert same(got[i], want)
