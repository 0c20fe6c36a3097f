"""Whole kernels against torch in float64, on the emulator and on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kernels import programs

import tilelang

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def compile_for(func: Any, device: str) -> Any:
    return tilelang.compile(func, target="auto" if device == "cuda" else "sm_90a")


def random(shape: tuple[int, ...], dtype: str, device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) * 7 + len(dtype))
    torch_dtype = getattr(torch, dtype)
    if torch_dtype.is_floating_point:
        values = torch.randn(shape, generator=generator).to(torch_dtype)
    else:
        low = 0 if not torch_dtype.is_signed else -50
        values = torch.randint(low, 50, shape, generator=generator).to(torch_dtype)
    return values.to(device)


def poisoned(shape: tuple[int, ...], dtype: str, device: str) -> torch.Tensor:
    torch_dtype = getattr(torch, dtype)
    value = float("nan") if torch_dtype.is_floating_point else 77
    return torch.full(shape, value, dtype=torch_dtype, device=device)


def assert_matches(actual: torch.Tensor, expected: torch.Tensor, dtype: str) -> None:
    tolerance = TOLERANCE.get(dtype, 0)
    torch.testing.assert_close(actual.double(), expected.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int8"])
@pytest.mark.parametrize("shape", [(64, 128), (33, 77), (1, 1), (100, 130)])
def test_elementwise(device: str, shape: tuple[int, int], dtype: str) -> None:
    m, n = shape
    kernel = compile_for(programs.elementwise(m, n, dtype), device)
    a, b = random((m, n), dtype, device), random((m, n), dtype, device).flip(0).contiguous()
    bias, c = random((n,), dtype, device), poisoned((m, n), dtype, device)
    kernel(a, b, bias, c)
    if a.dtype.is_floating_point:
        assert_matches(c, a.double() * b.double() + bias.double(), dtype)
    else:
        assert torch.equal(c, a * b + bias)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_one_kernel_serves_dynamic_shapes(device: str, dtype: str) -> None:
    kernel = compile_for(programs.dynamic_scale(dtype), device)
    for m, n in [(64, 64), (100, 72), (1, 7), (65, 129)]:
        a, b = random((m, n), dtype, device), poisoned((m, n), dtype, device)
        kernel(a, b, 1.5)
        assert_matches(b, a.double() * 1.5, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
@pytest.mark.parametrize("shape", [(128, 64), (70, 90)])
def test_transpose(device: str, shape: tuple[int, int], dtype: str) -> None:
    kernel = compile_for(programs.transpose(*shape, dtype), device)
    a, b = random(shape, dtype, device), poisoned(shape[::-1], dtype, device)
    kernel(a, b)
    assert torch.equal(b, a.T)


ROW_SHAPES = [(8, 256), (7, 200), (5, 96), (3, 1000)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", ROW_SHAPES)
def test_softmax(device: str, shape: tuple[int, int], dtype: str) -> None:
    kernel = compile_for(programs.softmax(*shape, dtype), device)
    a, b = random(shape, dtype, device), poisoned(shape, dtype, device)
    kernel(a, b)
    assert_matches(b, torch.softmax(a.double(), -1), dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", ROW_SHAPES)
def test_rms_norm(device: str, shape: tuple[int, int], dtype: str) -> None:
    kernel = compile_for(programs.rms_norm(*shape, dtype), device)
    a, w = random(shape, dtype, device), random(shape[1:], dtype, device)
    b = poisoned(shape, dtype, device)
    kernel(a, w, b)
    x = a.double()
    expected = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w.double()
    assert_matches(b, expected, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", ROW_SHAPES)
def test_layer_norm(device: str, shape: tuple[int, int], dtype: str) -> None:
    kernel = compile_for(programs.layer_norm(*shape, dtype), device)
    a, w = random(shape, dtype, device), random(shape[1:], dtype, device)
    bias, b = w.flip(0).contiguous(), poisoned(shape, dtype, device)
    kernel(a, w, bias, b)
    expected = torch.nn.functional.layer_norm(a.double(), shape[1:], w.double(), bias.double())
    assert_matches(b, expected, dtype)


REFERENCES = {
    "sum": lambda x, d: x.sum(d),
    "max": lambda x, d: x.amax(d),
    "min": lambda x, d: x.amin(d),
    "abssum": lambda x, d: x.abs().sum(d),
    "absmax": lambda x, d: x.abs().amax(d),
}
COMBINE = {"sum": torch.add, "abssum": torch.add, "max": torch.maximum, "min": torch.minimum}
COMBINE["absmax"] = torch.maximum


@pytest.mark.parametrize("op", list(REFERENCES))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int32"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("clear", [True, False])
def test_reductions(device: str, op: str, dtype: str, dim: int, clear: bool) -> None:
    for m, n, threads in [(64, 64, 128), (48, 40, 128), (5, 100, 64), (16, 24, 256)]:
        kernel = compile_for(programs.reduction(m, n, dtype, op, dim, clear, threads), device)
        a = random((m, n), dtype, device)
        size = m if dim == 1 else n
        out = poisoned((size,), dtype, device) if clear else random((size,), dtype, device)
        expected = REFERENCES[op](a.double(), dim)
        if not clear:
            expected = COMBINE[op](out.double(), expected)
        kernel(a, out)
        tolerance = TOLERANCE.get(dtype, 0) * 10
        torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", [1000, 4096])
def test_histogram(device: str, n: int) -> None:
    kernel = compile_for(programs.histogram(n, 37), device)
    values = torch.randint(0, 37, (n,), dtype=torch.int32)
    counts = torch.zeros(37, dtype=torch.int32, device=device)
    kernel(values.to(device), counts)
    assert torch.equal(counts.cpu(), torch.bincount(values, minlength=37).int())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("sizes", [(64, 64, 32), (33, 50, 41), (70, 31, 100)])
def test_simt_matmul(device: str, sizes: tuple[int, int, int], dtype: str) -> None:
    m, n, k = sizes
    kernel = compile_for(programs.simt_matmul(m, n, k, dtype), device)
    a, b = random((m, k), dtype, device), random((k, n), dtype, device)
    c = poisoned((m, n), "float32", device)
    kernel(a, b, c)
    expected = a.double() @ b.double()
    torch.testing.assert_close(c.double(), expected, rtol=1e-4, atol=1e-4)
