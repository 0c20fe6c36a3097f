"""Helion programs run on the emulator through Triton's driver, unmodified."""

from __future__ import annotations

import warnings

import pytest
import torch

from tilelang.emulator import EmulatorError, EmulatorWarning
from tilelang.emulator.triton import emulate


@pytest.fixture(scope="module")
def helion_kernels():
    """Importing Helion takes seconds: only the process that runs these tests does."""
    return pytest.importorskip(
        "emulator.helion_kernels", reason="Helion and Triton are for x86-64 Linux",
        exc_type=ImportError,
    )  # fmt: skip


def bfloat16(*shape: int) -> torch.Tensor:
    return torch.randn(shape).bfloat16()


CASES = {
    "scaled_add": (
        lambda: (torch.randn(70, 130), torch.randn(70, 130), 0.5),
        lambda x, y, factor: x + factor * y,
    ),
    "matmul": (lambda: (bfloat16(100, 70), bfloat16(70, 130)), lambda x, y: x @ y),
    "softmax": (lambda: (torch.randn(37, 200),), lambda x: x.softmax(1)),
    "row_sums": (lambda: (torch.randn(37, 200),), lambda x: x.sum(1)),
}


@pytest.mark.every_schedule
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", CASES)
def test_right_without_a_report(helion_kernels, name, arch):
    make, reference = CASES[name]
    args = make()
    with emulate(arch) as gpu, warnings.catch_warnings():
        warnings.simplefilter("error", EmulatorWarning)
        got = getattr(helion_kernels, name)(*args)
    exact = reference(*(each.double() if torch.is_tensor(each) else each for each in args))
    torch.testing.assert_close(got.double(), exact, rtol=1e-4, atol=1e-4)
    assert gpu.last_launch is not None and not gpu.last_launch.findings


def test_a_race(helion_kernels):
    with emulate("sm_90a"), pytest.raises(EmulatorError, match="nothing orders the two") as caught:
        helion_kernels.racing_row_sums(torch.randn(37, 200))
    assert caught.value.kind == "race"
