"""Kernels as operators of torch, and torch.compile around them."""

from __future__ import annotations

import itertools

import pytest
import torch

import tilelang
import tilelang.language as T

BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
numbers = itertools.count()


@tilelang.jit
def add(A, B, scale=1, dtype=T.float32):
    M = T.dynamic("M")
    N = T.const("N")
    A: T.Tensor((M, N), dtype)
    B: T.Tensor((N,), dtype)
    C = T.empty((M, N), dtype)
    with T.Kernel(M, threads=32) as i:
        for j in T.Parallel(N):
            C[i, j] = A[i, j] + B[j] * scale
    return C


@tilelang.jit
def divide_rows(A, n: T.int32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    quotient, rest = T.empty((M, N), T.int32), T.empty((N, M), T.float32)
    with T.Kernel(M, threads=32) as i:
        for j in T.Parallel(N):
            quotient[i, j] = T.cast(A[i, j], "int32") // n
            rest[j, i] = A[i, j] - T.cast(quotient[i, j] * n, "float32")
    return rest, quotient


@tilelang.jit
def increment(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            A[i] += 1


@tilelang.jit
def one_of(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            B[i] = A[i] + 1
    return (B,)


def compiled(function, backend="aot_eager", **options):
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, fullgraph=True, **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_and_kernels_in_one_graph(backend):
    kernel = add.compile(N=16)

    def model(x, y, weights):
        return kernel(add(x @ weights, y) @ weights, y), add(x, y, scale=3)

    # Between them are products only: inductor calls the library there, whereas it would generate
    # code for sums, which takes long to compile. Whole numbers are exact in any order.
    x, y = torch.randint(-3, 4, (4, 16)).float(), torch.randint(-3, 4, (16,)).float()
    weights = torch.randint(-3, 4, (16, 16)).float()
    both, one = compiled(model, backend)(x, y, weights)
    assert torch.equal(both, (x @ weights + y) @ weights + y)
    assert torch.equal(one, x + 3 * y)


def test_several_outputs_and_scalars():
    def model(x, n):
        rest, quotient = divide_rows(x.floor(), n)
        return rest.T + quotient * n

    x = torch.rand(3, 20) * 50
    torch.testing.assert_close(compiled(model)(x, 7), x.floor())


def test_arguments_that_the_kernel_does_not_take():
    @tilelang.jit
    def shifted(A, Shift, Bias=None, use_shift=False):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        if use_shift:
            Shift: T.Tensor((N,), T.float32)
        if Bias is not None:
            Bias: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = A[i] + (Shift[i] if use_shift else 0.0) + (0.0 if Bias is None else Bias[i])
        return B

    x, y, z = torch.randn(3, 8)
    torch.testing.assert_close(compiled(lambda x, y: shifted(x, y))(x, y), x)
    torch.testing.assert_close(compiled(lambda x, y, z: shifted(x, y, z))(x, y, z), x + z)
    run = compiled(lambda x, y, z: shifted(x, y, Bias=z, use_shift=True))
    torch.testing.assert_close(run(x, y, z), x + y + z)


def test_a_tuple_of_one():
    def model(x):
        (y,) = one_of(x)
        return y * 2

    x = torch.randn(5)
    torch.testing.assert_close(compiled(model)(x), (x + 1) * 2)


def test_a_tensor_that_is_updated():
    def model(x):
        y = x * 2
        increment(y)
        return y * 3

    x = torch.randn(8)
    torch.testing.assert_close(compiled(model)(x), (x * 2 + 1) * 3)


def test_sizes_that_change():
    def model(x, y):
        return add(x, y) * 2

    run = compiled(model)
    y = torch.randn(16)
    for rows in (2, 3, 7):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(run(x, y), (x + y) * 2)


def test_symbolic_sizes_of_an_operator():
    operator = add.compile(N=16).as_torch_op(f"tests::add_{next(numbers)}")
    run = compiled(lambda x, y: operator(x, y) * 2, dynamic=True)
    graphs = torch._dynamo.utils.counters["stats"]
    before = graphs["unique_graphs"]
    y = torch.randn(16)
    for rows in (2, 3, 7):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(run(x, y), (x + y) * 2)
    assert graphs["unique_graphs"] == before + 1


def test_operators_pass_the_checks_of_torch():
    kernels = {
        add.compile(N=16): (torch.randn(3, 16), torch.randn(16)),
        divide_rows.compile(M=3, N=4): (torch.rand(3, 4) * 9, 4),
        increment.compile(N=5): (torch.randn(5),),
    }
    for kernel, args in kernels.items():
        name = f"op_{next(numbers)}"
        operator = kernel.as_torch_op(f"tests::{name}")
        torch.library.opcheck(operator, args)
        assert getattr(torch.ops.tests, name) is not None


def test_operators_take_gradients():
    operator = add.compile(N=16, scale=3).as_torch_op(f"tests::add_{next(numbers)}")
    operator.register_autograd(lambda _, grad: (grad, 3 * grad.sum(0)))
    x, y = torch.randn(4, 16, requires_grad=True), torch.randn(16, requires_grad=True)
    weight = torch.randn(4, 16)
    for run in (operator, compiled(lambda x, y: operator(x, y))):
        x.grad = y.grad = None
        (run(x, y) * weight).sum().backward()
        torch.testing.assert_close(x.grad, weight)
        torch.testing.assert_close(y.grad, 3 * weight.sum(0))


def test_functions_that_return_kernels_break_the_graph():
    @tilelang.jit(out_idx=-1)
    def copies(N):
        @T.prim_func
        def main(A: T.Tensor((N,), T.float32), B: T.Tensor((N,), T.float32)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(N):
                    B[i] = A[i]

        return main

    torch._dynamo.reset()
    x = torch.randn(8)
    run = torch.compile(lambda x: copies(8)(x * 2) + 1, backend="aot_eager")
    torch.testing.assert_close(run(x), x * 2 + 1)


def test_the_fake_kernel_knows_sizes_from_products():
    n, k = T.dynamic("n, k")

    @tilelang.jit(out_idx=-1)
    def unflatten():
        @T.prim_func
        def main(
            A: T.Tensor((n * k,), T.float32),
            B: T.Tensor((n,), T.float32),
            C: T.Tensor((T.ceildiv(n, 2), k + 1), T.float32),
        ):
            with T.Kernel(T.ceildiv(n, 2), threads=32) as i:
                for j in T.serial(k + 1):
                    C[i, j] = A[0] + B[0]

        return main

    operator = unflatten().as_torch_op(f"tests::unflatten_{next(numbers)}")
    with torch._subclasses.FakeTensorMode():
        result = operator(torch.empty(15), torch.empty(3))
    assert result.shape == (2, 6) and result.dtype == torch.float32


def test_kernels_without_tensors():
    @tilelang.jit
    def iota(n: T.int32, start=0):
        out = T.empty((n,), T.int32)
        with T.Kernel(1, threads=32):
            for i in T.serial(n):
                out[i] = i + start
        return out

    assert torch.equal(iota(5, start=3).cpu(), torch.arange(3, 8, dtype=torch.int32))
    operator = iota.compile().as_torch_op(f"tests::iota_{next(numbers)}")
    assert torch.equal(operator(4).cpu(), torch.arange(4, dtype=torch.int32))
    torch.library.opcheck(operator, (4,))


def test_a_name_without_namespace_is_refused():
    with pytest.raises(tilelang.errors.ConfigError, match='"namespace::name"'):
        one_of.compile(N=3).as_torch_op("add")


def test_types_of_torch():
    for name in ("float16", "bfloat16", "float8_e4m3fn", "int64", "uint16", "bool"):
        dtype = getattr(torch, name)
        assert T.dtype(dtype) == name and T.dtype(dtype).as_torch() is dtype
        assert getattr(T, name).as_torch() is dtype
    with pytest.raises(tilelang.errors.DTypeError, match="torch has no type handle"):
        T.dtype("handle").as_torch()


@pytest.mark.requires_cuda
def test_the_current_stream_is_used():
    @tilelang.jit
    def iota(n: T.int32):
        out = T.empty((n,), T.int32)
        with T.Kernel(1, threads=32):
            for i in T.serial(n):
                out[i] = i
        return out

    stream = torch.cuda.Stream()
    x, y = torch.randn(64, 16, device="cuda"), torch.randn(16, device="cuda")
    add(x, y), iota(4)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)  # what follows must wait for it
        begun = torch.cuda.Event()
        result, numbers_ = add(x, y), iota(4)
        begun.record()
        assert not begun.query() and not stream.query()
    stream.synchronize()
    torch.testing.assert_close(result, x + y)
    assert numbers_.tolist() == [0, 1, 2, 3] and numbers_.is_cuda


@pytest.mark.requires_cuda
def test_graphs_capture_launches():
    x, y = torch.randn(64, 16, device="cuda"), torch.randn(16, device="cuda")
    add(x, y)  # loads the code: a capture cannot
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = add(add(x, y), y)
    for _ in range(2):
        x.normal_()
        graph.replay()
        torch.testing.assert_close(z, x + y + y)


@pytest.mark.requires_cuda
def test_compiled_on_a_gpu():
    x, y = torch.randn(4, 16, device="cuda"), torch.randn(16, device="cuda")
    run = compiled(lambda x, y: torch.relu(add(x * 2, y)), "inductor")
    torch.testing.assert_close(run(x, y), torch.relu(x * 2 + y))
