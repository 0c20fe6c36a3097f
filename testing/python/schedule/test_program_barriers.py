"""Roles of the program that fill one tile by the tensor memory accelerator or by threads."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

ROWS, WIDTH, TILES = 32, 32, 6


def by_either(condition: str):
    """A warp fills slots of a ring: whole tiles by T.tma_copy, others element by element."""
    rows, d = ROWS, WIDTH

    @T.prim_func
    def kernel(
        A: T.Tensor((rows * TILES, d), "bfloat16"),
        Out: T.Tensor((rows * TILES, d), "bfloat16"),
        end: T.int32,
        n: T.int32,
    ):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            a = T.alloc_shared((2, rows, d), "bfloat16")
            ready = T.alloc_barrier(arrive_count=[32, 32])
            free = T.alloc_barrier(arrive_count=[128, 128])
            if tx < 128:
                for i in T.serial(n):
                    T.barrier_wait(ready[i % 2], (i // 2) % 2)
                    for j, k in T.Parallel(rows, d):
                        Out[i * rows + j, k] = a[i % 2, j, k]
                    T.barrier_arrive(free[i % 2])
            else:
                if tx < 160:
                    for i in T.serial(n):
                        T.barrier_wait(free[i % 2], (i // 2 + 1) % 2)
                        left = i * rows
                        right = left + rows
                        whole = right <= end if condition == "last" else i % 3 == 0
                        if whole:
                            T.tma_copy(A[left:right, 0:d], a[i % 2, :, :], barrier=ready[i % 2])
                        else:
                            for j, k in T.Parallel(rows, d):
                                if left + j < end:
                                    a[i % 2, j, k] = A[left + j, k]
                                else:
                                    a[i % 2, j, k] = 0
                            if condition != "last":
                                T.fence_proxy_async()
                        T.barrier_arrive(ready[i % 2])

    return kernel


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("condition", ["last", "third"])
def test_the_program_orders_copies_that_it_waits_for(target: str, condition: str) -> None:
    kernel = tilelang.compile(by_either(condition), target=target)
    a = torch.randn(ROWS * TILES, WIDTH).bfloat16()
    for end in (ROWS * TILES, ROWS * TILES - 12, 5):
        out = torch.full_like(a, float("nan"))
        kernel(a, out, end, TILES)
        want = a.clone()
        want[end:] = 0
        if condition == "third":
            for i in range(0, TILES, 3):
                want[i * ROWS : (i + 1) * ROWS] = a[i * ROWS : (i + 1) * ROWS]
        assert torch.equal(out, want), end


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_no_barrier_stands_between_copies_and_threads_of_the_program(target: str) -> None:
    """The mbarriers of the program order them."""
    source = tilelang.compile(by_either("last"), target=target).get_kernel_source()
    assert "__syncthreads" not in source.split("tma_load")[1]
