"""``import tvm`` where no TVM is installed, ``with target:``, ``with PassContext(...)``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors, tvm

_IMPORTS = """
import tilelang
import tvm, tvm.ir, tvm.tirx.op, tvm.arith.analyzer
from tvm import tirx, DataType
from tvm.tirx import const, floordiv
from tvm.tirx.expr import IntImm, Not, Or, Var
from tvm.tirx.stmt_functor import post_order_visit
from tvm.tir import stmt_functor
from tvm.target import Target
from tvm.ir import IRModule, Range, assert_structural_equal
import tilelang.tvm.tirx as other
assert tvm is tilelang.tvm and tirx is tvm.tir is other and tvm.ir is tilelang.tvm.ir
assert stmt_functor.post_order_visit is post_order_visit
assert DataType("float16").bits == 16 and str(Target("sm_80")) == "sm_80"
assert tvm.__name__ == tvm.__spec__.name == "tilelang.tvm"
try:
    import tvm.relay
except ModuleNotFoundError as error:
    assert "tvm.relay" in str(error)
else:
    raise AssertionError
"""


def test_names_of_tvm_are_importable() -> None:
    subprocess.run([sys.executable, "-c", _IMPORTS], check=True)


def test_an_installed_tvm_comes_first(tmp_path: Path) -> None:
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "__init__.py").write_text("mine = True")
    (tmp_path / "tvm" / "tirx.py").write_text("mine = True")
    text = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import tilelang, tvm, tvm.tirx; assert tvm.mine and tvm.tirx.mine\n"
        "import tilelang.tvm.tirx as ours; assert ours.IntImm"
    )
    subprocess.run([sys.executable, "-c", text], check=True)


@T.prim_func
def ones(A: T.Tensor((32,), "float32")):
    with T.Kernel(1, threads=32):
        A[T.get_thread_binding()] = 1


@tilelang.jit
def lazily(value: int):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            A[T.get_thread_binding()] = value

    return main


@tilelang.jit
def eagerly(A):
    A: T.Tensor((32,), T.float32)
    B = T.empty((32,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            B[i] = T.sin(A[i])
    return B


def test_inside_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sm_80")
    with tvm.target.Target("sm_90a") as target:
        assert tvm.target.Target.current() is target
        assert str(tilelang.compile(ones).target) == "sm_90a"
        assert str(tilelang.compile(ones, target="sm_80").target) == "sm_80"
        assert [str(k.target) for k in tilelang.par_compile([ones, ones])] == ["sm_90a"] * 2
        inside = lazily(1)
        with tvm.target.Target("sm_100a"):
            assert str(lazily(1).target) == "sm_100a"
        assert lazily(1) is inside and str(inside.target) == "sm_90a"
    assert str(lazily(1).target) == "sm_80"
    with pytest.raises(RuntimeError, match="left"), tvm.target.Target("sm_90a"):
        raise RuntimeError("left")
    assert str(tvm.target.Target.current()) == "sm_80"


def sine(configs=None):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                A[i] = T.sin(A[i])

    return tilelang.compile(main, target="sm_90a", pass_configs=configs)


def test_options_of_a_context() -> None:
    key = tilelang.PassConfigKey.TL_ENABLE_FAST_MATH
    a = torch.randn(32)
    with tvm.transform.PassContext(config={key: True}):
        assert tvm.transform.PassContext.current().config == {str(key): True}
        fast, plain = sine(), sine({key: False})
        torch.testing.assert_close(eagerly(a), a.sin())
        inner = eagerly.compile(a)
    assert tvm.transform.PassContext.current().config == {}
    assert "sin.approx" in inner.get_ptx()
    assert "sin.approx" not in eagerly.compile(a).get_ptx()
    torch.testing.assert_close(eagerly(a), a.sin())
    assert "sin.approx" in fast.get_ptx() and "sin.approx" not in plain.get_ptx()
    with pytest.raises(errors.ConfigError, match="unknown pass option"):
        tvm.transform.PassContext(config={"tl.enable_fast_mth": True})
    with pytest.raises(errors.UnsupportedError, match="config alone"):
        tvm.transform.PassContext(instruments=[object()])
