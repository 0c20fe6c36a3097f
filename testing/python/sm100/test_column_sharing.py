"""Buffers in tensor memory share columns where, and only where, program order keeps them apart."""

from __future__ import annotations

import re

import pytest
import torch
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


def test_stores_that_nothing_reads() -> None:
    """Nobody waits for them: no other tile may have their columns, not in the next turn either."""

    @T.prim_func
    def kernel(
        X: T.Tensor((M // 2, 4 * N), "float8_e4m3fn"),
        A: T.Tensor((M, 128), "float8_e4m3fn"),
        B: T.Tensor((N, 128), "float8_e4m3fn"),
        D: T.Tensor((N, 64), "float8_e4m3fn"),
        C: T.Tensor((M, 16), "float32"),
    ):
        with T.Kernel(1, threads=384):
            a = T.alloc_shared((M, 32), "float8_e4m3fn")
            b = T.alloc_shared((N, 32), "float8_e4m3fn")
            d = T.alloc_shared((N, 16), "float8_e4m3fn")
            left = T.alloc_tmem((M // 2, N), "float8_e4m3fn")
            product = T.alloc_tmem((M, N), "float32")
            narrow = T.alloc_fragment((M, N), "float8_e4m3fn")
            c = T.alloc_fragment((M, 16), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(X[0, k * N], left)
                T.copy(A[0, k * 32], a)
                T.copy(B[0, k * 32], b)
                T.copy(D[0, k * 16], d)
                T.gemm(a, b, product, transpose_B=True, clear_accum=True)
                T.copy(product, narrow)
                T.gemm(narrow, d, c, clear_accum=k == 0)
            T.copy(c, C)

    def values(*shape: int) -> torch.Tensor:
        return torch.randint(-1, 2, shape).to(torch.float8_e4m3fn)

    x, a, b, d = values(M // 2, 4 * N), values(M, 128), values(N, 128), values(N, 64)
    c = poisoned(M, 16, "float32")
    compile_sm100(kernel)(x, a, b, d, c)
    want = torch.zeros(M, 16, dtype=torch.float64)
    for k in range(4):
        narrow = a[:, k * 32 : k * 32 + 32].double() @ b[:, k * 32 : k * 32 + 32].double().T
        want += (
            narrow.float().to(torch.float8_e4m3fn).double() @ d[:, k * 16 : k * 16 + 16].double()
        )
    torch.testing.assert_close(c.double(), want, rtol=0, atol=1e-3)
