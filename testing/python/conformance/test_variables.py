"""Variables that begin with what memory holds, and indices that count from the end."""

from __future__ import annotations

import pytest
import torch
from conformance.running import equal, normal, poison, run

import tilelang.language as T


@T.prim_func
def from_memory(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32")):
    with T.Kernel(4, threads=32) as row:
        tx = T.get_thread_binding()
        v = T.alloc_var("float32", A[row, tx])
        for step in T.serial(5):
            other = T.shfl_xor(v, 1 << step)
            v = T.Select((tx >> step) & 1 == 0, v + other, other - v)
        B[row, tx] = v


def test_variable_from_a_tensor(target: str) -> None:
    a = normal(4, 32).round()
    expected = a.view(4, 2, 2, 2, 2, 2)
    for dim in range(1, 6):
        x, y = expected.unbind(dim)
        expected = (x + y).unsqueeze(dim).repeat_interleave(2, dim)
        expected.select(dim, 1).copy_(x - y)
    equal(run(from_memory, target, a, poison(4, 32)), expected.reshape(4, 32))


@T.prim_func
def from_shared_memory(A: T.Tensor((2, 64), "float32"), B: T.Tensor((2, 64), "float32")):
    with T.Kernel(1, threads=64):
        tile = T.alloc_shared((2, 64), "float32")
        tx = T.get_thread_binding()
        for k in T.serial(2):
            tile[k, tx] = A[k, tx]
            v = T.alloc_var("float32", tile[k, 63 - tx])
            v = v + 1
            B[k, tx] = v


def test_variable_from_what_other_threads_wrote(target: str) -> None:
    a = normal(2, 64)
    equal(run(from_shared_memory, target, a, poison(2, 64)), a.flip(1) + 1)


@T.prim_func
def from_the_end(
    A: T.Tensor((4, 64), "float32"),
    B: T.Tensor((64,), "float32"),
    C: T.Tensor((T.dynamic("n"),), "float32"),
):
    with T.Kernel(1, threads=64):
        tile = T.alloc_shared((4, 64), "float32")
        last = T.alloc_fragment((16,), "float32")
        T.copy(A, tile)
        for i in T.Parallel(64):
            B[i] = tile[-1, i] + A[-2, i]
        T.copy(A[0, -16:], last)
        T.copy(last, C[-16:])
        C[-17] = A[0, -64]


def test_indices_from_the_end(target: str) -> None:
    a, b = normal(4, 64), poison(64)
    c = run(from_the_end, target, a, b, poison(20))
    equal(b, a[3] + a[2])
    equal(c[3:], a[0, [0, *range(48, 64)]])
    assert c[:3].isnan().all()


def tiles_of(n: int, block: int = 128):
    @T.prim_func
    def main(
        A: T.Tensor((64, n), "float16"),
        C: T.Tensor((64, n), "float32"),
        B: T.Tensor((64, n), "float16"),
    ):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            low = bx % T.ceildiv(n, block) * block  # 0 where there is one tile
            tile = T.alloc_shared((64, block), "float16")
            sums = T.alloc_fragment((64, block), "float32")
            T.copy(A[:, low : low + block], tile)
            T.copy(tile, sums)
            T.copy(tile, B[:, low : low + block])
            T.atomic_add(C[0:64, low : low + block], sums)

    return main


@pytest.mark.parametrize("n", [5, 72, 136])
def test_slices_beyond_a_tensor(n: int, target: str) -> None:
    a, c = normal(64, n, dtype="float16"), torch.ones(64, n)
    equal(run(tiles_of(n), target, a, c, poison(64, n, dtype="float16")), a)
    equal(c, a.float() + 1)
