"""Compiling groups of configurations, and the settings of searches that ask for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors, tvm
from tilelang.autotuner import AutoTuner
from tilelang.autotuner.grouped_compile import compile_grouped_unit_tvm_ffi
from tilelang.autotuner.param import AutotuneResult, CompileArgs, ProfileArgs

ARGS = CompileArgs(out_idx=[1], target="sm_100a", execution_backend="tvm_ffi")


def shifted(size: int, by: float = 1.0) -> Any:
    if size > 1000:
        raise ValueError(f"size {size} is too large")

    @T.prim_func
    def kernel(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(size):
                B[i] = A[i] + by

    return kernel


def test_each_configuration_has_its_kernel() -> None:
    items = [(7, {"size": 17}), (3, {"size": 23, "by": 5.0})]
    found = compile_grouped_unit_tvm_ffi(items, ARGS, shifted)
    assert [(number, config) for number, config, _, _ in found] == items
    for _, config, kernel, error in found:
        assert error is None
        a = torch.randn(config["size"])
        assert torch.equal(kernel(a), a + config.get("by", 1.0))


def test_a_configuration_that_fails_leaves_the_others() -> None:
    def traced(size: int) -> Any:
        if size != 5:
            return shifted(size)

        @T.prim_func
        def wrong(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
            with T.Kernel(1, threads=32):
                tile = T.alloc_shared((1 << 20,), "float32")
                T.copy(A, tile[0:size])
                T.copy(tile[0:size], B)

        return wrong

    items = [(number, {"size": size}) for number, size in enumerate((2000, 5, 64))]
    first, second, third = compile_grouped_unit_tvm_ffi(
        unit_items=items, compile_args=ARGS, elaborate_func=traced
    )
    assert first[2] is None and isinstance(first[3], ValueError)
    assert second[2] is None and isinstance(second[3], errors.ResourceError)
    assert third[3] is None and torch.equal(third[2](torch.zeros(64)), torch.ones(64))


def test_no_configurations_are_no_kernels() -> None:
    assert compile_grouped_unit_tvm_ffi([], ARGS, shifted) == []


def test_what_surrounds_the_call_holds_for_all() -> None:
    args = CompileArgs(out_idx=[1])
    with tvm.target.Target("sm_80"):
        ((_, _, kernel, _),) = compile_grouped_unit_tvm_ffi([(0, {"size": 8})], args, shifted)
    assert str(kernel.target) == "sm_80"


def test_arguments_compile_one_program() -> None:
    kernel = ARGS.compile_program(shifted(9))
    assert torch.equal(kernel(torch.zeros(9)), torch.ones(9))


def test_the_module_has_the_other_arguments_of_a_search() -> None:
    assert ProfileArgs is tilelang.autotuner.ProfileArgs
    assert AutotuneResult is tilelang.autotuner.AutotuneResult


def test_a_search_takes_settings_of_grouped_compilation(private_cache: Any) -> None:
    tuner = AutoTuner.from_kernel(shifted, [{"size": 64, "by": by} for by in (1.0, 2.0)])
    tuner.set_compile_args(out_idx=[1], target="sm_100a")
    result = tuner.run(
        warmup=1,
        rep=1,
        use_pipeline=True,
        enable_grouped_compile=True,
        group_compile_size=2,
        benchmark_multi_gpu=True,
        benchmark_devices=[0, 1],
    )
    assert len(result.trials) == 2
    with pytest.raises(errors.ConfigError, match="autotuning has no setting 'group_size'"):
        tuner.run(group_size=2)
