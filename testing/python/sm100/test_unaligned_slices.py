"""Slices of shared tiles that no descriptor can walk: mma.sync multiplies them."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


def by_slices(step: int):
    """C = A B, ``step`` columns of B a GEMM."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "bfloat16"),
        B: T.Tensor((64, 96), "bfloat16"),
        C: T.Tensor((64, 96), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "bfloat16"), T.alloc_shared((64, 96), "bfloat16")
            c = T.alloc_fragment((64, step), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for part in T.unroll(96 // step):
                T.gemm(a, b[:, part * step : (part + 1) * step], c, clear_accum=True)
                T.copy(c, C[:, part * step : (part + 1) * step])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize(("step", "tcgen05"), [(48, False), (32, True), (96, True)])
def test_results(step, tcgen05):
    kernel = tilelang.compile(by_slices(step), target="sm_100a")
    assert ("tcgen05.mma" in kernel.get_ptx()) == tcgen05
    remarks = [remark.message for remark in kernel.remarks]
    assert any("must begin at a row" in message for message in remarks) != tcgen05
    a, b = torch.randint(-3, 4, (64, 64)).float(), torch.randint(-3, 4, (64, 96)).float()
    c = torch.full((64, 96), torch.nan)
    kernel(a.bfloat16(), b.bfloat16(), c)
    assert torch.equal(c, a @ b)
