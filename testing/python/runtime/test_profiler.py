"""The profiler's parts that need no GPU: arguments and comparison."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch

import tilelang
import tilelang.language as T
from runtime import handmade as hm
from tilelang import errors
from tilelang.emulator import EmulatorWarning
from tilelang.profiler import Profiler, TensorSupplyType, compare, do_bench
from tilelang.profiler.supply import supply

DTYPES = "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64 float8_e4m3fn"


@pytest.mark.parametrize("kind", list(TensorSupplyType))
@pytest.mark.parametrize("dtype", [*DTYPES.split(), "float8_e5m2"])
def test_supplied_tensors(kind, dtype):
    params = [hm.tensor("A", dtype, (33, hm.var("n")))]
    (tensor,) = supply(params, kind, "cpu", {"n": 17})
    assert tensor.shape == (33, 17) and str(tensor.dtype) == f"torch.{dtype}"
    values = tensor.double()
    assert bool(values.isfinite().all())
    if kind is TensorSupplyType.Zero:
        assert bool((values == 0).all())
    elif kind is TensorSupplyType.One:
        assert bool((values == 1).all())
    else:
        assert values.unique().numel() > 1
    if kind is TensorSupplyType.Integer:
        assert bool((values == values.round()).all())
    if kind is TensorSupplyType.Uniform and tensor.is_floating_point():
        assert float(values.abs().max()) <= 1


@pytest.mark.parametrize("dtype", DTYPES.split())
def test_tensors_to_be_timed_repeat_values(dtype):
    params = [hm.tensor("A", dtype, (701, 209))]
    (tensor,) = supply(params, TensorSupplyType.Auto, "cpu", {}, repeats=True)
    assert tensor.shape == (701, 209) and str(tensor.dtype) == f"torch.{dtype}"
    values, period = tensor.double().flatten(), (1 << 16) + 1
    assert torch.equal(values[:-period], values[period:])
    assert values[:period].unique().numel() > 1 and bool(values.isfinite().all())
    (other,) = supply(params, TensorSupplyType.Auto, "cpu", {})
    assert not torch.equal(other.double().flatten()[:-period], other.double().flatten()[period:])


def test_scalars_and_symbols_need_values():
    params = [hm.tensor("A", "float32", (hm.var("n"),)), hm.var("scale", "float32")]
    assert supply(params, TensorSupplyType.Auto, "cpu", {"n": 2, "scale": 3})[1] == 3
    with pytest.raises(errors.ArgumentError, match="value of 'scale' is not known"):
        supply(params, TensorSupplyType.Auto, "cpu", {"n": 2})


def test_comparison_finds_the_worst_element():
    want = torch.randn(9, 11, dtype=torch.float64)
    got = want.clone()
    compare.assert_close([got], [want], 1e-6, 1e-6)
    got[2, 3] += 0.5
    got[7, 8] -= 3.0
    with pytest.raises(AssertionError, match=r"output 0: 2 of 99 .* worst is at \(7, 8\)"):
        compare.assert_close([got], [want], 1e-3, 1e-3)
    compare.assert_close([got], [want], 1e-3, 1e-3, max_mismatched_ratio=0.05)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_comparison_never_tolerates_non_finite_elements(value):
    want = torch.randn(1000)
    got = want.clone()
    got[500] = value
    with pytest.raises(AssertionError, match=r"1 finite on one side only.*\(500,\)"):
        compare.assert_close([got], [want], 1e-2, 1e-2, max_mismatched_ratio=0.5)
    compare.assert_close([got], [got], 0, 0)


def test_comparison_of_shapes_and_counts():
    with pytest.raises(AssertionError, match=r"shape \(2, 3\), expected \(3, 2\)"):
        compare.assert_close([torch.zeros(2, 3)], [torch.zeros(3, 2)], 1, 1)
    with pytest.raises(AssertionError, match="1 outputs, but 2 expected"):
        compare.assert_close([torch.zeros(1)], [torch.zeros(1)] * 2, 1, 1)


class HalfWrong:
    """A kernel whose output is wrong in a given share of elements."""

    name, out_idx, target = "half_wrong", [1], "none"

    def __init__(self, wrong):
        self.wrong = wrong
        self.params = [hm.tensor(name, "float32", (1000,)) for name in "AB"]

    def __call__(self, a):
        b = 2 * a
        b[: self.wrong] += 1
        return b


def test_profiler_compares_within_the_ratio():
    Profiler(HalfWrong(9), TensorSupplyType.Auto).assert_allclose(lambda a: 2 * a)
    with pytest.raises(AssertionError, match="11 of 1000"):
        Profiler(HalfWrong(11), TensorSupplyType.Auto).assert_allclose(lambda a: 2 * a)
    Profiler(HalfWrong(5), TensorSupplyType.Auto).assert_consistent()


def test_benchmark_without_gpu_predicts(monkeypatch):
    @T.prim_func
    def double(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32")):
        with T.Kernel(8, threads=128) as b:
            for i in T.Parallel(128):
                B[b * 128 + i] = A[b * 128 + i] * 2

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    profiler = tilelang.compile(double, target="sm_90a", out_idx=[-1]).get_profiler()
    with pytest.warns(EmulatorWarning, match="timing model predicts for the H200"):
        time = profiler.do_bench()
    assert 1e-3 < time < 1e-2  # milliseconds; nearly all is the launch
    with pytest.warns(EmulatorWarning):
        assert profiler.do_bench(quantiles=[0.2, 0.5]) == [time, time]
    with pytest.warns(EmulatorWarning, match="launches no kernel"):
        assert math.isnan(do_bench(lambda: torch.ones(3) + 1))


def test_import_is_lean():
    code = (
        "import sys, tilelang\n"
        "heavy = [m for m in ('torch', 'cuda.bindings.nvrtc', 'cuda.bindings.driver', 'pytest', "
        "'platformdirs') if m in sys.modules]\n"
        "assert not heavy, heavy\n"
        "tilelang.profiler, tilelang.TensorSupplyType, tilelang.target\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
