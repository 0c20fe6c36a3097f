"""``T.thread_binding`` as a value and as a loop, inside T.Kernel and without one."""

from __future__ import annotations

import pytest
import torch
from conformance.running import equal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors


def test_index_of_the_kernel(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((3, 8, 16), "int32")):
        with T.Kernel(3, threads=(16, 8)) as bx:
            tx = T.thread_binding(0, 16, thread="threadIdx.x")
            block = T.thread_binding(3, "blockIdx.x")
            for ty in T.thread_binding(8, thread="threadIdx.y"):
                B[block, ty, tx] = bx * 128 + ty * 16 + T.thread_binding(16, "threadIdx.x")

    equal(run(main, target, poison(3, 8, 16, dtype="int32")), torch.arange(384).view(3, 8, 16))


def test_from_a_start(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.thread_binding(8, 40, thread="threadIdx.x")
            if tx < 16:
                B[tx - 8] = -1
            B[tx] = tx * 2

    expected = torch.arange(40) * 2
    expected[:8] = -1
    equal(run(main, target, poison(40, dtype="int32")), expected)


def test_values_open_a_kernel(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((5, 32), "int32")):
        bx = T.thread_binding(5, thread="blockIdx.x")
        tx = T.thread_binding(32, thread="threadIdx.x")
        B[bx, tx] = bx * 32 + tx

    equal(run(main, target, poison(5, 32, dtype="int32")), torch.arange(160).view(5, 32))


@pytest.mark.parametrize(("count", "place"), [(64, "threadIdx.x"), (2, "threadIdx.y")])
def test_another_extent_is_refused(count: int, place: str) -> None:
    with pytest.raises(errors.SemanticsError, match=f"of {count} along {place}, where T.Kernel"):

        @T.prim_func
        def main(B: T.Tensor((128,), "int32")):
            with T.Kernel(1, threads=128):
                tx = T.thread_binding(0, count, thread=place)
                B[tx] = tx


def test_variables_by_their_class() -> None:
    n = T.dynamic("n")
    assert isinstance(n, T.Var) and isinstance(T.Var("m", "int64"), T.Var)
    assert not isinstance(n + 1, T.Var) and not isinstance(5, T.Var)
    assert tilelang.tvm.tir.Var is T.Var
