"""Reductions with more partial results than shared memory is taken for at once go in rounds."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import emulator


@pytest.mark.parametrize("target", ["sm_80", "sm_100a"])
def test_many_results_per_thread(target):
    """Warps hold parts of the same columns: at least 75 KB of partial results, in rounds of 32."""
    rows, columns = 8, 2400

    @T.prim_func
    def kernel(A: T.Tensor((rows, columns), "float64"), C: T.Tensor((columns,), "float64")):
        with T.Kernel(1, threads=256):
            f = T.alloc_fragment((rows, columns), "float64")
            c = T.alloc_fragment((columns,), "float64")
            T.copy(A, f)
            T.reduce_sum(f, c, dim=0)
            T.copy(c, C)

    built = tilelang.compile(kernel, target=target)
    assert built.get_kernel_source().count("__syncthreads()") >= 5
    a = torch.randint(-9, 9, (rows, columns)).double()
    for schedule in ("late", "eager", 1):
        c = torch.full((columns,), torch.nan).double()
        with emulator.options(schedule=schedule):
            built(a, c)
        assert torch.equal(c, a.sum(0))
