"""Conditions that all threads decide alike, through variables, local buffers and loops."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

SIGNATURE = ((4, 64), "float16")


@T.macro
def _one_element(flag, masks, k, tx):
    flag[0] = masks[k]


@T.macro
def _all_elements(flag, masks, k, tx):
    for i in T.vectorized(4):
        flag[i] = masks[(k + i) % 4]


@T.macro
def _computed(flag, masks, k, tx):
    T.clear(flag)
    for i in T.serial(k + 1):
        flag[0] = flag[0] + masks[i] * (i == k)


@T.macro
def _a_shared_value(flag, masks, k, tx):
    if masks[k] > 0:
        flag[0] = 1
    else:
        flag[0] = 0


@T.macro
def _by_iterations_that_all_threads_run(flag, masks, k, tx):
    for i in T.Parallel(4):
        flag[i] = masks[(k + i) % 4]


@T.macro
def _from_registers(flag, masks, k, tx):
    spread = T.alloc_fragment((128,), "int32")
    T.fill(spread, 1)
    for i in T.Parallel(128):
        flag[i % 4] = spread[i] * masks[k]


@T.macro
def _of_a_thread(flag, masks, k, tx):
    flag[0] = masks[k] + tx // 64


@T.macro
def _at_a_place_of_a_thread(flag, masks, k, tx):
    flag[tx % 4] = masks[k]


@T.macro
def _by_some_threads(flag, masks, k, tx):
    flag[0] = 0
    if tx < 40:
        flag[0] = masks[k]


@T.macro
def _by_threads_with_iterations(flag, masks, k, tx):
    flag[0] = 0
    for _ in T.Parallel(64):
        flag[0] = masks[k]


@T.macro
def _copied(flag, masks, k, tx):
    flag[0] = 0
    for i in T.serial(tx % 2):
        flag[i] = masks[k]


def kernel(write):
    @T.prim_func
    def main(A: T.Tensor(*SIGNATURE), M: T.Tensor((4,), "int32"), B: T.Tensor(*SIGNATURE)):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((1, 64), "float16")
            flag = T.alloc_local((4,), "int32")
            tx = T.get_thread_binding(0)
            for k in T.serial(4):
                write(flag, M, k, tx)
                if flag[0] > 0:
                    T.copy(A[k, 0], tile)
                    T.copy(tile, B[k, 0])

    return main


@pytest.mark.parametrize(
    "write",
    [
        _one_element,
        _all_elements,
        _computed,
        _a_shared_value,
        _by_iterations_that_all_threads_run,
    ],
)
def test_a_local_buffer_that_all_threads_fill_alike(write) -> None:
    a, b = torch.randn(4, 64).half(), torch.zeros(4, 64).half()
    mask = torch.tensor([1, 0, 0, 1], dtype=torch.int32)
    tilelang.compile(kernel(write), target="sm_100a")(a, mask, b)
    torch.testing.assert_close(b, a * mask[:, None])


@pytest.mark.parametrize(
    "write",
    [
        _of_a_thread,
        _at_a_place_of_a_thread,
        _by_some_threads,
        _by_threads_with_iterations,
        _from_registers,
        _copied,
    ],
)
def test_a_local_buffer_that_threads_fill_differently(write) -> None:
    with pytest.raises(errors.SemanticsError, match="may differ between threads"):
        tilelang.compile(kernel(write), target="sm_100a")
