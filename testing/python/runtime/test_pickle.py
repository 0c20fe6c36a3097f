"""Kernels, jit functions and what they are made of in other processes, and copies of them."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

import tilelang
import tilelang.language as T


@T.prim_func
def scale(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32"), s: T.float32):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            Y[i] = X[i] * s


@tilelang.jit(out_idx=-1, target="sm_100a")
def adder(n: int, value: float):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                Y[i] = X[i] + value

    return main


def run(kernel, factory) -> list[float]:
    """What another process does with what it was sent."""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernel(x, y, 3.0)
    return [*y.tolist(), *np.asarray(factory(64, 0.5)(x)).tolist()]


def test_kernels_run_in_another_process() -> None:
    kernel = tilelang.compile(scale, target="sm_100a", pass_configs={"tl.disable_tma_lower": True})
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result = pool.apply(run, (kernel, adder))
    x = np.arange(64, dtype=np.float32)
    assert result == [*(x * 3).tolist(), *(x + 0.5).tolist()]


def test_what_is_unpickled_is_the_same() -> None:
    kernel = tilelang.compile(
        scale, out_idx=[1], target="sm_90a", pass_configs={"tl.enable_fast_math": True}
    )
    again = pickle.loads(pickle.dumps(kernel))
    assert again.get_kernel_source() == kernel.get_kernel_source()
    assert again.get_ptx() == kernel.get_ptx()
    assert (again.out_idx, str(again.target), again.name) == ([1], "sm_90a", "scale")
    assert pickle.loads(pickle.dumps(adder)) is adder
    assert str(pickle.loads(pickle.dumps(scale))) == str(scale)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies(duplicate) -> None:
    kernel = tilelang.compile(scale, target="sm_100a")
    assert duplicate(kernel) is kernel and duplicate(adder) is adder
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    duplicate({"kernels": [kernel]})["kernels"][0](x, y, 2.0)
    assert (y == 2).all()


@pytest.mark.parametrize("name", ["float16", "bool", "float8_e5m2", "handle"])
def test_types(name: str) -> None:
    dtype = T.dtype(name)
    assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype


def test_errors() -> None:
    with pytest.raises(tilelang.errors.DTypeError) as caught:
        T.dtype("flot16")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is tilelang.errors.DTypeError and str(again) == str(caught.value)
