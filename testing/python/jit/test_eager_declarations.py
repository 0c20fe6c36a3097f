"""Parameters of eager functions: how they are declared, and what declarations may use."""

from __future__ import annotations

import pytest
import torch
from jit.counting import kernels_of

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError


def test_annotated_parameters_and_run_time_scalars():
    N = T.dynamic("N")

    @tilelang.jit
    def axpy(x: T.Tensor((N,), T.float32), y: T.Tensor[[N], T.float32], a: T.float32, n: T.int32):
        out = T.empty((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.serial(N):
                out[i] = T.if_then_else(i < n, a * x[i] + y[i], 0.0)
        return out

    x, y = torch.randn(10), torch.randn(10)
    for a, n in ((2.5, 3), (-1.0, 10)):
        expected = torch.where(torch.arange(10) < n, a * x + y, torch.zeros(()))
        torch.testing.assert_close(axpy(x, y, a, n), expected)
    assert kernels_of(axpy) == 1


def test_names_that_only_declarations_use():
    """As this file postpones annotations, no closure has them."""
    length, kind = 8, "float32"

    @tilelang.jit
    def double(A):
        A: T.Tensor((length,), kind)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(A.shape[0]):
                A[i] *= 2

    @T.prim_func
    def triple(A):
        A: T.Tensor((length,), kind)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(A.shape[0]):
                A[i] *= 3

    a = torch.ones(8)
    double(a)
    tilelang.compile(triple)(a)
    assert torch.equal(a, torch.full((8,), 6.0))


def test_annotations_that_are_strings_twice():
    @tilelang.jit
    def add(A: "T.Tensor((8,), 'float32')", n: "int" = 2, dtype: "T.dtype" = T.float32):  # noqa: UP037
        B = T.empty((8,), dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i] + n
        return B

    a = torch.randn(8)
    torch.testing.assert_close(add(a), a + 2)
    torch.testing.assert_close(add(a, 3), a + 3)
    assert kernels_of(add) == 2


def test_scalars_declared_in_the_body():
    @tilelang.jit
    def add(A, n):
        N = T.const("N")
        A: T.Tensor((N,), T.int32)
        n: T.int32
        B = T.empty((N,), T.int32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = A[i] + n
        return B

    a = torch.arange(5, dtype=torch.int32)
    for n in (1, 2, -7):
        assert torch.equal(add(a, n), a + n)
    assert kernels_of(add) == 1


def test_tensors_that_may_be_none():
    @tilelang.jit
    def linear(A, Bias=None):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        if Bias is not None:
            Bias: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = A[i] if Bias is None else A[i] + Bias[i]
        return B

    a, b = torch.randn(9), torch.randn(9)
    for _ in range(2):
        torch.testing.assert_close(linear(a), a)
        torch.testing.assert_close(linear(a, b), a + b)
    assert kernels_of(linear) == 2
    torch.testing.assert_close(linear.compile(N=9)(a), a)
    described = linear.compile(N=9, Bias=T.Tensor((9,), T.float32))
    torch.testing.assert_close(described(a, b), a + b)


def test_tensors_that_are_passed_in_vain():
    @tilelang.jit
    def linear(A, Bias, use_bias=True):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        if use_bias:
            Bias: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = A[i] + Bias[i] if use_bias else A[i]
        return B

    a, b = torch.randn(9), torch.randn(9)
    for _ in range(2):
        torch.testing.assert_close(linear(a, b), a + b)
        torch.testing.assert_close(linear(a, b[:3], use_bias=False), a)


def test_annotations_computed_before():
    @tilelang.jit
    def dequant(A, S, group=4, dtypes=("int8", "float32")):
        M, K = T.const("M, K")
        assert K % group == 0
        shapes = [(M, K)]
        shapes.append((M, T.ceildiv(K, group)))
        in_type, out_type = dtypes
        levels = [0] * K  # not possible with a variable
        A: T.Tensor[shapes[0], in_type]
        S: T.Tensor[shapes[1], out_type]
        B = T.empty(shapes[0], out_type)
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(len(levels)):
                B[i, j] = A[i, j] * S[i, j // group]
        return B

    a, s = torch.randint(-9, 9, (3, 12), dtype=torch.int8), torch.randn(3, 3)
    torch.testing.assert_close(dequant(a, s), a * s.repeat_interleave(4, 1))
    with pytest.raises(tilelang.errors.SemanticsError, match="assertion failed: K % group == 0"):
        dequant(torch.zeros(3, 13, dtype=torch.int8), torch.randn(3, 4))


def test_declarations_under_match_and_assignment_expressions():
    @tilelang.jit
    def first(A, kind="wide"):
        match kind:
            case "wide":
                shape = (4, 8)
                A: T.Tensor(shape, T.float32)
            case _:
                shape = ((rows := 8), 4)
                A: T.Tensor((rows, 4), T.float32)
        B = T.empty((n := shape[0],), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i, 0]
        return B

    a = torch.randn(4, 8)
    assert torch.equal(first(a), a[:, 0])
    assert torch.equal(first(a.T.contiguous(), "tall"), a.T[:, 0])


def test_arguments_asked_for_their_shape():
    @tilelang.jit
    def copy_(A, B):
        M, N = A.shape
        dtype = A.dtype
        A: T.Tensor((M, N), dtype)
        B: T.Tensor((M, N), dtype)
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(N):
                B[i, j] = A[i, j]

    for shape, dtype in (((3, 5), torch.float32), ((4, 5), torch.float32), ((3, 5), torch.int16)):
        for _ in range(2):
            a = torch.randn(shape).to(dtype)
            b = torch.zeros_like(a)
            copy_(a, b)
            assert torch.equal(a, b)
    assert kernels_of(copy_) == 3


def test_declarations_that_depend_on_the_type_of_another():
    @tilelang.jit
    def load(A, Scale):
        N = T.const("N")
        dtype = A.dtype
        if dtype == "int8":
            Scale: T.Tensor((1,), T.float32)
        A: T.Tensor((N,), dtype)
        B = T.empty((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = A[i] * (Scale[0] if dtype == "int8" else 1.0)
        return B

    a, scale_ = torch.randint(-9, 9, (8,), dtype=torch.int8), torch.tensor([0.5])
    for _ in range(2):
        torch.testing.assert_close(load(a, scale_), a * 0.5)
        torch.testing.assert_close(load(a.float(), scale_), a.float())


def test_none_for_a_parameter_that_the_body_declares() -> None:
    @tilelang.jit(target="sm_100a")
    def double(X):
        N = T.const("N")
        X: T.Tensor[[N], T.float32]
        Y = T.empty((N,), T.float32)
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                Y[i] = X[i] * 2
        return Y

    with pytest.raises(ArgumentError, match=r"float32 tensor \(N\), but the argument is None"):
        double(None)
    x = torch.randn(64)
    torch.testing.assert_close(double(x), x * 2)


def test_none_for_an_annotated_parameter() -> None:
    @tilelang.jit(target="sm_100a")
    def scaled(X: T.Tensor[[64], T.float32], S: T.Tensor[[64], T.float32], n: T.int32):
        Y = T.empty((64,), T.float32)
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                Y[i] = X[i] * n
                if S is not None:
                    Y[i] = Y[i] + S[i]
        return Y

    @tilelang.jit(target="sm_100a")
    def copied(X: T.Tensor[[64], T.float32]):
        Y = T.empty((64,), T.float32)
        with T.Kernel(1, threads=64):
            T.copy(X, Y)
        return Y

    x = torch.randn(64)
    torch.testing.assert_close(scaled(x, None, 3), x * 3)  # the body asks for it
    torch.testing.assert_close(scaled(x, x, 3), x * 4)
    with pytest.raises(ArgumentError, match=r"X is declared as float32 tensor \(64\), but"):
        scaled(None, x, 3)
    with pytest.raises(ArgumentError, match=r"n.* int.*None"):
        scaled(x, x, None)
    with pytest.raises(ArgumentError, match=r"X is declared as float32 tensor \(64\), but"):
        copied(None)
