"""Helpers that programs import by name: arithmetic, architectures, targets, layouts, TVM."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest
import torch
from conformance.running import close, equal, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors, tvm
from tilelang.transform.pass_config import ignored, normalize


def test_powers_of_two() -> None:
    from tilelang.math import next_power_of_2

    for n in range(1, 300):
        found = next_power_of_2(n)
        assert found >= n and found.bit_count() == 1 and (found == 1 or found // 2 < n)
    assert tilelang.cdiv(7, 2) == tilelang.math.cdiv(7, 2) == 4


def test_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilelang.carver.arch import CDNA, CUDA, driver, get_arch, is_cuda_arch

    arch = CUDA("sm_90a")
    assert (arch.sm_version, arch.compute_max_core, arch.smem_cap) == (90, 132, 227 * 1024)
    assert is_cuda_arch(get_arch("sm_80")) and not isinstance(arch, CDNA)
    with pytest.raises(errors.UnsupportedError, match="no ROCm backend"):
        CDNA("gfx942")
    if torch.cuda.is_available():
        assert driver.get_num_sms() == torch.cuda.get_device_properties(0).multi_processor_count
        return
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sm_80")
    assert (driver.get_num_sms(), driver.get_sm_version()) == (108, 80)
    assert driver.get_shared_memory_per_block(format="kb") == 163
    assert driver.get_max_dynamic_shared_size_bytes() == 163 * 1024
    with pytest.raises(ValueError, match="bytes, kb, mb"):
        driver.get_shared_memory_per_block(format="pages")


def test_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilelang.backend.target import determine_target
    from tilelang.contrib import nvcc
    from tilelang.utils.target import determine_target as same

    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sm_90a")
    assert determine_target("auto") == same("cuda") == "sm_90a"
    assert determine_target("sm_100", return_object=True).major == 10
    assert isinstance(determine_target("sm_80", True), tvm.target.Target)
    assert str(tvm.target.Target({"kind": "cuda", "arch": "sm_80"})) == "sm_80"
    assert nvcc.get_target_compute_version("sm_90a") == "9.0"
    assert nvcc.get_target_arch("10.0") == "100"
    assert nvcc.have_tma("sm_90a") and not nvcc.have_tma("sm_80")
    with pytest.raises(errors.TargetError):
        determine_target("hip")


def test_types_of_eight_bits() -> None:
    from tilelang.language.fp8 import determine_fp8_type, determine_torch_fp8_type

    assert determine_fp8_type() == "float8_e4m3fn"
    assert determine_torch_fp8_type("e5m2") == torch.float8_e5m2
    with pytest.raises(errors.DTypeError, match="e3m4"):
        determine_fp8_type("e3m4")


def test_settings() -> None:
    from tilelang.env import env

    was = env.is_cache_enabled()
    env.disable_cache()
    assert not tilelang.is_cache_enabled()
    env.enable_cache()
    assert env.is_cache_enabled() == was
    assert env.TILELANG_CACHE_DIR
    with pytest.raises(AttributeError, match="no setting"):
        env.CACHE  # noqa: B018


def test_every_pass_option_is_known() -> None:
    """By enumerator and by spelling; an unknown one is refused."""

    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            A[T.get_thread_binding()] = 1

    for key in tilelang.PassConfigKey:
        value: Any = None
        tilelang.lower(main, "sm_90a", pass_configs={key: value, str(key): value})
    with pytest.raises(errors.ConfigError, match="unknown pass option"):
        tilelang.lower(main, "sm_90a", pass_configs={"tl.disable_warp_specialised": True})


@pytest.mark.parametrize("name", ["full", "half", "quarter"])
def test_swizzled_layouts_do_not_change_what_is_computed(name: str, target: str) -> None:
    make = getattr(tilelang.layout, f"make_{name}_bank_swizzled_layout")

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({S: make(S)})
            T.copy(A, S)
            for i, j in T.Parallel(64, 64):
                B[i, j] = S[j, i]

    a = normal(64, 64, dtype="float16")
    equal(run(main, target, a, poison(64, 64, dtype="float16")), a.T)


def test_a_swizzle_by_its_formula(target: str) -> None:
    from tilelang.cuda.intrinsics import get_swizzle_layout

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            T.annotate_layout(
                {S: T.Layout(S.shape, lambda i, j: get_swizzle_layout(i, j, 64, S.dtype))}
            )
            T.copy(A, S)
            for i, j in T.Parallel(64, 64):
                B[i, j] = S[j, i]

    a = normal(64, 64, dtype="float16")
    equal(run(main, target, a, poison(64, 64, dtype="float16")), a.T)


def test_layouts_of_mma_operands(target: str) -> None:
    from tilelang.cuda.intrinsics import make_mma_swizzle_layout
    from tilelang.layout import make_swizzled_layout

    @T.prim_func
    def main(
        A: T.Tensor((64, 32), "float16"),
        B: T.Tensor((32, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64, 32), "float16")
            y = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({x: make_mma_swizzle_layout(x), y: make_swizzled_layout(y)})
            T.copy(A, x)
            T.copy(B, y)
            T.clear(c)
            T.gemm(x, y, c, policy=tilelang.tileop.base.GemmWarpPolicy.FullRow)
            T.copy(c, C)

    a, b = normal(64, 32, dtype="float16"), normal(32, 64, dtype="float16")
    close(run(main, target, a, b, poison(64, 64)), a.double() @ b.double(), 1e-3)


def test_lowering_by_the_engine() -> None:
    from tilelang.engine import lower

    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            A[T.get_thread_binding()] = 1

    assert "__global__" in lower.lower(main, target="sm_80").kernel_source
    module = tvm.IRModule.from_expr(main)
    assert isinstance(main, tvm.tir.PrimFunc) and list(module) == ["main"] and "main" in module
    tvm.ir.assert_structural_equal(module["main"], main)
    assert tvm.ir.structural_hash(main) == tvm.ir.structural_hash(module["main"])
    assert "main" in module.script()


def test_expressions_by_the_names_of_tvm() -> None:
    tir, n = tvm.tir, tvm.tir.Var("n", "int32")
    assert isinstance(n, tir.Var) and isinstance(n + 1, tir.PrimExpr)
    assert not isinstance(n + 1, tir.Var)
    assert tvm.DataType("float16").bits == 16 and tvm.DataType("int8") == T.int8
    assert int(tir.const(3)) == 3 and [int(x) for x in tir.convert([1, 2])] == [1, 2]
    analyzer = tvm.arith.Analyzer()
    assert analyzer.can_prove_equal((n * 4 + 8) // 4, n + 2)
    assert not analyzer.can_prove(n >= 0)
    analyzer.bind(n, 0, 16)
    assert analyzer.can_prove(tir.all(n >= 0, n < 16)) and analyzer.can_prove(
        tir.any(n < 0, n >= 0)
    )
    assert int(analyzer.simplify(n // 16)) == 0
    assert tir.exp2 is T.exp2 and tir.ceildiv(5, 2) == 3 and tvm.tirx is tir
    visited: list[Any] = []
    tir.stmt_functor.post_order_visit(n * 2 + n, visited.append)
    assert [str(each) for each in visited] == ["n", "2", "n * 2", "n * 2 + n"]
    with pytest.raises(errors.UnknownNameError, match=r"tilelang\.tvm has no name 'relay'"):
        tvm.relay  # noqa: B018


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_names_that_whole_packages_import(arch: str, capfd: pytest.CaptureFixture[str]) -> None:
    from tilelang.jit.adapter import base
    from tilelang.profiler.bench import suppress_stdout_stderr
    from tilelang.utils import device

    @T.macro
    def double(x: T.LocalBuffer[(4,), T.float32], y: T.LocalBuffer((4,), "float32")):
        for i in T.serial(4):
            y[i] = x[i] * 2

    @T.prim_func
    def main(A: T.Tensor((32, 4), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            x, y = T.alloc_local((4,), "float32"), T.alloc_local((4,), "float32")
            for i in T.serial(4):
                x[i] = A[t, i]
            double(x, y)
            for i in T.serial(4):
                A[t, i] = y[i]

    keys = tilelang.PassConfigKey
    configs = {
        keys.TL_DISABLE_OUT_OF_BOUND_WARNING: True,
        keys.TL_ENABLE_LOWER_LDGSTG_PREDICATED: True,
        "tirx.disable_vectorize": False,
    }
    kernel = tilelang.compile(main, target=arch, pass_configs=configs)
    assert isinstance(kernel, base.BaseKernelAdapter)
    a = torch.randn(32, 4)
    want = a * 2
    with suppress_stdout_stderr():
        print("nobody sees this")
        os.write(1, b"nor this")
        kernel(a)
    assert torch.equal(a, want)
    assert capfd.readouterr().out == ""
    assert device.get_current_device() in ("cpu", *range(16))
    device.device_synchronize()


def test_every_pass_option_of_tilelang_is_known() -> None:
    """Those of version 0.1.15 that came last; one that is set is remarked."""
    later = """
        TL_ENABLE_LOWER_LDGSTG TL_ENABLE_LOWER_LDGSTG_PREDICATED TL_DISABLE_OUT_OF_BOUND_WARNING
        TL_ENABLE_VECTORIZE_PLANNER_VERBOSE TL_ENABLE_REDUCER_PLAN_VERBOSE TL_LAYOUT_COST_MODEL
        TL_REDUCER_FORCE_BASELINE TL_ENABLE_FP32X2_REDUCTION TL_ENABLE_AUTO_SCHEDULE
        TL_ENABLE_AUTO_WARP_SPECIALIZATION TL_DISABLE_SHARED_MEMORY_REUSE
        TL_DISABLE_LOOP_UNSWITCHING TL_LOOP_UNSWITCHING_ALLOW_NON_TRIVIAL_ELSE
        TL_IF_STMT_BINDING_INLINE_REPLAYABLE_BINDS TL_EMIT_LINE_DIRECTIVES TL_ENABLE_DUMP_IR
        TL_DUMP_IR_DIR TL_PASS_PROFILE TL_PASS_PROFILE_THRESHOLD_MS
    """
    configs = {getattr(tilelang.PassConfigKey, name): "on" for name in later.split()}
    assert len(configs) == 19 and normalize(configs) == {}
    texts = ignored(configs)
    assert len(texts) == 19 and all("has no effect: " in text for text in texts)


def test_replacing_parts_of_ir() -> None:
    from tilelang.tvm.stmt_functor import ir_transform

    n, m = tvm.tir.Var("n", "int32"), tvm.tir.Var("m", "int32")

    def other(node: Any) -> Any:
        return m if isinstance(node, tvm.tir.Var) and node.same_as(n) else None

    for found in (
        ir_transform(n * 2 + n, None, other),
        ir_transform(n * 2 + n, other, None),
        ir_transform(n * 2 + n, None, other, ["tir.Var"]),
    ):
        assert str(found) == "m * 2 + m"
    assert str(ir_transform(n * 2 + n, None, other, ["tir.For"])) == "n * 2 + n"
    seen: list[str] = []
    ir_transform(n * 2 + n, lambda node: seen.append(str(node)), None)
    assert seen[0] == "n * 2 + n" and "n" in seen


@pytest.mark.parametrize(
    "name",
    [
        "rocm.target",
        "jit.adapter.cutedsl",
        "cache.kernel_cache",
        "intrinsics",
        "cuda.intrinsics.mma_macro_generator",
    ],
)
def test_modules_that_are_not_there_say_why(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r": \w+ .*"):
        importlib.import_module(f"tilelang.{name}")


def test_emitters_of_instructions_say_what_to_use() -> None:
    with pytest.raises(ImportError, match=r"no TensorCoreIntrinEmitter: .* use T\.gemm"):
        from tilelang.cuda.intrinsics import TensorCoreIntrinEmitter  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'NoSuchName'"):
        from tilelang.cuda.intrinsics import NoSuchName  # noqa: F401


def test_measuring_functions(capsys: pytest.CaptureFixture[str]) -> None:
    from tilelang import testing

    assert testing.process_func(lambda n: n / 2, "half", n=3) == 1.5
    assert "half: 1.500000 ms" in capsys.readouterr().out
    assert testing.regression(("_regression_",)) == {"_regression_here": 7}


def _regression_here() -> int:
    return 7


def test_comparing_by_the_older_name() -> None:
    from tilelang.utils.tensor import map_torch_type, torch_assert_close

    torch_assert_close(torch.ones(4), torch.ones(4))
    with pytest.raises(AssertionError):
        torch_assert_close(torch.ones(4), torch.zeros(4))
    assert map_torch_type("bfloat16") == torch.bfloat16
