"""Kernels that fit tensor memory and shared memory with some accumulators in registers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sm100_kernels import compile_sm100, random_values

import tilelang.language as T

ROWS, COLUMNS, HELD = 64, 256, 2


def chained(floats: int) -> Any:
    """Two chained products beside ``HELD`` results in tensor memory and a large shared tile."""

    @T.prim_func
    def main(
        X: T.Tensor((ROWS, 64), "float16"),
        Y: T.Tensor((64, COLUMNS), "float16"),
        Large: T.Tensor((floats,), "float32"),
        Out: T.Tensor((HELD + 1, ROWS, COLUMNS), "float32"),
    ):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((ROWS, 64), "float16")
            y = T.alloc_shared((64, COLUMNS), "float16")
            large = T.alloc_shared((floats,), "float32")
            first = T.alloc_fragment((ROWS, 64), "float32")
            narrow = T.alloc_fragment((ROWS, 64), "float16")
            second = T.alloc_fragment((ROWS, COLUMNS), "float32")
            held = T.alloc_tmem((HELD, ROWS, COLUMNS), "float32")
            T.copy(X, x)
            T.copy(Y, y)
            T.copy(Large, large)
            T.clear(first)
            T.clear(second)
            T.gemm(x, y[:, 0:64], first, policy=T.GemmWarpPolicy.FullRow)
            T.copy(first, narrow)
            T.gemm(narrow, y, second, policy=T.GemmWarpPolicy.FullRow)
            for i in T.unroll(HELD):
                T.gemm(x, y, held[i, :, :], clear_accum=True)
                T.copy(held[i, :, :], Out[i, :, :])
            T.copy(second, Out[HELD, :, :])
            for i in T.Parallel(floats):
                large[i] = large[i] * 2
            T.copy(large, Large)

    return main


def _by_threads(kernel: Any) -> int:
    reason = "the tiles of the kernel do not fit tensor memory together"
    return sum(reason in str(remark.message) for remark in kernel.remarks)


@pytest.mark.may_spill("128 registers of the accumulators of 64 x 256, beside those of 64 x 64")
def test_more_accumulators_in_registers_take_less_shared_memory() -> None:
    """A fragment passes through 16 KiB more between two GEMMs of which one has it in registers."""
    roomy, full = (compile_sm100(chained(floats)) for floats in (1024, 46000))
    assert (_by_threads(roomy), _by_threads(full)) == (1, 2)
    for kernel, floats in ((roomy, 1024), (full, 46000)):
        x, y = random_values(ROWS, 64, "float16"), random_values(64, COLUMNS, "float16")
        large, out = torch.randn(floats), torch.full((HELD + 1, ROWS, COLUMNS), torch.nan)
        doubled = large * 2
        kernel(x, y, large, out)
        product = x.double() @ y.double()
        for held in out[:HELD]:
            torch.testing.assert_close(held.double(), product, rtol=1e-5, atol=1e-4)
        last = product[:, :64].half().double() @ y.double()
        torch.testing.assert_close(out[HELD].double(), last, rtol=1e-2, atol=1e-1)
        assert torch.equal(large, doubled)
