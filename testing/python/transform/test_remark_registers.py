"""Remarks on fragments that do not fit into the registers of their threads."""

from __future__ import annotations

import linecache

import pytest

import tilelang
import tilelang.language as T


def doubled(m: int, n: int, dtype: str, threads: int, copies: int = 1):
    """``copies`` fragments are alive at the same time."""

    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(1, threads=threads):
            first = T.alloc_fragment((m, n), dtype)
            T.copy(A, first)
            if copies == 2:
                second = T.alloc_fragment((m, n), dtype)
                T.copy(C, second)
                for _ in T.serial(3):
                    for i, j in T.Parallel(m, n):
                        first[i, j] += second[i, j]
            T.copy(first, C)

    return kernel


THREADS_STAY = {tilelang.PassConfigKey.TL_DISABLE_BLOCK_FITTING: True}


def registers_remarks(func, target: str = "sm_90a", configs=THREADS_STAY):
    remarks = tilelang.compile(func, target=target, pass_configs=configs).remarks
    return [r for r in remarks if r.topic == "registers"]


@pytest.mark.parametrize(
    ("m", "n", "dtype", "threads", "copies", "needs", "limit"),
    [
        (256, 256, "float32", 128, 1, 512, 255),
        (256, 256, "float16", 128, 1, 256, 255),
        (256, 128, "float32", 64, 1, 512, 255),
        (128, 128, "float32", 128, 2, 256, 255),
        (256, 160, "float32", 512, 2, 160, 128),
    ],
)
def test_too_large(m, n, dtype, threads, copies, needs, limit):
    (remark,) = registers_remarks(doubled(m, n, dtype, threads, copies))
    assert f"need {needs} registers of each of {threads} threads" in remark.message
    assert f"first: {needs // copies}" in remark.message
    assert f"a thread has at most {limit}" in remark.message
    assert "Use more threads, a smaller tile" in remark.message
    assert "alloc_fragment" in linecache.getline(str(remark.span.file), remark.span.line)


@pytest.mark.parametrize(("m", "threads"), [(256, 64), (256, 128), (128, 96)])
def test_more_threads_need_no_remark(m, threads):
    assert registers_remarks(doubled(m, 160, "float32", threads), configs=None) == []


@pytest.mark.parametrize(
    ("m", "n", "dtype", "threads", "copies"),
    [
        (128, 128, "float32", 128, 1),
        (256, 256, "float32", 512, 1),
        (128, 128, "float32", 256, 2),
        (256, 128, "float16", 128, 1),
    ],
)
def test_what_fits(m, n, dtype, threads, copies):
    assert registers_remarks(doubled(m, n, dtype, threads, copies)) == []


def test_fragments_one_after_the_other():
    """Those whose use does not overlap share registers."""

    @T.prim_func
    def kernel(A: T.Tensor((128, 192), "float32"), C: T.Tensor((128, 192), "float32")):
        with T.Kernel(1, threads=128):
            first = T.alloc_fragment((128, 192), "float32")
            second = T.alloc_fragment((128, 192), "float32")
            T.copy(A, first)
            T.copy(first, C)
            T.copy(C, second)
            T.copy(second, A)

    assert registers_remarks(kernel) == []


def test_registers_that_another_role_gives_away():
    """With a producer that leaves its registers to the others, 172 of them fit."""

    @T.prim_func
    def kernel(A: T.Tensor((512, 128), "float16"), C: T.Tensor((128, 256), "float32")):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((256, 64), "float16")
            c = T.alloc_fragment((128, 256), "float32")
            other = T.alloc_fragment((128, 96), "float32")
            T.clear(c)
            T.clear(other)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(A[128, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
                for i, j in T.Parallel(128, 96):
                    other[i, j] += c[i, j]
            for i, j in T.Parallel(128, 96):
                c[i, j] += other[i, j]
            T.copy(c, C)

    assert registers_remarks(kernel) == []
