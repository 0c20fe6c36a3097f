"""Fragments that no tile operator uses: memory of each thread, as upstream programs use them."""

from __future__ import annotations

import pytest
import torch
from conformance.running import equal, integers, poison, run

import tilelang
import tilelang.language as T


def test_values_that_threads_load_ahead(target: str) -> None:
    @T.prim_func
    def main(P: T.Tensor((8, 2, 64), "int32"), A: T.Tensor((16,), "int32"), B: T.Tensor((8, 64))):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            if t >= 64:
                ahead = T.alloc_fragment([2, 2], "int32")
                for k in T.unroll(2):
                    ahead[0, k] = P[0, k, t - 64]
                for i in T.serial(8):
                    if i + 1 < 8:
                        for k in T.serial(2):
                            ahead[(i + 1) % 2, k] = P[i + 1, k, t - 64]
                    B[i, t - 64] = A[ahead[i % 2, 0]] - A[ahead[i % 2, 1]]

    p, a = integers(8, 2, 64, low=0, high=16), integers(16)
    b = run(main, target, p, a, poison(8, 64))
    equal(b, (a[p[:, 0].long()] - a[p[:, 1].long()]).float())


def test_other_fragments_stay_tiles(target: str) -> None:
    """An element that threads store by name, of a tile that a copy reads."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_fragment((2,), "int32")
            tile = T.alloc_fragment((64,), "int32")
            own[0] = A[T.get_thread_binding()]
            own[1] = own[0] * 2
            for i in T.Parallel(64):
                tile[i] = A[63 - i]
            T.copy(tile, B)
            B[T.get_thread_binding()] += own[1]

    a = integers(64)
    equal(run(main, target, a, poison(64, dtype="int32")), a.flip(0) + 2 * a)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_compiler_says_so(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_fragment((1,), "int32")
            own[0] = A[T.get_thread_binding()]
            A[T.get_thread_binding()] = own[0] + 1

    kernel = tilelang.compile(main, target=target)
    assert any("each thread has its own fragment own" in each.message for each in kernel.remarks)
    kernel(a := torch.arange(64).int())
    assert torch.equal(a, torch.arange(1, 65).int())
