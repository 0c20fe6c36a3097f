"""What the tests of copies from shared to tensor memory share: kernels, counting instructions."""

from __future__ import annotations

import re

from sm100_kernels import ACCUMULATOR

import tilelang.language as T


def cps(kernel) -> list[str]:
    """The shapes of the kernel's tcgen05.cp, in order; in PTX there are more of unrolled loops."""
    shapes = re.findall(r"tl::tcgen05_cp<tl::TmemCpShape::k(\w+)>", kernel.get_kernel_source())
    found = set(re.findall(r"tcgen05\.cp\.cta_group::1\.(\S+)", kernel.get_ptx()))
    assert found == set(shapes)
    return shapes


def registers_to_tmem(kernel) -> bool:
    return "tcgen05.st" in kernel.get_ptx()


def ts_gemm(m, n, k, steps, dtype, threads=128):
    accumulator = ACCUMULATOR.get(dtype, "float32")

    @T.prim_func
    def gemm(
        A: T.Tensor((m, k * steps), dtype),
        B: T.Tensor((n, k * steps), dtype),
        C: T.Tensor((m, n), accumulator),
    ):
        with T.Kernel(1, threads=threads):
            a_shared = T.alloc_shared((m, k), dtype)
            b_shared = T.alloc_shared((n, k), dtype)
            a = T.alloc_tmem([m, k], dtype)
            c = T.alloc_tmem([m, n], accumulator)
            for step in T.serial(steps):
                T.copy(A[0, step * k], a_shared)
                T.copy(B[0, step * k], b_shared)
                T.copy(a_shared, a)
                T.gemm(a, b_shared, c, transpose_B=True, clear_accum=step == 0)
            T.copy(c, C)

    return gemm


def accumulated(m, n, k, dtype, accumulator):
    @T.prim_func
    def gemm(
        A: T.Tensor((m, k), dtype),
        B: T.Tensor((n, k), dtype),
        D: T.Tensor((m, n), accumulator),
        C: T.Tensor((m, n), accumulator),
    ):
        with T.Kernel(1, threads=128):
            a_shared = T.alloc_shared((m, k), dtype)
            b_shared = T.alloc_shared((n, k), dtype)
            d_shared = T.alloc_shared((m, n), accumulator)
            a = T.alloc_tmem([m, k], dtype)
            c = T.alloc_tmem([m, n], accumulator)
            T.copy(A, a_shared)
            T.copy(B, b_shared)
            T.copy(D, d_shared)
            T.copy(a_shared, a)
            T.copy(d_shared, c)
            T.gemm(a, b_shared, c, transpose_B=True)
            T.copy(c, C)

    return gemm
