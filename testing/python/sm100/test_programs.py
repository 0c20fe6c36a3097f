"""Programs around tensor memory: chains, conversions, element access, barriers, warp roles."""

from __future__ import annotations

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


def chained(m: int, k: int, s: int, n: int, threads: int, fragments: bool):
    """C = (A @ B1) @ B2; with ``fragments`` as written for Hopper, no tensor memory named."""

    @T.prim_func
    def chain(
        A: T.Tensor((m, k), "bfloat16"),
        B1: T.Tensor((s, k), "bfloat16"),
        B2: T.Tensor((s, n), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((m, k), "bfloat16")
            b1 = T.alloc_shared((s, k), "bfloat16")
            b2 = T.alloc_shared((s, n), "bfloat16")
            T.copy(A, a)
            T.copy(B1, b1)
            T.copy(B2, b2)
            if fragments:
                scores = T.alloc_fragment((m, s), "float32")
                probabilities = T.alloc_fragment((m, s), "bfloat16")
                out = T.alloc_fragment((m, n), "float32")
                T.clear(scores)
                T.gemm(a, b1, scores, transpose_B=True)
                T.copy(scores, probabilities)
                T.clear(out)
                T.gemm(probabilities, b2, out)
            else:
                scores = T.alloc_tmem([m, s], "float32")
                probabilities = T.alloc_tmem([m, s], "bfloat16")
                out = T.alloc_tmem([m, n], "float32")
                rounded = T.alloc_fragment((m, s), "bfloat16")
                T.gemm(a, b1, scores, transpose_B=True, clear_accum=True)
                T.copy(scores, rounded)
                T.copy(rounded, probabilities)
                T.gemm(probabilities, b2, out, clear_accum=True)
            T.copy(out, C)

    return chain


@pytest.mark.parametrize("fragments", [False, True])
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize(("m", "s"), [(128, 128), (256, 128), (64, 128), (128, 96), (64, 80)])
def test_chained(m, s, threads, fragments):
    kernel = compile_sm100(chained(m, 64, s, 48, threads, fragments))
    a, b1, b2 = (random_values(r, c, "bfloat16") for r, c in ((m, 64), (s, 64), (s, 48)))
    c = poisoned(m, 48, "float32")
    kernel(a, b1, b2, c)
    # The product in between rounds from a float32 that truncates: now and then an element is one
    # bfloat16 (2^-7) away from ours. Two such elements of a row are allowed for.
    between = (a.double() @ b1.double().T).float().bfloat16().double()
    largest_term = (between[:, :, None] * b2.double()[None]).abs().amax(1)
    assert ((c.double() - between @ b2.double()).abs() <= 2 * 2**-7 * largest_term).all()


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("m", [64, 128])
def test_conversions(m, threads):
    """float32 -> bfloat16 on the way in, float32 -> float16 on the way out."""

    @T.prim_func
    def convert(
        X: T.Tensor((m, 64), "float32"),
        Y: T.Tensor((m, 64), "bfloat16"),
        Z: T.Tensor((m, 64), "float16"),
    ):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((m, 64), "float32")
            narrow = T.alloc_tmem([m, 64], "bfloat16")
            wide = T.alloc_tmem([m, 64], "float32")
            half = T.alloc_fragment((m, 64), "float16")
            T.copy(X, x)
            T.copy(x, narrow)
            T.copy(narrow, Y)
            T.copy(x, wide)
            T.copy(wide, half)
            T.copy(half, Z)

    x = random_values(m, 64, "float32")
    y, z = poisoned(m, 64, "bfloat16"), poisoned(m, 64, "float16")
    compile_sm100(convert)(x, y, z)
    assert same_bits(y, x.bfloat16())
    assert same_bits(z, x.half())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_shared_and_global_memory(dtype):
    """Copies to and from shared and global memory go through registers."""
    m, n = 128, 64

    @T.prim_func
    def through(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(1, threads=128):
            first = T.alloc_tmem([m, n], dtype)
            second = T.alloc_tmem([m, n], dtype)
            shared = T.alloc_shared((m, n), dtype)
            T.copy(X, first)
            T.copy(first, shared)
            T.copy(shared, second)
            T.copy(second, Y)

    x, y = random_bits(m, n, dtype), random_bits(m, n, dtype)
    compile_sm100(through)(x, y)
    assert same_bits(x, y)


def test_tensor_memory_to_tensor_memory():
    @T.prim_func
    def move(X: T.Tensor((128, 64), "float32"), Y: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_tmem([128, 64], "float32")
            b = T.alloc_tmem([128, 64], "float32")
            T.copy(X, a)
            T.copy(a[:, 0:32], b[:, 32:64])
            T.copy(a[:, 32:64], b[:, 0:32])
            T.copy(b, Y)

    x, y = random_bits(128, 64, "float32"), random_bits(128, 64, "float32")
    compile_sm100(move)(x, y)
    assert same_bits(y, x.roll(32, 1))


@pytest.mark.parametrize("threads", [128, 256])
def test_fill_reduce_and_elements(threads):
    m, n = 128, 48

    @T.prim_func
    def elements(
        X: T.Tensor((m, n), "float32"),
        Sum: T.Tensor((m,), "float32"),
        Y: T.Tensor((m, n), "float32"),
        Z: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            x = T.alloc_tmem([m, n], "float32")
            z = T.alloc_tmem([m, n], "float32")
            doubled = T.alloc_fragment((m, n), "float32")
            total = T.alloc_fragment((m,), "float32")
            T.copy(X, x)
            T.fill(z, 2.5)
            T.clear(z[:, 16:32])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(m, n):
                doubled[i, j] = x[i, j] * 2.0
            T.copy(total, Sum)
            T.copy(doubled, Y)
            T.copy(z, Z)

    x = random_values(m, n, "float32")
    total, y, z = poisoned(1, m, "float32")[0], poisoned(m, n, "float32"), poisoned(m, n, "float32")
    compile_sm100(elements)(x, total, y, z)
    assert torch.allclose(total.double(), x.double().sum(1), atol=1e-4)
    assert torch.equal(y, x * 2)
    expected = torch.full((m, n), 2.5)
    expected[:, 16:32] = 0
    assert torch.equal(z, expected)


@pytest.mark.parametrize("threads", [128, 256])
def test_a_fragment_that_something_else_fixed(threads):
    """A fragment in an annotated layout is converted on its way to and from tensor memory."""
    from tilelang.layout import Fragment

    m, n = 128, 64
    held = Fragment.partition((m, n), threads, 4)

    @T.prim_func
    def convert(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=threads):
            a = T.alloc_fragment((m, n), "float32")
            b = T.alloc_fragment((m, n), "float32")
            tile = T.alloc_tmem([m, n], "float32")
            T.annotate_layout({a: held, b: held})
            T.copy(X, a)
            T.copy(a, tile)
            T.copy(tile, b)
            T.copy(b, Y)

    x, y = random_bits(m, n, "float32"), random_bits(m, n, "float32")
    compile_sm100(convert)(x, y)
    assert same_bits(x, y)


def test_slices_along_k_and_stages():
    """One staged buffer of operands, one of accumulators; each product takes a part of K."""
    stages, m, n, k = 2, 128, 32, 128

    @T.prim_func
    def staged(
        A: T.Tensor((stages, m, k), "float16"),
        B: T.Tensor((n, k), "float16"),
        C: T.Tensor((stages, m, n), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((stages, m, k), "float16")
            b = T.alloc_shared((n, k), "float16")
            c = T.alloc_tmem([stages, m, n], "float32")
            T.copy(A, a)
            T.copy(B, b)
            for s in T.serial(stages):
                for part in T.serial(2):
                    T.gemm(
                        a[s, :, part * 64 : part * 64 + 64],
                        b[:, part * 64 : part * 64 + 64],
                        c[s, :, :],
                        transpose_B=True,
                        clear_accum=part == 0,
                    )
            for s in T.serial(stages):
                T.copy(c[s, :, :], C[s, 0:m, 0:n])

    a = random_values(stages * m, k, "float16")
    b, c = random_values(n, k, "float16"), poisoned(stages * m, n, "float32")
    compile_sm100(staged)(a.reshape(stages, m, k), b, c.reshape(stages, m, n))
    check_product(c, a, b.T)


def test_issued_by_one_warpgroup_waited_for_by_the_other():
    """tcgen05_gemm in one role, its result used in another, with the kernel's own barriers."""
    m, n, k = 128, 64, 128

    @T.prim_func
    def roles(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((n, k), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((m, k), "bfloat16")
            b = T.alloc_shared((n, k), "bfloat16")
            c = T.alloc_tmem([m, n], "float32")
            result = T.alloc_fragment((m, n), "float32")
            done = T.alloc_barrier(1)
            tid = T.get_thread_binding()
            T.copy(A, a)
            T.copy(B, b)
            if tid < 128:
                T.tcgen05_gemm(a, b, c, transpose_B=True, clear_accum=True, mbar=done)
            else:
                T.mbarrier_wait_parity(done, 0)
                T.copy(c, result)
                T.copy(result, C)

    a, b, c = random_values(m, k, "bfloat16"), random_values(n, k, "bfloat16"), None
    c = poisoned(m, n, "float32")
    compile_sm100(roles)(a, b, c)
    check_product(c, a, b.T)
