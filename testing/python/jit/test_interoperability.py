"""Kernels with arrays of other libraries, as functions of JAX, and with gradients of torch."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError, ConfigError

TARGET = "sm_90a"
N = T.dynamic("N")


def product(out_first: bool = False):
    """Z = X * Y, rows of a matrix times a vector; the output may come first."""

    @T.macro
    def body(X, Y, Z):
        with T.Kernel(X.shape[0], T.ceildiv(N, 64), threads=64) as (row, block):
            for i in T.Parallel(64):
                Z[row, block * 64 + i] = X[row, block * 64 + i] * Y[block * 64 + i]

    matrix, vector = T.Tensor((3, N), "float32"), T.Tensor((N,), "float32")
    if out_first:

        @T.prim_func
        def multiply_into(Z: matrix, X: matrix, Y: vector):
            body(X, Y, Z)

        return tilelang.compile(multiply_into, out_idx=[0], target=TARGET)

    @T.prim_func
    def multiply(X: matrix, Y: vector, Z: matrix):
        body(X, Y, Z)

    return tilelang.compile(multiply, out_idx=[2], target=TARGET)


@pytest.fixture(scope="module")
def jax():
    pytest.importorskip("jax_tvm_ffi", reason="the extra jax is not installed")
    return pytest.importorskip("jax")


@pytest.mark.parametrize("out_first", [False, True])
@pytest.mark.parametrize("n", [1, 70, 128])
def test_jax_with_and_without_jit(jax, out_first: bool, n: int) -> None:
    function = product(out_first).as_jax()
    random = np.random.default_rng(n)
    x, y = random.standard_normal((3, n), np.float32), random.standard_normal(n, np.float32)
    np.testing.assert_array_equal(function(jax.numpy.asarray(x), jax.numpy.asarray(y)), x * y)
    np.testing.assert_array_equal(jax.jit(function)(x, y), x * y)
    chained = jax.jit(lambda a, b: function(function(a, b), b))(x, y)
    np.testing.assert_array_equal(chained, (x * y) * y)


def test_jax_with_a_gradient(jax) -> None:
    function = jax.custom_vjp(product().as_jax())
    kernel = product().as_jax()
    function.defvjp(
        lambda x, y: (kernel(x, y), (x, y)),
        lambda saved, g: (kernel(g, saved[1]), (g * saved[0]).sum(0)),
    )
    random = np.random.default_rng(0)
    x, y = random.standard_normal((3, 65), np.float32), random.standard_normal(65, np.float32)
    dx, dy = jax.jit(jax.grad(lambda a, b: (function(a, b) ** 2).sum(), (0, 1)))(x, y)
    np.testing.assert_allclose(dx, 2 * x * y * y, rtol=1e-5)
    np.testing.assert_allclose(dy, (2 * x * x * y).sum(0), rtol=1e-5, atol=1e-5)


def test_what_jax_cannot_call(jax) -> None:
    with pytest.raises(ArgumentError, match="takes 2 arrays, got 1"):
        product().as_jax()(np.zeros((3, 4), np.float32))

    @T.prim_func
    def scaled(X: T.Tensor((8,), "float32"), a: T.float32, Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                Y[i] = X[i] * a

    with pytest.raises(ConfigError, match="out_idx"):
        tilelang.compile(scaled, target=TARGET).as_jax()
    with pytest.raises(ConfigError, match="scalar 'a'"):
        tilelang.compile(scaled, out_idx=[2], target=TARGET).as_jax()


def test_jax_refuses_a_wrong_shape(jax) -> None:
    with pytest.raises(Exception, match="X"):
        jax.block_until_ready(product().as_jax()(np.zeros((4, 9), np.float32), np.zeros(9, "f4")))


def test_without_jax_the_error_names_the_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "jax_tvm_ffi", None)
    with pytest.raises(ConfigError, match="jax"):
        product().as_jax()


def test_gradients_are_those_of_torch() -> None:
    kernel = product()

    def backward(x, y, gradient):
        return kernel(gradient, y), (gradient * x).sum(0)

    function = tilelang.differentiable(kernel, backward)
    x, y = torch.randn(3, 70, requires_grad=True), torch.randn(70, requires_grad=True)
    weight = torch.randn(70, 3)  # makes the gradient of the output a transposed view
    (function(x, y).t() * weight).sum().backward()
    wanted = torch.autograd.grad(((x * y).t() * weight).sum(), (x, y))
    torch.testing.assert_close((x.grad, y.grad), wanted)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_gradient_that_a_kernel_does_not_have_is_named_once(wanted: bool) -> None:
    kernel = product()
    x, y = torch.randn(3, 70, requires_grad=True), torch.randn(70)
    with warnings.catch_warnings(record=True) as caught, torch.set_grad_enabled(wanted):
        warnings.simplefilter("always")
        assert not kernel(x, y).requires_grad
        kernel(x, y)
    texts = [str(each.message) for each in caught]
    assert len(texts) == wanted
    if wanted:
        assert "multiply" in texts[0] and "tilelang.differentiable" in texts[0]
        assert caught[0].filename == __file__


def test_gradients_with_scalars_outputs_and_inputs_without() -> None:
    seen = {}

    def forward(x, power, mask):
        return x**power * mask, x.sum()

    def backward(x, power, mask, output, total, gradient, of_total):
        seen["outputs"] = output, total
        return gradient * power * x ** (power - 1) * mask + of_total, None

    function = tilelang.differentiable(forward, backward, save_outputs=True)
    x, mask = torch.rand(9, requires_grad=True), torch.ones(9)
    output, total = function(x, 3, mask)
    output.sum().backward()  # the other output is not used: its gradient is zero
    torch.testing.assert_close(x.grad, 3 * x.detach() ** 2)
    torch.testing.assert_close(seen["outputs"], (output.detach(), total.detach()))
    assert mask.grad is None


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (lambda g: (g, g), "returned 2 gradients for 1 tensors"),
        (lambda g: g[:3], r"shape \(3,\) for tensor 0 .* is \(9,\)"),
    ],
)
def test_wrong_gradients_are_refused(result, says: str) -> None:
    function = tilelang.differentiable(lambda x: 2 * x, lambda x, g: result(g))
    x = torch.rand(9, requires_grad=True)
    with pytest.raises(ArgumentError, match=says):
        function(x).sum().backward()


def test_the_gradient_of_a_gradient_is_refused() -> None:
    function = tilelang.differentiable(lambda x: x * x, lambda x, g: 2 * x * g)
    x, weight = torch.rand(9, requires_grad=True), torch.rand(9, requires_grad=True)
    (first,) = torch.autograd.grad((function(x) * weight).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.requires_cuda
def test_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    x, y = cupy.random.rand(3, 70, dtype="float32"), cupy.random.rand(70, dtype="float32")
    result = product()(x, y)
    assert isinstance(result, cupy.ndarray) and bool((result == x * y).all())


def test_lower_to_source_alone():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            T.fill(A, 3)

    lowered = tilelang.lower(
        main, "sm_100a", None, enable_host_codegen=False, enable_device_compile=True
    )
    assert "__global__" in lowered.kernel_source


def test_a_kernel_runs_with_arguments_of_the_profiler():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            T.copy(A, B)

    kernel = tilelang.compile(main, out_idx=-1, target=TARGET)
    assert kernel.run_once().shape == (64,)
    seen = []
    kernel.run_once(lambda *tensors: seen.extend(tensors))
    assert [tensor.shape for tensor in seen] == [(64,)]
