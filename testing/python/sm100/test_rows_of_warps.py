"""Work on rows of an accumulator that a condition chooses: warps without such rows skip its columns
in tensor memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sm100_kernels import compile_sm100, poisoned, random_values

import tilelang.language as T

N, K, BLOCKS = 64, 32, 6


def scaled(rows: int, threads: int, stages: int, otherwise: bool = False) -> Any:
    """C = sum over blocks of A_k B_k; before each block, row i of the sum is multiplied by
    Factor[k, i] where Flag[k, i] is set."""

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, BLOCKS * K), "bfloat16"),
        B: T.Tensor((BLOCKS * K, N), "bfloat16"),
        Flag: T.Tensor((BLOCKS, rows), "int32"),
        Factor: T.Tensor((BLOCKS, rows), "float32"),
        C: T.Tensor((rows, N), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((rows, K), "bfloat16")
            b = T.alloc_shared((K, N), "bfloat16")
            c = T.alloc_fragment((rows, N), "float32")
            flag = T.alloc_fragment((rows,), "int32")
            factor = T.alloc_fragment((rows,), "float32")
            T.clear(c)
            for k in T.Pipelined(BLOCKS, num_stages=stages):
                T.copy(A[0, k * K], a)
                T.copy(B[k * K, 0], b)
                T.copy(Flag[k, 0:rows], flag)
                T.copy(Factor[k, 0:rows], factor)
                for i, j in T.Parallel(rows, N):
                    if flag[i] != 0:
                        c[i, j] *= factor[i]
                    elif otherwise:
                        c[i, j] += factor[i]
                T.gemm(a, b, c)
            T.copy(c, C)

    return kernel


def run(kernel: Any, rows: int, flag: torch.Tensor, otherwise: bool = False) -> None:
    a, b = random_values(rows, BLOCKS * K, "bfloat16"), random_values(BLOCKS * K, N, "bfloat16")
    factor = torch.rand(BLOCKS, rows) + 0.5
    c = poisoned(rows, N, "float32")
    kernel(a, b, flag, factor, c)
    want = torch.zeros(rows, N, dtype=torch.float64)
    for k in range(BLOCKS):
        once = factor[k].double()[:, None]
        want = torch.where(flag[k][:, None] != 0, want * once, want + once * otherwise)
        want += a[:, k * K : k * K + K].double() @ b[k * K : k * K + K].double()
    torch.testing.assert_close(c.double(), want, rtol=1e-4, atol=1e-4)


def few_rows(rows: int) -> torch.Tensor:
    """A flag in one row of each block, in another warp each time."""
    flag = torch.zeros(BLOCKS, rows, dtype=torch.int32)
    for k in range(BLOCKS):
        flag[k, (k * 37 + 5) % rows] = 1
    return flag


def flags(rows: int) -> list[torch.Tensor]:
    some = (torch.rand(BLOCKS, rows) < 0.02).int()
    return [torch.zeros(BLOCKS, rows).int(), torch.ones(BLOCKS, rows).int(), some, few_rows(rows)]


@pytest.mark.every_schedule
@pytest.mark.parametrize("stages", [0, 2])
@pytest.mark.parametrize(("rows", "threads"), [(128, 128), (256, 256), (128, 256), (64, 128)])
def test_rows_are_scaled(rows: int, threads: int, stages: int) -> None:
    kernel = compile_sm100(scaled(rows, threads, stages))
    for flag in flags(rows):
        run(kernel, rows, flag)


def test_warps_without_rows_skip_the_columns() -> None:
    kernel = compile_sm100(scaled(256, 256, 2))
    assert "tl::any(" in kernel.get_kernel_source()
    executed = []
    by_one_warp = torch.zeros(BLOCKS, 256, dtype=torch.int32)
    for k in range(BLOCKS):
        by_one_warp[k, k * 32 : k * 32 + 32] = 1
    for flag in (torch.zeros(BLOCKS, 256).int(), by_one_warp, torch.ones(BLOCKS, 256).int()):
        run(kernel, 256, flag)
        executed.append(kernel.last_launch.lane_instructions)
    none, one_warp, all_warps = executed
    # In each block one of eight warps, or all.
    assert all_warps - none == 8 * (one_warp - none) > 0


def test_other_rows_that_change_too() -> None:
    """No warp may skip them."""
    kernel = compile_sm100(scaled(128, 128, 2, otherwise=True))
    assert "tl::any(" not in kernel.get_kernel_source()
    run(kernel, 128, few_rows(128), otherwise=True)


def test_condition_that_asks_for_the_sum() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((128, K), "bfloat16"), C: T.Tensor((128, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, K), "bfloat16")
            c = T.alloc_fragment((128, N), "float32")
            T.clear(c)
            T.copy(A, a)
            for _ in T.serial(2):
                T.gemm(a, a[0:N, 0:K], c, transpose_B=True)
                for i, j in T.Parallel(128, N):
                    if c[i, j] < 0:
                        c[i, j] *= 0.5
            T.copy(c, C)

    compiled = compile_sm100(kernel)
    assert "tl::any(" not in compiled.get_kernel_source()
    a, c = random_values(128, K, "bfloat16"), poisoned(128, N, "float32")
    compiled(a, c)
    once = a.double() @ a[:N].double().T
    first = torch.where(once < 0, once * 0.5, once) + once
    want = torch.where(first < 0, first * 0.5, first)
    torch.testing.assert_close(c.double(), want, rtol=1e-4, atol=1e-4)
