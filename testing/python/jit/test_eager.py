"""Functions whose body is the kernel: what they are compiled for, run with and return."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from jit.counting import kernels_of

import tilelang
import tilelang.language as T
from tilelang.jit import EagerFunction


@tilelang.jit
def scale(A, factor=2.0, block=64):
    M, N = T.const("M, N")
    A: T.Tensor[[M, N], T.float32]
    B = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), M, threads=64) as (bx, by):
        for j in T.Parallel(block):
            B[by, bx * block + j] = A[by, bx * block + j] * factor
    return B


def test_a_call_compiles_and_runs():
    a = torch.randn(5, 77)
    torch.testing.assert_close(scale(a), a * 2, rtol=0, atol=0)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_on_every_architecture(target):
    @tilelang.jit(target=target)
    def matmul(A, B, block=32, dtype=T.bfloat16):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), dtype)
        B: T.Tensor((K, N), dtype)
        C = T.empty((M, N), "float32")
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block, block), dtype)
            B_shared = T.alloc_shared((block, block), dtype)
            C_local = T.alloc_fragment((block, block), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                T.copy(A[by * block, k * block], A_shared)
                T.copy(B[k * block, bx * block], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block, bx * block])
        return C

    a, b = torch.randn(40, 72).bfloat16(), torch.randn(72, 56).bfloat16()
    torch.testing.assert_close(
        matmul(a, b, 64).double(), a.double() @ b.double(), rtol=1e-5, atol=1e-4
    )


def test_arguments_by_keyword_alone():
    @tilelang.jit
    def times(A, n=1, *, dtype):
        N = T.const("N")
        A: T.Tensor((N,), dtype)
        B = T.empty((N,), dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = A[i] * n
        return B

    a = torch.randn(8)
    torch.testing.assert_close(times(a, 3, dtype=T.float32), a * 3)
    torch.testing.assert_close(times(A=a, dtype=T.float32, n=2), a * 2)
    with pytest.raises(tilelang.errors.ArgumentError, match="'dtype' is missing"):
        times(a, 3)


def test_what_a_kernel_is_compiled_for():
    @tilelang.jit
    def double(A, n=2, dtype=T.float32):
        N = T.const("N")
        A: T.Tensor((N,), dtype)
        B = T.empty((N,), dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = A[i] * n
        return B

    a = torch.randn(8)
    for _ in range(3):
        double(a)
    assert kernels_of(double) == 1
    double(a.clone(), 2)
    double(a, n=2, dtype=T.float32)
    assert kernels_of(double) == 1
    double(a, 3)
    assert kernels_of(double) == 2
    double(a, 3.0)  # another constant: the result has another type
    assert kernels_of(double) == 3
    double(torch.randn(9), 3)
    assert kernels_of(double) == 4
    torch.testing.assert_close(double(a.half(), dtype=T.float16), a.half() * 2)
    assert kernels_of(double) == 5
    torch.testing.assert_close(double(a.int(), True, dtype=torch.int32), a.int())
    assert kernels_of(double) == 6


def test_several_outputs_in_the_order_of_return():
    @tilelang.jit
    def split(A):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        low, high = T.empty((N,), T.int32), T.empty((N, 2))
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                low[i] = T.cast(A[i], T.int32)
                high[i, 0] = A[i] * 2
                high[i, 1] = A[i] * 3
        return high, low

    a = torch.rand(10) * 9
    result = split(a)
    assert isinstance(result, list)
    torch.testing.assert_close(result[0], torch.stack([a * 2, a * 3], 1))
    assert torch.equal(result[1], a.int())


def test_no_output_and_a_list_of_one():
    @tilelang.jit
    def fill(A, value):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                A[i] = value

    a = torch.full((10,), torch.nan)
    assert fill(a, 3) is None
    assert torch.equal(a, torch.full((10,), 3.0))

    @tilelang.jit
    def one(A):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty(N, dtype="float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = A[i]
        return (B,)

    (b,) = one(a)
    assert torch.equal(b, a)


def test_dynamic_dimensions_share_a_kernel():
    @tilelang.jit
    def add(A, B):
        M = T.dynamic("M")
        N = T.const("N")
        A: T.Tensor((M, N), T.float32)
        B: T.Tensor((N,), T.float32)
        C = T.empty((M, N), T.float32)
        with T.Kernel(M, threads=32) as row:
            for j in T.Parallel(N):
                C[row, j] = A[row, j] + B[j]
        return C

    for m in (1, 5, 7, 0):
        a, b = torch.randn(m, 33), torch.randn(33)
        torch.testing.assert_close(add(a, b), a + b)
    assert kernels_of(add) == 1


def test_dimensions_from_products():
    @tilelang.jit
    def rows(A, B):
        n, k = T.const("n, k")
        A: T.Tensor((n * k,), T.float32)
        B: T.Tensor((n + 1,), T.float32)
        C = T.empty((n, k), T.float32)
        with T.Kernel(n, threads=32) as i:
            for j in T.Parallel(k):
                C[i, j] = A[i * k + j] + B[i]
        return C

    a, b = torch.randn(12), torch.randn(4)
    torch.testing.assert_close(rows(a, b), a.reshape(3, 4) + b[:3, None])
    with pytest.raises(
        tilelang.errors.ArgumentError, match=r"dimension 0 of A is 13, .* n \* k = 12"
    ):
        rows(torch.randn(13), b)


def test_run_time_dimensions_from_products():
    @tilelang.jit
    def rows(A, B):
        n, k = T.dynamic("n, k")
        A: T.Tensor((n * k,), T.float32)
        B: T.Tensor((n,), T.float32)
        C = T.empty((n, k), T.float32)
        with T.Kernel(n, threads=32) as i:
            for j in T.serial(k):
                C[i, j] = A[i * k + j] + B[i]
        return C

    for n, k in ((3, 4), (1, 9), (5, 1)):
        a, b = torch.randn(n * k), torch.randn(n)
        torch.testing.assert_close(rows(a, b), a.reshape(n, k) + b[:, None])
    with pytest.raises(tilelang.errors.ArgumentError, match=r"must be n \* k = 12"):
        rows(torch.randn(13), torch.randn(3))
    assert rows(torch.randn(0), torch.randn(0)).shape == (0, 0)


def test_a_t_prim_func_solves_products_too():
    n, k = T.dynamic("n, k")

    @T.prim_func
    def rows(A: T.Tensor((2 * n * k + 1,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(n, threads=32) as i:
            for j in T.serial(k):
                B[i] += A[i * k + j]

    kernel = tilelang.compile(rows)
    a, b = torch.randn(31), torch.zeros(3)
    kernel(a, b)
    torch.testing.assert_close(b, a[:15].reshape(3, 5).sum(1))


def test_strided_tensors():
    @tilelang.jit
    def copy_rows(A):
        M, N, stride = T.const("M, N, stride")
        A: T.StridedTensor[[M, N], [stride, 1], T.float32]
        B = T.empty((M, N), T.float32)
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(N):
                B[i, j] = A[i, j]
        return B

    whole = torch.randn(6, 20)
    for view in (whole, whole[:, :10], whole[::2, 3:9]):
        assert torch.equal(copy_rows(view), view)
    assert kernels_of(copy_rows) == 3

    @tilelang.jit
    def transposed(A):
        M, N = T.const("M, N")
        s, t = T.dynamic("s, t")
        A: T.StridedTensor((M, N), (s, t), "float32")
        B = T.empty((M, N), T.float32)
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(N):
                B[i, j] = A[i, j]
        return B

    for view in (whole, whole.T.contiguous().T):
        assert torch.equal(transposed(view), view)
    assert kernels_of(transposed) == 1


def test_arrays_that_do_not_tell_their_device():
    class Old:
        """An array as NumPy had them before 2.0."""

        def __init__(self, array):
            for name in ("shape", "dtype", "strides", "size", "itemsize", "__dlpack__"):
                setattr(self, name, getattr(array, name))
            type(self).__dlpack__ = lambda _, **options: array.__dlpack__(**options)
            type(self).__dlpack_device__ = lambda _: (1, 0)

    @tilelang.jit
    def double(A):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                A[i] *= 2

    array = np.arange(8, dtype=np.float32)
    for factor in (2, 4):
        double(Old(array))
        np.testing.assert_array_equal(array, np.arange(8) * factor)


def test_scratch_memory_and_several_grids():
    @tilelang.jit
    def total(A):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        partial = T.alloc_global((4,), T.float32)
        unused = T.empty((4,), T.float32)
        out = T.empty((1,), T.float32)
        with T.Kernel(4, threads=32) as b:
            partial[b] = 0.0
            for i in T.serial(T.ceildiv(N - b, 4)):
                partial[b] += A[i * 4 + b]
            unused[b] = partial[b]
        with T.Kernel(1, threads=32):
            out[0] = unused[0] + unused[1] + partial[2] + partial[3]
        return out

    a = torch.randn(21)
    torch.testing.assert_close(total(a), a.sum()[None])


def test_macros_and_closures():
    bias = 3.0

    @T.macro
    def store(B, i, value):
        B[i] = value + bias

    @tilelang.jit
    def run(A):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty(N)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                store(B, i, A[i])
        return B

    a = torch.randn(9)
    torch.testing.assert_close(run(a), a + 3)


def test_compiled_without_tensors():
    kernel = scale.compile(M=4, N=40, block=32)
    assert isinstance(kernel, tilelang.JITKernel)
    a = torch.randn(4, 40)
    torch.testing.assert_close(kernel(a), a * 2)
    described = scale.compile(A=T.Tensor((4, 40), T.float32), factor=3.0)
    torch.testing.assert_close(described(a), a * 3)
    torch.testing.assert_close(scale.compile(a, factor=4.0)(a), a * 4)
    assert "__global__" in scale.get_kernel_source(M=4, N=40)
    assert "A: float32[4, 40]" in str(scale.get_tir(M=4, N=40))
    assert scale.compile(M=4, N=40, block=32) is kernel
    function = scale.get_tir(None, M=4, N=40)
    torch.testing.assert_close(tilelang.compile(function)(a), a * 2)
    out = torch.empty(4, 40)
    tilelang.compile(function, out_idx=[])(a, out)
    torch.testing.assert_close(out, a * 2)
    kernels = scale.par_compile([{"M": 4, "N": 40, "factor": 5.0}, (a, 6.0)])
    for kernel, factor in zip(kernels, (5, 6), strict=True):
        torch.testing.assert_close(kernel(a), a * factor)


def test_arrays_of_numpy():
    a = np.random.default_rng(0).normal(size=(5, 77)).astype(np.float32)
    for _ in range(2):
        result = scale(a)
        assert isinstance(result, np.ndarray)
        np.testing.assert_array_equal(result, a * 2)


def test_constants_given_by_name():
    @tilelang.jit
    def tile(A):
        N, width = T.const("N width")
        A: T.Tensor((N,), T.float32)
        B = T.empty((width, N))
        with T.Kernel(width, threads=32) as i:
            for j in T.Parallel(N):
                B[i, j] = A[j]
        return B

    a = torch.randn(5)
    for width in (2, 3, 2):
        assert torch.equal(tile(a, width=width), a.expand(width, 5))
    with pytest.raises(
        tilelang.errors.SemanticsError, match=r"no argument determines the value of width"
    ):
        tile(a)


def test_identity():
    assert copy.copy(scale) is scale and copy.deepcopy(scale) is scale
    assert scale.__name__ == "scale"
    assert isinstance(scale, EagerFunction)
    kernel = pickle.loads(pickle.dumps(scale.compile(M=2, N=8)))
    a = torch.randn(2, 8)
    assert torch.equal(kernel(a), a * 2)


def test_lazy_functions_stay_lazy():
    @tilelang.jit(out_idx=[-1])
    def factory(N, dtype: T.dtype = T.float32):
        torch.empty(1)

        @T.prim_func
        def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(N):
                    B[i] = A[i]

        return main

    @tilelang.jit(out_idx=-1)
    def indirect(N):
        return factory.get_tir(N)

    a = torch.randn(6)
    assert torch.equal(factory(6)(a), a) and torch.equal(indirect(6)(a), a)
