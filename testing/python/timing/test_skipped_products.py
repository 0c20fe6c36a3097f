"""Calls that are only timed leave out products of tensor cores, unless they may decide a thing."""

from __future__ import annotations

import contextlib

import pytest
import torch
from tuned_gemm import product_of

import tilelang
import tilelang.language as T
from tilelang.emulator import TimingOptions
from tilelang.emulator.clock import measure
from tilelang.emulator.watch import watching

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


def _chain(second: str):
    """A grid with a block's product, and one that reads it and goes on for as long as it says."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"),
        B: T.Tensor((64, 128), "float16"),
        C: T.Tensor((128, 128), "float32"),
        Sums: T.Tensor((128,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            x = T.alloc_local((1,), "float32")
            x[0] = 1
            if second == "loop":
                for i in T.serial(T.cast(C[0, 0], "int32")):
                    x[0] = x[0] * 0.5 + C[i, t]
            elif second == "while":
                while x[0] < 100:
                    x[0] = x[0] * C[0, 0]
            else:
                for i in T.serial(64):
                    x[0] = x[0] * 0.5 + C[i, t]
            Sums[t] = x[0]

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


def _profiled(kernel, sampled: bool):
    """The times of the grids, and C, which is zero before."""
    a, b = _operands()
    c, sums = torch.zeros(128, 128), torch.zeros(128)
    report = kernel.profile(a, b, c, sums, timing=TimingOptions(sampled=sampled))
    return [each.timing.grid_us for each in report.grids], c


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("second", ["loop", "while"])
def test_products_that_decide_in_a_later_grid_are_computed(arch, second):
    kernel = tilelang.compile(_chain(second), target=arch)
    (times, c), (expected, _) = _profiled(kernel, True), _profiled(kernel, False)
    assert (c == 64).all() and len(times) == 2 and times == expected


@pytest.mark.parametrize("arch", ARCHES)
def test_products_that_decide_in_no_grid_of_a_call_are_not_computed(arch):
    kernel = tilelang.compile(_chain("added"), target=arch)
    (times, c), (expected, _) = _profiled(kernel, True), _profiled(kernel, False)
    # Tensor memory, too, is left as it was: what C gets of it is anything.
    assert (c != 64).all() if arch == "sm_100a" else not c.any()
    assert len(times) == 2 and times == expected


@pytest.mark.parametrize("arch", ARCHES)
def test_launches_that_are_timed_one_by_one_compute_products(arch):
    kernel = tilelang.compile(_tile(False), target=arch)
    a, b = _operands()
    c, steps = torch.zeros(128, 128), torch.zeros(1).int()
    measure(lambda: kernel(a, b, c, steps), sampled=True)
    assert (c == 64).all()


@pytest.mark.parametrize("undone", [True, False])
def test_a_watched_launch_computes_products_unless_it_is_undone(undone):
    kernel = tilelang.compile(_tile(False), target="sm_90a")
    a, b = _operands()
    c, steps = torch.zeros(128, 128), torch.zeros(1).int()
    found = []

    def watcher(launch):
        report = launch.run()
        with launch.undone() if undone else contextlib.nullcontext():
            c.zero_()
            launch.profile()
            found.append(c.clone())
        return report

    with watching(watcher):
        kernel(a, b, c, steps)
    # What a launch that is undone writes is arbitrary: it left out the products.
    assert (found[0] == 64).all() != undone and (c == 64).all()


@pytest.mark.parametrize("arch", ARCHES)
def test_a_launch_with_results_computes_them(arch):
    kernel = tilelang.compile(product_of(256, 256, 128, 128, 128, 64, 2, 128), target=arch)
    a, b = torch.randn(256, 128).half(), torch.randn(128, 256).half()
    c = torch.full((256, 256), float("nan")).half()
    with tilelang.emulator.options(timing=True):
        kernel(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=2e-3, atol=2e-2)
