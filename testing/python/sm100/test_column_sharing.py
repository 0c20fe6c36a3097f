"""Buffers in tensor memory share columns where, and only where, program order keeps them apart."""

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

pytestmark = pytest.mark.every_schedule

M, N, K = 128, 64, 64


def allocated(kernel) -> int:
    """Columns that the kernel allocates."""
    (columns,) = re.findall(r"tcgen05_alloc\(\w+, (\d+)u\)", kernel.get_kernel_source())
    return int(columns)


def products(count: int, own_barrier: bool, asynchronous: bool):
    """C[i] = A[i] B^T for `count` accumulators of N columns, one after the other."""

    @T.prim_func
    def kernel(
        A: T.Tensor((count * M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((count * M, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, K), "bfloat16")
            b = T.alloc_shared((N, K), "bfloat16")
            if own_barrier:
                done = T.alloc_barrier(1)
            T.copy(B, b)
            for i in tuple(range(count)):
                c = T.alloc_tmem([M, N], "float32")
                T.copy(A[i * M : i * M + M, 0:K], a)
                if asynchronous:
                    T.gemm(a, b, c, transpose_B=True, clear_accum=True, mbar=done)
                    T.mbarrier_wait_parity(done, i % 2)
                else:
                    T.gemm(a, b, c, transpose_B=True, clear_accum=True)
                T.copy(c, C[i * M : i * M + M, 0:N])

    return kernel


@pytest.mark.parametrize(
    ("own_barrier", "asynchronous", "columns"),
    [(False, False, 64), (True, False, 64), (True, True, 256)],
    ids=["no barrier", "barrier for something else", "waited for by the kernel"],
)
def test_products_one_after_the_other(own_barrier, asynchronous, columns):
    kernel = compile_sm100(products(3, own_barrier, asynchronous))
    assert allocated(kernel) == columns
    a, b = random_values(3 * M, K, "bfloat16"), random_values(N, K, "bfloat16")
    c = poisoned(3 * M, N, "float32")
    kernel(a, b, c)
    check_product(c, a, b.T)


def branches(used_after: bool):
    """Two warpgroups move two tiles each through tensor memory."""

    @T.prim_func
    def kernel(X: T.Tensor((4 * M, N), "float32"), Y: T.Tensor((4 * M, N), "float32")):
        with T.Kernel(1, threads=256):
            common = T.alloc_tmem([M, N], "float32")
            tx = T.get_thread_binding()
            if tx < 128:
                for i in (0, 1):
                    held = T.alloc_fragment((M, N), "float32")
                    T.copy(X[i * M : i * M + M, 0:N], held)
                    T.copy(held, common)
                    T.copy(common, Y[i * M : i * M + M, 0:N])
            else:
                for i in (2, 3):
                    part = T.alloc_fragment((M, N), "float32")
                    tile = T.alloc_tmem([M, N], "float32")
                    T.copy(X[i * M : i * M + M, 0:N], part)
                    T.copy(part, tile)
                    T.copy(tile, Y[i * M : i * M + M, 0:N])
            if used_after:
                last = T.alloc_tmem([M, N], "float32")
                whole = T.alloc_fragment((M, N), "float32")
                T.copy(X[0:M, 0:N], whole)
                T.copy(whole, last)
                T.copy(last, Y[0:M, 0:N])

    return kernel


@pytest.mark.parametrize(("used_after", "columns"), [(False, 128), (True, 256)])
def test_branches_run_at_the_same_time(used_after, columns):
    """The tiles of one branch share columns; those of different branches, or of one branch and
    everybody, do not."""
    kernel = compile_sm100(branches(used_after))
    assert allocated(kernel) == columns
    x, y = random_bits(4 * M, N, "float32"), random_bits(4 * M, N, "float32")
    kernel(x, y)
    assert same_bits(x, y)
