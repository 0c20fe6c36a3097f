"""``tilelang.compile`` and ``@tilelang.jit`` around a compiler core that is replaced."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

import tilelang
import tilelang.language as T
from runtime import handmade as hm
from tilelang import errors
from tilelang.jit import compiler
from tilelang.jit.lower import LoweredKernel


class Core:
    """Stands for the compiler core: any function becomes a kernel that adds a number."""

    def __init__(self):
        self.calls = []

    def __call__(self, func, target, configs, ignored=()):
        self.calls.append((func, str(target), configs))
        source = f'extern "C" __global__ void k(float* x) {{ x[threadIdx.x] += {func.number}; }}\n'
        spec = hm.spec("k", func.params, [hm.launch("k", (1,), (32,), func.params)])
        return LoweredKernel(source, source, (), spec)


@pytest.fixture
def core(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    replacement = Core()
    monkeypatch.setattr(compiler, "lower", replacement)
    return replacement


def prim_func(number):
    return SimpleNamespace(number=number, attrs={}, params=[hm.tensor("X", "float32", (32,))])


def test_compile_passes_target_and_options(core):
    options = {
        tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True,
        "tl.disable_thread_storage_sync": 0,
        "tl.Simplify": True,
        "tl.enable_fast_math": True,
    }
    kernel = tilelang.compile(prim_func(3), target="sm_80", pass_configs=options, out_idx=-1)
    _, target, configs = core.calls[0]
    assert target == "sm_80" and kernel.out_idx == [0]
    assert configs == {
        "tl.enable_fast_math": True,
        "tl.disable_tma_lower": True,
        "tl.disable_thread_storage_sync": False,
    }


def test_fast_math_and_flags_reach_nvrtc(core, monkeypatch):
    seen = []
    from tilelang.runtime import cache

    real = cache.compile_cached
    monkeypatch.setattr(cache, "compile_cached", lambda s, a, o: seen.append(o) or real(s, a, o))
    options = {"tl.enable_fast_math": True, "tl.ptxas_register_usage_level": 5}
    tilelang.compile(prim_func(1), target="sm_80", pass_configs=options, compile_flags="-DX=1 -DY")
    assert seen == [("--use_fast_math", "--ptxas-options=--register-usage-level=5", "-DX=1", "-DY")]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pass_configs": {"tl.disable_tma": True}}, errors.ConfigError, "did you mean 'tl.disa"),
        ({"pass_configs": {"tl.disable_tma_lower": "yes"}}, errors.ConfigError, "cannot be 'yes'"),
        ({"execution_backend": "dlopen"}, errors.ConfigError, "unknown execution backend"),
        ({"target": "sm_12"}, errors.TargetError, "unknown target 'sm_12'"),
        ({"out_idx": [1]}, errors.ConfigError, "out_idx 1 is not the index of one of 1"),
        ({"out_idx": False}, errors.ConfigError, "out_idx False is not the index of one of 1"),
    ],
)
def test_wrong_settings_are_refused_before_compiling(core, options, error, message):
    with pytest.raises(error, match=message):
        tilelang.compile(prim_func(1), **options)
    assert core.calls == []


def test_every_pass_option_has_one_spelling():
    keys = list(tilelang.PassConfigKey)
    assert len({str(key) for key in keys}) == len(keys)
    assert tilelang.PassConfigKey("tl.enable_fast_math").name == "TL_ENABLE_FAST_MATH"
    assert tilelang.PassConfigKey.TL_SIMPLIFY == "tl.Simplify"


def test_verbose_prints_the_source(core, caplog):
    with caplog.at_level(logging.WARNING, "tilelang"):
        tilelang.compile(prim_func(41), target="sm_80", verbose=True)
    assert "+= 41;" in caplog.text


def test_jit_compiles_once_for_equal_parameters(core):
    built = []

    @tilelang.jit(out_idx=[-1], target="sm_90a")
    def kernel(number, options=(), *, flag=False):
        """Adds."""
        built.append((number, options, flag))
        return prim_func(number)

    first = kernel(3, [1, {"a": 2}])
    assert kernel(3, [1, {"a": 2}]) is first
    assert kernel(3, [1, {"a": 3}]) is not first
    assert kernel(3, [1, {"a": 2}], flag=True) is not first
    assert len(built) == 3 and first.out_idx == [0] and kernel.__doc__ == "Adds."


def test_equal_parameters_of_different_types_are_different(core):
    @tilelang.jit(target="sm_90a")
    def kernel(value):
        return prim_func(f"{value:d}" if isinstance(value, bool) else repr(value))

    assert "+= 1;" in kernel(True).get_kernel_source()
    assert "+= 1.0;" in kernel(1.0).get_kernel_source()
    assert kernel(1) is not kernel(True) and kernel(1) is not kernel(1.0)


def test_jit_without_parentheses(core, monkeypatch):
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sm_80")

    @tilelang.jit
    def kernel(number):
        return prim_func(number)

    assert str(kernel(2).target) == "sm_80"
    assert kernel.get_tir(2).number == 2
    assert "+= 7;" in kernel.get_kernel_source(7)


def test_jit_compiles_several_at_once(core):
    @tilelang.jit(target="sm_90a")
    def kernel(number, scale=1):
        return prim_func(number * scale)

    kernels = kernel.par_compile([(1,), {"number": 2, "scale": 5}, (3,)])
    for number, compiled in zip((1, 10, 3), kernels, strict=True):
        assert f"+= {number};" in compiled.get_kernel_source()
    assert kernel(3) is kernels[2]


def test_jit_of_a_function_that_returns_no_kernel(core):
    @tilelang.jit
    def kernel():
        return 5

    with pytest.raises(errors.ConfigError, match=r"kernel returned int, but .* @T.prim_func"):
        kernel()


def test_par_compile_keeps_the_order(core):
    kernels = tilelang.par_compile([prim_func(i) for i in range(6)], target="sm_80")
    assert [f"+= {i};" in k.get_kernel_source() for i, k in enumerate(kernels)] == [True] * 6


def test_lower_stops_at_the_source(core, monkeypatch):
    from tilelang.runtime import nvrtc

    monkeypatch.setattr(nvrtc, "compile_cuda", None)
    artifact = tilelang.lower(prim_func(9), target="sm_80", pass_configs={"tl.Simplify": True})
    assert "+= 9;" in artifact.kernel_source and core.calls[0][1:] == ("sm_80", {})


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80"])
def test_functions_of_the_gpu_by_name(target: str) -> None:
    @T.prim_func
    def two(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            B[bx * 32 + T.get_thread_binding()] = 1
        with T.Kernel(4, threads=64) as bx:
            A[bx * 16] = 2

    kernel = tilelang.compile(two, target=target)
    lowered = tilelang.lower(two, target=target)
    names = list(kernel.kernels)
    assert len(names) == 2 and all(f" {name}(" in kernel.get_kernel_source() for name in names)
    assert [str(launch.grid[0]) for launch in kernel.kernels.values()] == ["2", "4"]
    assert [each.name_hint for each in lowered.device_mod.functions] == names
    assert kernel.adapter.kernels == kernel.kernels
