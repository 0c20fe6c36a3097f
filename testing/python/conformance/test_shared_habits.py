"""Forms that programs of many projects use: scalars in fragments, shifts, ways out of loops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors


@pytest.mark.parametrize("threads", [32, 96, 128])
def test_a_fragment_of_one_element_is_a_scalar(target: str, threads: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((9, 24), "float32"), B: T.Tensor((24,), "float32")):
        with T.Kernel(1, threads=threads):
            factor = T.alloc_fragment(1, "float32")
            row = T.alloc_fragment(24, "float32")
            factor[0] = 0
            for i in T.serial(9):
                factor[0] += A[i, 0]
            for j in T.Parallel(24):
                row[j] = A[0, j] * factor[0]
            T.copy(row, B)

    a = normal(9, 24)
    close(run(kernel, target, a, poison(24)), a[0] * a[:, 0].sum())


def test_a_scalar_that_a_reduction_gives(target: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((3, 130), "float32"), B: T.Tensor((3, 130), "float32")):
        with T.Kernel(3, threads=128) as b:
            row = T.alloc_fragment(130, "float32")
            total = T.alloc_fragment(1, "float32")
            T.copy(A[b, :], row)
            T.reduce_sum(row, total, dim=0)
            total[0] = total[0] / 130
            if total[0] > 0:
                total[0] = total[0] * 2
            for j in T.Parallel(130):
                B[b, j] = row[j] - total[0]

    a = normal(3, 130)
    mean = a.double().mean(1, keepdim=True)
    close(run(kernel, target, a, poison(3, 130)), a - torch.where(mean > 0, 2 * mean, mean))


@pytest.mark.parametrize("dtype", ["uint16", "int16", "uint8", "int8"])
def test_shifts_beyond_a_narrow_type(target: str, dtype: str) -> None:
    """C converts what it shifts to int."""

    @T.prim_func
    def kernel(A: T.Tensor((32,), dtype), B: T.Tensor((2, 32), "int32")):
        with T.Kernel(1, threads=32):
            i = T.get_thread_binding()
            B[0, i] = A[i] << 16
            B[1, i] = A[i] >> 17

    low, high = (0, 200) if dtype.startswith("u") else (-100, 100)
    a = integers(32, low=low, high=high)
    expected = torch.stack([a << 16, a >> 17])
    equal(run(kernel, target, a.to(getattr(torch, dtype)), poison(2, 32, dtype="int32")), expected)


def test_a_shift_beyond_int_is_refused() -> None:
    with pytest.raises(errors.SemanticsError, match="is shifted by 0 to 31"):

        @T.prim_func
        def kernel(A: T.Tensor((32,), "uint16"), B: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                B[T.get_thread_binding()] = A[0] << 32


def test_loop_break(target: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 20), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as b:
            if T.get_thread_binding() == 0:
                B[b] = 0
                for i in T.serial(20):
                    if A[b, i] < 0:
                        T.loop_break()
                    B[b] += A[b, i]

    a = integers(4, 20, low=0)
    a[0, 7], a[1, 0], a[2, 19] = -1, -5, -2
    expected = torch.stack([a[0, :7].sum(), a[1, :0].sum(), a[2, :19].sum(), a[3].sum()])
    equal(run(kernel, target, a, poison(4, dtype="int32")), expected)


def test_loop_break_needs_a_loop() -> None:
    with pytest.raises(errors.ScopeError, match="stands in no loop"):

        @T.prim_func
        def kernel(B: T.Tensor((4,), "int32")):
            with T.Kernel(1, threads=32):
                T.loop_break()


def products(m: int, n: int, k: int, dtype: str, multiply: Any) -> Any:
    @T.prim_func
    def kernel(
        A: T.Tensor((k, m), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((k, m), dtype)
            b = T.alloc_shared((k, n), dtype)
            c = T.alloc_fragment((m, n), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            for i, j in T.Parallel(k, m):
                a[i, j] = a[i, j] * 2
            multiply(a, b, c)
            T.copy(c, C)

    return kernel


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (128, 32, 48), (32, 64, 32)])
def test_transposed_a_in_a_fragment(target: str, m: int, n: int, k: int) -> None:
    def multiply(a: Any, b: Any, c: Any) -> None:
        T.gemm(a, b, c, transpose_A=True)

    a, b = normal(k, m, dtype="bfloat16"), normal(k, n, dtype="bfloat16")
    result = run(products(m, n, k, "bfloat16", multiply), target, a, b, poison(m, n))
    close(result, (2 * a.double()).T @ b.double(), 2e-2)


def test_tcgen05_gemm_into_a_fragment_waits() -> None:
    def multiply(a: Any, b: Any, c: Any) -> None:
        T.tcgen05_gemm(a, b, c, transpose_A=True)

    a, b = normal(64, 64, dtype="float16"), normal(64, 64, dtype="float16")
    kernel = products(64, 64, 64, "float16", multiply)
    result = run(kernel, "sm_100a", a, b, poison(64, 64))
    close(result, (2 * a.double()).T @ b.double(), 1e-2)
    assert "tcgen05_mma" in tilelang.compile(kernel, target="sm_100a").get_kernel_source()
