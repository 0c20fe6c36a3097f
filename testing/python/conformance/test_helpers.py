"""Helpers of TileLang's other modules: flags, callbacks, analysis, supplies, names of modules."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from conformance.running import close, equal, normal, poison

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.jit.compile_flags import nvrtc_flags


def scale_by(factor: Any) -> Any:
    """A kernel that multiplies 64 numbers."""

    @T.prim_func
    def scaled(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[i] * factor

    return scaled


FLAGS = [
    (["-O3", "-lineinfo"], ["-lineinfo"], ["-O3"]),
    (["-Wno-deprecated-declarations", "-w"], ["-w"], ["-Wno-deprecated-declarations"]),
    (["--expt-relaxed-constexpr", "--expt-extended-lambda"], [], ["relaxed", "extended"]),
    (
        ["--ptxas-options=-v,--register-usage-level=10"],
        ["--ptxas-options=-v", "--ptxas-options=--register-usage-level=10"],
        [],
    ),
    (["-Xptxas", "-v,-O3"], ["--ptxas-options=-v", "--ptxas-options=-O3"], []),
    (["-Xcompiler", "-fPIC", "-DN=1"], ["-DN=1"], ["-Xcompiler -fPIC"]),
    (["-Xcompiler=-O2", "-t4", "-lcuda", "-g"], [], ["-Xcompiler", "-t4", "-lcuda", "-g"]),
    (["--keep", "-ftz=true", "-U__X__"], ["-ftz=true", "-U__X__"], ["--keep"]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "options", "unused"), FLAGS)
def test_flags_of_nvcc(given: list[str], options: list[str], unused: list[str]) -> None:
    found, remarks = nvrtc_flags(given)
    assert found == options
    assert len(remarks) == len(unused)
    assert all(flag in remark for flag, remark in zip(unused, remarks, strict=True))


def test_kernels_compile_with_flags_of_nvcc() -> None:
    flags = ["-O3", "-DNDEBUG", "--ptxas-options=-v,--register-usage-level=10", "-Xcompiler", "-O2"]
    kernel = tilelang.compile(scale_by(2), target="sm_90a", compile_flags=flags)
    unused = [remark.message for remark in kernel.remarks if remark.topic == "argument"]
    assert [flag in text for flag, text in zip(("'-O3'", "-Xcompiler"), unused, strict=True)]
    a = normal(64)
    b = poison(64)
    kernel(a, b)
    equal(b, a * 2)


def test_options_that_ptxas_does_not_know_are_the_users() -> None:
    kernel_of = scale_by(2)
    with pytest.raises(errors.ConfigError, match="ptxas has no option '-no-such-option'"):
        tilelang.compile(
            kernel_of, target="sm_90a", compile_flags="-Xptxas --no-such-option"
        ).get_ptx()


@pytest.fixture
def no_callback() -> Iterator[None]:
    """Removes what the test registers."""
    from tilelang.engine.callback import register_cuda_postproc

    yield
    register_cuda_postproc(None)


def test_generated_code_may_be_changed(no_callback: None) -> None:
    from tilelang.engine import callback

    seen = []

    @callback.register_cuda_postproc_callback
    def doubled(code: str, target: Any) -> str:
        seen.append(str(target))
        return code.replace("3.25f", "6.5f")

    @callback.register_hip_postproc_callback()
    def never(code: str, target: Any) -> str:
        raise AssertionError

    kernel = tilelang.compile(scale_by(T.float32(3.25)), target="sm_80")
    assert seen == ["sm_80"]
    assert "6.5f" in kernel.get_kernel_source()
    a, b = normal(64), poison(64)
    kernel(a, b)
    close(b, a.double() * 6.5)
    with pytest.raises(errors.ArgumentError, match="a callback is registered already"):
        callback.register_cuda_postproc(doubled, override=False)


def test_what_changes_generated_code_returns_code(no_callback: None) -> None:
    from tilelang.engine.callback import register_cuda_postproc_callback

    @register_cuda_postproc_callback(override=True)
    def nothing(code: str, target: Any) -> None:
        return None

    with pytest.raises(errors.ArgumentError, match="nothing for generated code returned NoneType"):
        tilelang.compile(scale_by(2), target="sm_80")


def product(m: int, n: int, k: int, skip: bool = False) -> Any:
    """A gemm by tiles of 32 x 32 x 16 that leaves out tiles above the diagonal."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float16"),
    ):
        with T.Kernel(n // 32, m // 32, threads=128) as (bx, by):
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((16, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for i in T.Pipelined(by + 1 if skip else k // 16, num_stages=2):
                T.copy(A[by * 32, i * 16], a)
                T.copy(B[i * 16, bx * 32], b)
                T.gemm(a, b, c)
            if k > 0:
                T.copy(c, C[by * 32, bx * 32])

    return main  # fmt: skip


def test_work_is_counted() -> None:
    from tilelang.tools import Analyzer

    found = Analyzer.analysis(product(64, 96, 48), "sm_90a")
    assert found.total_flops == 2 * 64 * 96 * 48
    blocks, steps = 6, 3
    assert found.total_global_bytes == blocks * (steps * 2 * 32 * 16 * 2 + 32 * 32 * 2)


def test_work_of_loops_whose_extent_depends_on_the_block() -> None:
    from tilelang.tools import Analyzer

    found = Analyzer(product(64, 96, 48, skip=True)).ir_pass().calculate()
    steps = 3 * (1 + 2)  # three columns of blocks, of one and of two steps
    assert found.total_flops == steps * 2 * 32 * 32 * 16


def test_work_that_is_not_known() -> None:
    from tilelang.tools import Analyzer

    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 64), "float32")):
        with T.Kernel(n, threads=64) as bx:
            tile = T.alloc_shared((64,), "float32")
            T.copy(A[bx, 0], tile)

    with pytest.raises(errors.ArgumentError, match="the work of main depends on n"):
        Analyzer.analysis(main)

    @T.prim_func
    def endless(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            while A[0] == 0:
                T.sync_threads()

    with pytest.raises(errors.UnsupportedError, match="while loop"):
        Analyzer.analysis(endless)


def test_supplies() -> None:
    from tilelang.utils.tensor import TensorSupplyType, get_tensor_supply

    kernel = tilelang.compile(scale_by(2), target="sm_80")
    ones = get_tensor_supply(TensorSupplyType.One)(kernel.params[0])
    assert ones.cpu().tolist() == [1.0] * 64
    assert get_tensor_supply()(kernel.params[1]).dtype == torch.float32


def test_names_of_modules(caplog: pytest.LogCaptureFixture) -> None:
    from tilelang import transform
    from tilelang.layout import swizzle
    from tilelang.transform.simplify import apply_simplify
    from tilelang.tvm.testing import assert_allclose

    assert transform.PassConfigKey is tilelang.PassConfigKey
    assert tilelang.next_power_of_2(33) == 64
    assert tilelang.DataType("float16").bits == 16
    assert swizzle.make_swizzled_layout is tilelang.layout.make_swizzled_layout
    assert_allclose([1.0], [1.0])
    level = logging.getLogger("tilelang").level
    tilelang.set_log_level("debug")
    assert logging.getLogger("tilelang").level == logging.DEBUG
    tilelang.set_log_level(level)

    made = transform.simplify_prim_func(scale_by)(2)
    for func in (made, apply_simplify(made)):
        a, b = normal(64), poison(64)
        tilelang.compile(func, target="sm_80")(a, b)
        equal(b, a * 2)
    with pytest.raises(AttributeError, match="no attribute 'Lower'"):
        transform.Lower  # noqa: B018


def test_packages_that_tests_need() -> None:
    mark = tilelang.testing.requires_package("torch", "surely_not_installed")
    assert mark.args == (True,)
    assert mark.kwargs["reason"] == "not installed: surely_not_installed"
    assert tilelang.testing.requires_package("torch").args == (False,)
