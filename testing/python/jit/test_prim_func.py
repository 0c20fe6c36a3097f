"""``@tilelang.jit`` on a ``T.prim_func``: the kernel itself."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.jit.kernel import JITKernel


def _add_row(target: str, rows: int, columns: int, dtype: str) -> JITKernel:
    @tilelang.jit(out_idx=-1, target=target, pass_configs={"tl.enable_fast_math": True})
    @T.prim_func
    def add(
        A: T.Tensor((rows, columns), dtype),
        B: T.Tensor((columns,), dtype),
        C: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(rows, threads=64) as row:
            for j in T.Parallel(columns):
                C[row, j] = A[row, j] + B[j]

    return add


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_of_a_factory(target: str, dtype: str) -> None:
    add = _add_row(target, 5, 37, dtype)
    assert isinstance(add, JITKernel)
    kind = getattr(torch, dtype)
    a, b = torch.randint(-9, 9, (5, 37)).to(kind), torch.randint(-9, 9, (37,)).to(kind)
    assert torch.equal(add(a, b), a + b)


def test_without_options() -> None:
    @tilelang.jit
    @T.prim_func
    def double(A: T.Tensor((40,), "int32"), B: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(40):
                B[i] = 2 * A[i]

    a, b = torch.arange(40, dtype=torch.int32), torch.zeros(40, dtype=torch.int32)
    double(a, b)
    assert torch.equal(b, 2 * a)


def test_dynamic_extents() -> None:
    n = T.dynamic("n")

    @tilelang.jit(out_idx=[1], target="sm_100a")
    @T.prim_func
    def negate(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = -A[bx * 32 + i]

    for length in (1, 32, 77):
        a = torch.randn(length)
        assert torch.equal(negate(a), -a)


def test_wrong_uses_are_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.clear(A)

    with pytest.raises(errors.ConfigError, match="no parameters to choose"):
        tilelang.jit(tune="model", target="sm_100a")(main)
    with pytest.raises(errors.ConfigError, match="out_idx"):
        tilelang.jit(out_idx=3, target="sm_100a")(main)


def test_the_python_function() -> None:
    """Both styles keep the function that they decorate, as ``func``."""

    @tilelang.jit(target="sm_100a")
    def lazy(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                T.clear(A)

        return main

    @tilelang.jit(target="sm_100a")
    def eager(A, scale: int):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                A[i] = A[i] * scale

    assert (lazy.func.__name__, eager.func.__name__) == ("lazy", "eager")
    assert lazy.func(8).params[0].shape[0] == 8
    kernel = eager.compile(n=40, scale=3)
    a = torch.randn(40)
    expected = a * 3
    kernel(a)
    assert torch.equal(a, expected)
