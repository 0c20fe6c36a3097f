"""What a kernel takes from Python around it: names that are bound later, sizes rounded up there."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_sizes_rounded_up_in_python(target: str) -> None:
    """``-(-n // 64)`` of a size of the call: the negation is no sum."""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            for t in T.Pipelined(tilelang.cdiv(n, 64), num_stages=2):
                T.copy(A[t * 64], tile)
                T.copy(tile, B[t * 64])
            for t in T.serial(-(-n // 64)):
                B[n - 1 - t] = A[n - 1 - t]
            T.copy(A[-(-n // 64) * 64 - 64 : n], B[-(-n // 64) * 64 - 64 : n])

    kernel = tilelang.compile(main, target=target)
    for size in (64, 100, 129):
        a, b = torch.randn(size), torch.full((size,), torch.nan)
        kernel(a, b)
        assert torch.equal(a, b)


def test_a_name_of_the_enclosing_function_that_is_bound_later() -> None:
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            if False:
                A[0] = later
            A[T.get_thread_binding()] = 1.0

    later = 2.0
    a = torch.zeros(32)
    tilelang.compile(main, target="sm_90a")(a)
    assert later == 2.0 and torch.equal(a, torch.ones(32))
