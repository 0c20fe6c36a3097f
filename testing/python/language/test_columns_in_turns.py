"""Reductions over the rows of a tensor whose columns take several turns, the last one shorter."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("target", "columns", "dtype"),
    [
        ("sm_80", 1300, "float64"),
        ("sm_90a", 2560, "float64"),
        ("sm_100a", 2400, "float64"),
        ("sm_100a", 5008, "float32"),
        ("sm_120a", 3000, "float32"),
    ],
)
@pytest.mark.parametrize("op", ["sum", "max"])
def test_results_in_a_fragment(target, columns, dtype, op):
    rows = 8

    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), C: T.Tensor((columns,), dtype)):
        with T.Kernel(1, threads=128):
            c = T.alloc_fragment((columns,), dtype)
            (T.reduce_sum if op == "sum" else T.reduce_max)(A, c, dim=0)
            for i in T.Parallel(columns):
                c[i] = c[i] * 2
            T.copy(c, C)

    a = torch.randint(-9, 9, (rows, columns)).to(getattr(torch, dtype))
    c = torch.full((columns,), float("nan"), dtype=a.dtype)
    tilelang.compile(main, target=target)(a, c)
    assert torch.equal(c, 2 * (a.sum(0) if op == "sum" else a.max(0).values))
