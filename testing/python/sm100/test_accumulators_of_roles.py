"""Accumulators in fragments whose gemms and other uses stand in several blocks of one role."""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import check_product, compile_sm100, poisoned

import tilelang.language as T

M, N, K = 128, 32, 64
STEPS = 2


def operands():
    return torch.randn(M, K * STEPS).half(), torch.randn(K * STEPS, N).half()


def two_blocks(role: int, threads: int, between: bool):
    """The gemm in one block, the store in another, perhaps with work of all threads between."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K * STEPS), "float16"),
        B: T.Tensor((K * STEPS, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((M, K * STEPS), "float16")
            b = T.alloc_shared((K * STEPS, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.copy(A, a)
            T.copy(B, b)
            with T.ws(role):
                T.gemm(a, b, c, clear_accum=True)
            if between:
                T.fill(C, 7)
                T.sync_threads()
            with T.ws(role):
                T.copy(c, C)

    return kernel


def loop_of_blocks(role: int, threads: int, cleared: bool):
    """A loop of all threads around the role's gemm; the clear before, the store after it."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K * STEPS), "float16"),
        B: T.Tensor((K * STEPS, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((M, K), "float16")
            b = T.alloc_shared((K, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            if cleared:
                with T.ws(role):
                    T.clear(c)
            for k in T.serial(STEPS):
                T.copy(A[0, k * K], a)
                T.copy(B[k * K, 0], b)
                with T.ws(role):
                    if cleared:
                        T.gemm(a, b, c)
                    else:
                        T.gemm(a, b, c, clear_accum=k == 0)
            with T.ws(role):
                T.copy(c, C)

    return kernel


def changed_between(role: int, threads: int):
    """Between two gemms another block of the role halves the accumulator, a third stores it."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K * STEPS), "float16"),
        B: T.Tensor((K * STEPS, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((M, K * STEPS), "float16")
            b = T.alloc_shared((K * STEPS, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.copy(A, a)
            T.copy(B, b)
            with T.ws(role):
                T.gemm(a, b, c, clear_accum=True)
            with T.ws(role):
                for i, j in T.Parallel(M, N):
                    c[i, j] = c[i, j] * 0.5
            with T.ws(role):
                T.gemm(a, b, c)
            with T.ws(role):
                T.copy(c, C)

    return kernel


ROLES = [(0, 256), (1, 256), (1, 384), (2, 384)]


@pytest.mark.parametrize(("role", "threads"), ROLES)
@pytest.mark.parametrize("between", [False, True])
def test_gemm_then_store(role, threads, between):
    (a, b), c = operands(), poisoned(M, N, "float32")
    compile_sm100(two_blocks(role, threads, between))(a, b, c)
    check_product(c, a, b)


@pytest.mark.every_schedule
@pytest.mark.parametrize(("role", "threads"), ROLES[1:3])
@pytest.mark.parametrize("cleared", [False, True])
def test_gemms_in_a_loop(role, threads, cleared):
    (a, b), c = operands(), poisoned(M, N, "float32")
    compile_sm100(loop_of_blocks(role, threads, cleared))(a, b, c)
    check_product(c, a, b)


@pytest.mark.parametrize(("role", "threads"), ROLES[:3])
def test_gemm_change_gemm_store(role, threads):
    (a, b), c = operands(), poisoned(M, N, "float32")
    compile_sm100(changed_between(role, threads))(a, b, c)
    check_product(c, torch.cat([a, a], 1), torch.cat([b * 0.5, b]))


def test_two_roles_with_an_accumulator_each():
    """Both roles multiply, then both store, each its half of the columns."""
    half = N // 2

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K * STEPS), "float16"),
        B: T.Tensor((K * STEPS, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((M, K * STEPS), "float16")
            b = T.alloc_shared((2, K * STEPS, half), "float16")
            c = T.alloc_fragment((M, half), "float32")
            T.copy(A, a)
            for role in (0, 1):
                T.copy(B[0 : K * STEPS, role * half : (role + 1) * half], b[role, :, :])
            for role in (1, 0):
                with T.ws(role):
                    T.gemm(a, b[role, :, :], c, clear_accum=True)
            for role in (0, 1):
                with T.ws(role):
                    T.copy(c, C[0:M, role * half : (role + 1) * half])

    (a, b), c = operands(), poisoned(M, N, "float32")
    compile_sm100(kernel)(a, b, c)
    check_product(c, a, b)
