"""Tensor memory that one group of threads writes and another one reads: they meet in between."""

from __future__ import annotations

import re

import pytest
from sm100_kernels import (
    check_product,
    compile_sm100,
    poisoned,
    random_bits,
    random_values,
    same_bits,
)

import tilelang.language as T

M, N, K = 128, 64, 64

pytestmark = pytest.mark.every_schedule


def meetings(kernel) -> list[str]:
    """The barriers of several warpgroups between the set-up and the release."""
    found = re.findall(r"__syncthreads\(\)|sync_threads\(\d+, 256\)", kernel.get_kernel_source())
    return found[1:-1]


def check_steps(function, steps: int, expected: list[str]) -> None:
    kernel = compile_sm100(function)
    assert meetings(kernel) == expected
    x, y = random_bits(steps * M, N, "float32"), random_bits(steps * M, N, "float32")
    kernel(x, y)
    assert same_bits(x, y)


ALL = "__syncthreads()"


def test_stored_by_one_warpgroup_loaded_by_another():
    """In a loop the next store waits for the last load, too."""

    @T.prim_func
    def kernel(X: T.Tensor((4 * M, N), "float32"), Y: T.Tensor((4 * M, N), "float32")):
        with T.Kernel(1, threads=256):
            t = T.alloc_tmem([M, N], "float32")
            tid = T.get_thread_binding()
            for i in T.serial(4):
                if tid < 128:
                    T.copy(X[i * M : i * M + M, 0:N], t)
                if tid >= 128:
                    T.copy(t, Y[i * M : i * M + M, 0:N])

    check_steps(kernel, 4, [ALL, ALL])


def test_two_tiles_take_one_meeting():
    @T.prim_func
    def kernel(X: T.Tensor((2 * M, N), "float32"), Y: T.Tensor((2 * M, N), "float32")):
        with T.Kernel(1, threads=256):
            t = T.alloc_tmem([M, N], "float32")
            u = T.alloc_tmem([M, N], "float32")
            tid = T.get_thread_binding()
            if tid < 128:
                T.copy(X[0:M, 0:N], t)
            else:
                T.copy(X[M : 2 * M, 0:N], u)
            if tid < 128:
                T.copy(u, Y[M : 2 * M, 0:N])
            else:
                T.copy(t, Y[0:M, 0:N])

    check_steps(kernel, 2, [ALL])


def test_a_barrier_of_the_program_counts():
    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=256):
            t = T.alloc_tmem([M, N], "float32")
            tid = T.get_thread_binding()
            if tid < 128:
                T.copy(X, t)
            T.sync_threads()
            if tid >= 128:
                T.copy(t, Y)

    check_steps(kernel, 1, [ALL])


def test_the_same_threads_need_none():
    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=256):
            t = T.alloc_tmem([M, N], "float32")
            tid = T.get_thread_binding()
            if tid < 128:
                T.copy(X, t)
            if tid < 128:
                T.copy(t, Y)

    check_steps(kernel, 1, [])


def test_within_a_role_its_threads_meet():
    @T.prim_func
    def kernel(X: T.Tensor((2 * M, N), "float32"), Y: T.Tensor((2 * M, N), "float32")):
        with T.Kernel(1, threads=512):
            t = T.alloc_tmem([M, N], "float32")
            tid = T.get_thread_binding()
            if tid >= 256:
                for i in T.serial(2):
                    if tid < 384:
                        T.copy(X[i * M : i * M + M, 0:N], t)
                    if tid >= 384:
                        T.copy(t, Y[i * M : i * M + M, 0:N])

    check_steps(kernel, 2, 2 * ["sync_threads(15, 256)"])


def test_stored_by_all_loaded_by_some():
    """Twice the threads move half the columns each."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=256):
            t = T.alloc_tmem([M, N], "float32")
            tid = T.get_thread_binding()
            T.copy(X, t)
            if tid < 128:
                T.copy(t, Y)

    kernel = compile_sm100(kernel)
    assert ALL in meetings(kernel)
    x, y = random_bits(M, N, "float32"), random_bits(M, N, "float32")
    kernel(x, y)
    assert same_bits(x, y)


def product(stores_a: tuple[int, int] | None, issues: tuple[int, int], loads_c: tuple[int, int]):
    """C = A B^T for three tiles A, each part by its own range of 256 threads."""

    @T.prim_func
    def kernel(
        A: T.Tensor((3 * M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((3 * M, N), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((M, K), "bfloat16")
            a_tmem = T.alloc_tmem([M, K], "bfloat16")
            b = T.alloc_shared((N, K), "bfloat16")
            c = T.alloc_tmem([M, N], "float32")
            tid = T.get_thread_binding()
            T.copy(B, b)
            for i in T.serial(3):
                if stores_a is None:
                    T.copy(A[i * M : i * M + M, 0:K], a)
                elif tid >= stores_a[0] and tid < stores_a[1]:
                    T.copy(A[i * M : i * M + M, 0:K], a_tmem)
                if tid >= issues[0] and tid < issues[1]:
                    left = a if stores_a is None else a_tmem
                    T.gemm(left, b, c, transpose_B=True, clear_accum=True)
                if tid >= loads_c[0] and tid < loads_c[1]:
                    T.copy(c, C[i * M : i * M + M, 0:N])

    return kernel


EVERYBODY = (0, 256)


@pytest.mark.parametrize("stores_a", [None, (0, 128), (128, 256), EVERYBODY])
@pytest.mark.parametrize("issues", [(0, 32), (0, 128), (128, 256), (224, 256), EVERYBODY])
@pytest.mark.parametrize("loads_c", [(0, 128), (128, 256), EVERYBODY])
def test_products_of_any_threads(stores_a, issues, loads_c):
    kernel = compile_sm100(product(stores_a, issues, loads_c))
    a, b = random_values(3 * M, K, "bfloat16"), random_values(N, K, "bfloat16")
    c = poisoned(3 * M, N, "float32")
    kernel(a, b, c)
    check_product(c, a, b.T)


def test_roles_that_order_themselves_are_left_alone():
    """Barriers of all threads among roles that wait for each other would wait for ever."""

    @T.prim_func
    def kernel(
        A: T.Tensor((4 * M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((4 * M, N), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_tmem([M, K], "bfloat16")
            b = T.alloc_shared((N, K), "bfloat16")
            c = T.alloc_tmem([M, N], "float32")
            stored = T.alloc_barrier(128)
            done = T.alloc_barrier(1)
            tid = T.get_thread_binding()
            T.copy(B, b)
            if tid < 128:
                for i in T.serial(4):
                    T.mbarrier_wait_parity(stored, i % 2)
                    T.tcgen05_gemm(a, b, c, transpose_B=True, clear_accum=True, mbar=done)
            else:
                for i in T.serial(4):
                    T.copy(A[i * M : i * M + M, 0:K], a)
                    T.mbarrier_arrive(stored)
                    T.mbarrier_wait_parity(done, i % 2)
                    T.copy(c, C[i * M : i * M + M, 0:N])

    kernel = compile_sm100(kernel)
    assert ALL not in meetings(kernel)
    a, b = random_values(4 * M, K, "bfloat16"), random_values(N, K, "bfloat16")
    c = poisoned(4 * M, N, "float32")
    kernel(a, b, c)
    check_product(c, a, b.T)


def test_a_meeting_after_the_last_load_is_the_last_one():
    """The warp that frees tensor memory waits for the other warps, but no second time."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=256):
            t = T.alloc_tmem([M, N], "float32")
            out = T.alloc_shared([M, N], "float32")
            T.copy(X, t)
            T.copy(t, out)
            T.copy(out, Y)

    kernel = compile_sm100(kernel)
    end = kernel.get_kernel_source().partition("tcgen05_load")[2]
    store, free = end.index("tma_store("), end.index("tcgen05_dealloc")
    assert end[:store].count(ALL) == 1
    assert ALL not in end[store:free]
    x, y = random_bits(M, N, "float32"), random_bits(M, N, "float32")
    kernel(x, y)
    assert same_bits(x, y)
