"""The marker ``over_field`` of the project's own tests."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

pytestmark = pytest.mark.over_field


def kernel():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)
            T.copy(c, C)

    return tilelang.compile(main, target="sm_100a")


@pytest.mark.parametrize("factor", [1, 1.0001])
def test_comparisons_of_floats_have_no_tolerance(factor):
    a = torch.randn(64, 64).half()
    c = torch.full((64, 64), float("nan")).half()
    kernel()(a, c)
    want = (factor * (a.double() @ a.double())).half()
    if factor == 1:
        torch.testing.assert_close(c, want, rtol=0, atol=0)
    else:
        with pytest.raises(AssertionError):
            torch.testing.assert_close(c, want, rtol=1, atol=100)
