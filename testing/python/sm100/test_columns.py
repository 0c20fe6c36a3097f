"""Buffers of tensor memory share columns where no value of theirs is alive at the same time."""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import compile_sm100, poisoned

import tilelang.language as T
from tilelang import emulator, errors

M, N, K, STEPS = 128, 256, 64, 3
SCHEDULES = ["late", "eager", 1]


def kernel_of(body, scope):
    """``body(step, a, b, c, C)`` in a loop; ``c`` are three accumulators of 256 columns."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, STEPS * K), "bfloat16"),
        B: T.Tensor((N, STEPS * K), "bfloat16"),
        C: T.Tensor((3, STEPS, M, N), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((M, STEPS * K), "bfloat16")
            b = T.alloc_shared((N, STEPS * K), "bfloat16")
            c = [scope((M, N), "float32") for _ in range(3)]
            T.copy(A, a)
            T.copy(B, b)
            for step in T.serial(STEPS):
                body(step, a[:, step * K : (step + 1) * K], b[:, step * K : (step + 1) * K], c, C)

    return kernel


def by_turns(step, a, b, c, C):
    for i in range(3):
        T.clear(c[i])
        for _ in range(i + 1):
            T.gemm(a, b, c[i], transpose_B=True)
        T.copy(c[i], C[i, step, 0, 0])


def one_is_carried(step, a, b, c, C):
    T.gemm(a, b, c[0], transpose_B=True, clear_accum=step == 0)
    for i in (1, 2):
        T.gemm(a, b, c[i], transpose_B=True, clear_accum=True)
        T.copy(c[i], C[i, step, 0, 0])
    T.copy(c[0], C[0, step, 0, 0])


def results(body, products: torch.Tensor) -> torch.Tensor:
    if body is by_turns:
        return torch.stack([products, 2 * products, 3 * products])
    return torch.stack([products.cumsum(0), products, products])


@pytest.mark.may_spill("a thread holds 128 words of a tile")
@pytest.mark.parametrize(
    ("body", "scope"),
    [
        (by_turns, T.alloc_tmem),
        (by_turns, T.alloc_fragment),
        (one_is_carried, T.alloc_tmem),
    ],
)
def test_lives_inside_a_loop(body, scope):
    kernel = compile_sm100(kernel_of(body, scope))
    a = torch.randint(-4, 5, (M, STEPS * K)).to(torch.bfloat16)
    b = torch.randint(-4, 5, (N, STEPS * K)).to(torch.bfloat16)
    parts = (slice(s * K, (s + 1) * K) for s in range(STEPS))
    products = torch.stack([a[:, part].double() @ b[:, part].double().T for part in parts])
    for schedule in SCHEDULES:
        c = poisoned(3 * STEPS * M, N, "float32").view(3, STEPS, M, N)
        with emulator.options(schedule=schedule):
            kernel(a, b, c)
        assert torch.equal(c.double(), results(body, products))


def carried_by_all(step, a, b, c, C):
    for i in range(3):
        T.gemm(a, b, c[i], transpose_B=True, clear_accum=step == 0)
        T.copy(c[i], C[i, step, 0, 0])


def read_before_it_is_written(step, a, b, c, C):
    for i in range(3):
        T.copy(c[i], C[i, step, 0, 0])
        T.gemm(a, b, c[i], transpose_B=True, clear_accum=True)


def written_in_part(step, a, b, c, C):
    for i in range(3):
        T.copy(C[i, step, 0:M, 0:128], c[i][:, 0:128])
        T.gemm(a, b, c[i], transpose_B=True)
        T.copy(c[i], C[i, step, 0, 0])


@T.macro
def gemm_but_in_one_step(step, a, b, c):
    if step != 1:
        T.gemm(a, b, c, transpose_B=True, clear_accum=True)


def written_under_a_condition(step, a, b, c, C):
    for i in range(3):
        gemm_but_in_one_step(step, a, b, c[i])
        T.copy(c[i], C[i, step, 0, 0])


@pytest.mark.parametrize(
    "body",
    [carried_by_all, read_before_it_is_written, written_in_part, written_under_a_condition],
)
def test_values_that_outlive_an_iteration(body):
    with pytest.raises(errors.ResourceError, match="768 columns"):
        compile_sm100(kernel_of(body, T.alloc_tmem))
