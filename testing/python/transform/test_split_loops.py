"""Iterations that work on tiles where the others do not have a loop of their own."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T

M, N, K = 64, 32, 32
TARGETS = ("sm_80", "sm_90a", "sm_100a")


def sums(steps, condition, num_stages=2, leaves=False):
    """The sum over k of A[k] B[k]^T, twice those k for which the condition holds."""

    @T.prim_func
    def kernel(
        A: T.Tensor((steps, M, K), "float16"),
        B: T.Tensor((steps, N, K), "float16"),
        C: T.Tensor((M, N), "float32"),
        bound: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, K), "float16")
            b = T.alloc_shared((N, K), "float16")
            part = T.alloc_fragment((M, N), "float32")
            total = T.alloc_fragment((M, N), "float32")
            T.clear(total)
            for k in T.Pipelined(steps, num_stages=num_stages):
                T.copy(A[k, :, :], a)
                T.copy(B[k, :, :], b)
                T.gemm(a, b, part, transpose_B=True, clear_accum=True)
                if condition(k, bound):
                    for i, j in T.Parallel(M, N):
                        part[i, j] = part[i, j] * 2.0
                for i, j in T.Parallel(M, N):
                    total[i, j] += part[i, j]
                if leaves and k == bound:
                    break
            T.copy(total, C)

    return kernel


SPLIT = {
    "from a bound": lambda k, bound: k >= bound,
    "a bound before": lambda k, bound: bound <= k,
    "computed": lambda k, bound: k >= bound // 2 + 1,
}
WHOLE = {
    "until": lambda k, bound: k < bound,
    "one": lambda k, bound: k == bound,
    "of the iteration": lambda k, bound: k >= bound - k,
}
CONDITIONS = SPLIT | WHOLE


def loops_of(kernel) -> int:
    """Loops around the additions of tiles."""
    return len(re.findall(r"total\[\w+\] = total\[\w+\] \+", kernel.get_kernel_source()))


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_sums(target: str, condition: str) -> None:
    steps = 4
    kernel = tilelang.compile(sums(steps, CONDITIONS[condition]), target=target)
    a, b = torch.randn(steps, M, K).half(), torch.randn(steps, N, K).half()
    products = a.double() @ b.double().transpose(1, 2)
    for bound in (-3, 0, 1, 3, 4, 9):
        c = torch.full((M, N), float("nan"))
        kernel(a, b, c, bound)
        factors = [1 + CONDITIONS[condition](k, bound) for k in range(steps)]
        want = sum(f * p for f, p in zip(factors, products, strict=True))
        torch.testing.assert_close(c.double(), want, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_lengths_known_at_run_time(steps: int) -> None:
    length = T.dynamic("length")
    kernel = tilelang.compile(sums(length, SPLIT["from a bound"]), target="sm_90a")
    a, b = torch.randn(steps, M, K).half(), torch.randn(steps, N, K).half()
    for bound in (0, 1, 4):
        c = torch.full((M, N), float("nan"))
        kernel(a, b, c, bound)
        products = a.double() @ b.double().transpose(1, 2)
        want = products[:bound].sum(0) + 2 * products[bound:].sum(0)
        torch.testing.assert_close(c.double(), want, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_which_conditions_split_a_loop(condition: str) -> None:
    kernel = tilelang.compile(sums(4, CONDITIONS[condition]), target="sm_90a")
    assert loops_of(kernel) == (2 if condition in SPLIT else 1)


def test_a_loop_that_is_left_stays_whole() -> None:
    program = sums(4, SPLIT["from a bound"], leaves=True)
    kernel = tilelang.compile(program, target="sm_90a")
    assert loops_of(kernel) == 1
    a, b = torch.randn(4, M, K).half(), torch.randn(4, N, K).half()
    c = torch.full((M, N), float("nan"))
    kernel(a, b, c, 2)
    products = a.double() @ b.double().transpose(1, 2)
    want = products[0] + products[1] + 2 * products[2]
    torch.testing.assert_close(c.double(), want, atol=1e-3, rtol=1e-3)
