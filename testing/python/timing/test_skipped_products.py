"""A launch that is only timed leaves out products of tensor cores, unless they decide something."""

from __future__ import annotations

import pytest
import torch
from tuned_gemm import product_of

import tilelang
import tilelang.language as T
from tilelang.emulator import TimingOptions

ARCHES = ["sm_80", "sm_90a", "sm_100a"]


def _tile(jumps: bool):
    """A block's product, and for `jumps` what follows from one of its elements."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"),
        B: T.Tensor((64, 128), "float16"),
        C: T.Tensor((128, 128), "float32"),
        Steps: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            s = T.alloc_shared((128, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, s)
            if jumps:
                for i in T.serial(T.cast(s[0, 0], "int32")):
                    Steps[0] = i + 1
            T.copy(s, C)

    return main


def _operands():
    return torch.ones(128, 64).half(), torch.ones(64, 128).half()


@pytest.mark.parametrize("arch", ARCHES)
def test_products_that_decide_nothing_are_not_computed(arch):
    kernel = tilelang.compile(_tile(False), target=arch)
    a, b = _operands()
    results = []
    for sampled in (True, False):
        c = torch.full((128, 128), float("nan"))
        steps = torch.zeros(1).int()
        report = kernel.profile(a, b, c, steps, timing=TimingOptions(sampled=sampled))
        results.append((c, report.grids[0].timing.grid_us))
    (skipped, short), (computed, long) = results
    assert not (skipped == 64).any() and (computed == 64).all()
    assert short == long  # nobody can tell by the clock


@pytest.mark.parametrize("arch", ARCHES)
def test_products_that_decide_are_computed(arch):
    kernel = tilelang.compile(_tile(True), target=arch)
    a, b = _operands()
    c, steps = torch.full((128, 128), float("nan")), torch.zeros(1).int()
    kernel.profile(a, b, c, steps, timing=TimingOptions(sampled=True))
    assert (c == 64).all() and steps.item() == 64


@pytest.mark.parametrize("arch", ARCHES)
def test_a_launch_with_results_computes_them(arch):
    kernel = tilelang.compile(product_of(256, 256, 128, 128, 128, 64, 2, 128), target=arch)
    a, b = torch.randn(256, 128).half(), torch.randn(128, 256).half()
    c = torch.full((256, 256), float("nan")).half()
    with tilelang.emulator.options(timing=True):
        kernel(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=2e-3, atol=2e-2)
