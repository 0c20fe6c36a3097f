"""Copies between tensor memory and slices: what lies beside a slice stays as it is.

``layout/test_slices_of_fragments.py`` proves the plans for every slice; these kernels go the whole
way, conversions of fragments included.
"""

from __future__ import annotations

import random

import pytest
import torch
from sm100_kernels import TORCH, compile_sm100, poisoned, random_bits, same_bits

import tilelang.language as T

N = 32


def some_slices(dtype: str, m: int, count: int, seed: object) -> list[tuple[int, int, int]]:
    """(first column of the source, of the target, width), in whole 32-bit columns.

    What moves 16 of each 32 lanes moves an even number of columns.
    """
    rng = random.Random(str(seed))
    unit = 4 // TORCH[dtype].itemsize * (2 if m == 64 else 1)
    slices = []
    for _ in range(count):
        width = rng.randrange(unit, N + 1, unit)
        first = range(0, N - width + 1, unit)
        slices.append((rng.choice(first), rng.choice(first), width))
    return slices


def loads(m: int, dtype: str, threads: int, slices):
    """C[k]: Y but for the k-th slice, which is X."""

    @T.prim_func
    def kernel(
        X: T.Tensor((m, N), dtype),
        Y: T.Tensor((m, N), dtype),
        C: T.Tensor((len(slices), m, N), dtype),
    ):
        with T.Kernel(1, threads=threads):
            f = T.alloc_fragment((m, N), dtype)
            t = T.alloc_tmem([m, N], dtype)
            u = T.alloc_tmem([m, N], dtype)
            T.copy(X, t)
            T.copy(Y, u)
            for k, (source, target, width) in enumerate(slices):
                T.copy(u, f)
                T.copy(t[0:m, source : source + width], f[0:m, target : target + width])
                T.copy(f, C[k, 0:m, 0:N])

    return kernel


def stores(m: int, dtype: str, threads: int, slices):
    """C[k]: Y but for the k-th slice, which is X, put together in tensor memory."""

    @T.prim_func
    def kernel(
        X: T.Tensor((m, N), dtype),
        Y: T.Tensor((m, N), dtype),
        C: T.Tensor((len(slices), m, N), dtype),
    ):
        with T.Kernel(1, threads=threads):
            f = T.alloc_fragment((m, N), dtype)
            t = T.alloc_tmem([m, N], dtype)
            T.copy(X, f)
            for k, (source, target, width) in enumerate(slices):
                T.copy(Y, t)
                T.copy(f[0:m, source : source + width], t[0:m, target : target + width])
                T.copy(t, C[k, 0:m, 0:N])

    return kernel


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("way", [loads, stores])
def test_only_the_slice_changes(way, m, threads, dtype):
    slices = some_slices(dtype, m, 6, (way.__name__, m, threads, dtype))
    x, y = random_bits(m, N, dtype), random_bits(m, N, dtype)
    c = poisoned(len(slices) * m, N, dtype).view(len(slices), m, N)
    compile_sm100(way(m, dtype, threads, slices))(x, y, c)
    for k, (source, target, width) in enumerate(slices):
        expected = y.clone()
        expected[:, target : target + width] = x[:, source : source + width]
        assert same_bits(c[k], expected), slices[k]


@pytest.mark.parametrize("m", [64, 128])
def test_the_slice_of_later_warpgroups(m):
    """Columns 24 to 48 of a fragment are those of warpgroups 2 and 3: the first of the tile."""
    n = 48

    @T.prim_func
    def kernel(X: T.Tensor((m, n), "float32"), C: T.Tensor((2, m, n), "float32")):
        with T.Kernel(1, threads=512):
            t = T.alloc_tmem([m, n], "float32")
            f = T.alloc_fragment((m, n), "float32")
            T.copy(X, f)
            T.copy(f, t)
            T.copy(t[0:m, 0:24], f[0:m, 24:48])
            T.copy(f, C[0, :, :])
            T.copy(f[0:m, 24:48], t[0:m, 24:48])
            T.copy(t, C[1, :, :])

    x, c = torch.randn(m, n), poisoned(2 * m, n, "float32").view(2, m, n)
    compile_sm100(kernel)(x, c)
    assert torch.equal(c, torch.cat([x[:, :24], x[:, :24]], dim=1).expand(2, m, n))


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("m", [64, 128])
def test_slice_of_an_accumulator(m, threads):
    n, k = 48, 32

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        X: T.Tensor((m, n), "float32"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((k, n), "float16")
            c = T.alloc_fragment((m, n), "float32")
            t = T.alloc_tmem([m, n], "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(X, t)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(t[0:m, 8:24], c[0:m, 16:32])
            T.copy(c, C)

    a, b = torch.randint(-2, 3, (m, k)).half(), torch.randint(-2, 3, (k, n)).half()
    x, c = torch.randn(m, n), poisoned(m, n, "float32")
    compile_sm100(kernel)(a, b, x, c)
    expected = (a.double() @ b.double()).float()
    expected[:, 16:32] = x[:, 8:24]
    assert torch.equal(c, expected)
