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


def masked_products(steps: int, window: int):
    """dV = (mask of K Q^T in a window) dO and dK = (the same with V dO^T) Q, by rows of keys."""
    rows, dim = 32, 64

    @T.prim_func
    def kernel(
        Q: T.Tensor((steps * rows, dim), "float16"),
        dO: T.Tensor((steps * rows, dim), "float16"),
        K: T.Tensor((128, dim), "float16"),
        V: T.Tensor((128, dim), "float16"),
        dK: T.Tensor((128, dim), "float32"),
        dV: T.Tensor((128, dim), "float32"),
    ):
        with T.Kernel(1, threads=128):
            k, v = T.alloc_shared((128, dim), "float16"), T.alloc_shared((128, dim), "float16")
            q, do = T.alloc_shared((rows, dim), "float16"), T.alloc_shared((rows, dim), "float16")
            s = T.alloc_fragment((128, rows), "float32")
            d = T.alloc_fragment((128, rows), "float32")
            s_cast = T.alloc_fragment((128, rows), "float16")
            d_cast = T.alloc_fragment((128, rows), "float16")
            dk = T.alloc_fragment((128, dim), "float32")
            dv = T.alloc_fragment((128, dim), "float32")
            T.copy(K, k)
            T.copy(V, v)
            T.clear(dk)
            T.clear(dv)
            for step in T.Pipelined(steps, num_stages=2):
                T.copy(Q[step * rows, 0], q)
                T.copy(dO[step * rows, 0], do)
                T.gemm(k, q, s, transpose_B=True, clear_accum=True)
                T.gemm(v, do, d, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(128, rows):
                    inside = i <= step * rows + j and i > step * rows + j - window
                    s[i, j] = T.if_then_else(inside, s[i, j], 0)
                T.copy(s, s_cast)
                T.gemm(s_cast, do, dv)
                for i, j in T.Parallel(128, rows):
                    d_cast[i, j] = s[i, j] * d[i, j]
                T.gemm(d_cast, q, dk)
            T.copy(dk, dK)
            T.copy(dv, dV)

    return kernel


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_both_parts_use_the_tensor_memory_of_other_roles(target: str) -> None:
    steps, window = 8, 100
    q, do = (torch.randint(-1, 2, (steps * 32, 64)).half() for _ in range(2))
    k, v = (torch.randint(-1, 2, (128, 64)).half() for _ in range(2))
    dk, dv = torch.full((2, 128, 64), torch.nan)
    tilelang.compile(masked_products(steps, window), target=target)(q, do, k, v, dk, dv)
    i, j = torch.arange(128)[:, None], torch.arange(steps * 32)[None]
    s = torch.where((i <= j) & (i > j - window), k.float() @ q.float().T, 0)
    d = (s * (v.float() @ do.float().T)).half().float()
    torch.testing.assert_close(dv, s @ do.float(), rtol=0, atol=0)
    torch.testing.assert_close(dk, d @ q.float(), rtol=0, atol=0)
