"""Names in the body of T.Parallel do not stand in the way of vectors, and keep their meaning."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

N = 256


def body_of(kernel) -> str:
    return kernel.get_kernel_source().split("__global__")[1]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_named_indices_and_values(dtype):
    @T.prim_func
    def main(A: T.Tensor((64, N), dtype), B: T.Tensor((64, N), dtype)):
        with T.Kernel(4, threads=128) as bx:
            for i, j in T.Parallel(16, N):
                row = bx * 16 + i
                x = T.cast(A[row, j], "float32")
                double = x + x
                if row < 60:
                    B[row, j] = double * x

    kernel = tilelang.compile(main, target="sm_90a")
    assert "tl::store(B" in body_of(kernel)
    a, b = (
        torch.randn(64, N).to(getattr(torch, dtype)),
        torch.zeros(64, N).to(getattr(torch, dtype)),
    )
    kernel(a, b)
    assert torch.equal(b[:60], (2 * a.float() ** 2).to(b.dtype)[:60])
    assert not b[60:].any()


@pytest.mark.parametrize("memory", ["global", "shared", "fragment"])
def test_a_value_that_the_body_writes(memory):
    """An exchange by a name: the name has the value from before."""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=64):
            if memory == "global":
                x, y = A, B
            else:
                alloc = T.alloc_shared if memory == "shared" else T.alloc_fragment
                x, y = alloc((N,), "int32"), alloc((N,), "int32")
                T.copy(A, x)
                T.copy(B, y)
            for i in T.Parallel(N):
                before = x[i]
                x[i] = y[i]
                y[i] = before
            if memory != "global":
                T.copy(x, A)
                T.copy(y, B)

    a, b = (torch.randint(-99, 99, (N,)).int() for _ in range(2))
    was_a, was_b = a.clone(), b.clone()
    tilelang.compile(main, target="sm_90a")(a, b)
    assert torch.equal(a, was_b) and torch.equal(b, was_a)


def test_effects_happen_once():
    @T.prim_func
    def main(Count: T.Tensor((1,), "int32"), B: T.Tensor((2, N), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                place = T.atomic_add(Count[0], 1, return_prev=True)
                B[0, i] = place
                B[1, i] = place

    count, b = torch.zeros(1).int(), torch.full((2, N), -1).int()
    tilelang.compile(main, target="sm_90a")(count, b)
    assert count.item() == N
    assert torch.equal(b[0], b[1])
    assert torch.equal(b[0].sort().values, torch.arange(N).int())


def test_values_that_would_grow():
    """Each name uses the one before twice: twenty of them would be a million operations."""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                x = A[i]
                for _ in range(20):
                    x = x + x * 3
                B[i] = x

    kernel = tilelang.compile(main, target="sm_90a")
    assert len(kernel.get_kernel_source()) < 10000
    a, b = torch.randint(-99, 99, (N,)).int(), torch.zeros(N).int()
    kernel(a, b)
    assert torch.equal(b.long(), (a.long() * 4**20 + 2**31) % 2**32 - 2**31)


@pytest.mark.parametrize("named", [False, True])
def test_a_neighbour_under_a_condition(named):
    """Shared memory has no element -1; the condition keeps it from being read."""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((N,), "int32")
            y = T.alloc_fragment((N,), "int32")
            T.copy(A, x)
            T.copy(A, y)
            for i in T.Parallel(N):
                if named:
                    left, inside = i - 1, i >= 1
                    y[i] += T.if_then_else(inside, x[left], 0)
                else:
                    y[i] += T.if_then_else(i >= 1, x[i - 1], 0)
            T.copy(y, B)

    a, b = torch.randint(-99, 99, (N,)).int(), torch.zeros(N).int()
    tilelang.compile(main, target="sm_90a")(a, b)
    assert torch.equal(b[1:], a[1:] + a[:-1]) and b[0] == a[0]
