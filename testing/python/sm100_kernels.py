"""What the tests of tensor memory share: data, compiling, and the generic GEMM kernel."""

from __future__ import annotations

import torch

import tilelang

#: TileLang's name of an element type -> torch's.
TORCH = {
    name: getattr(torch, name)
    for name in (
        "float32",
        "int32",
        "uint32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "int8",
        "uint8",
    )
}


def compile_sm100(function):
    """Compiles for sm_100a; NVRTC assembles the PTX, so ptxas accepts what this returns."""
    return tilelang.compile(function, target="sm_100a")


def random_bits(rows: int, columns: int, dtype: str) -> torch.Tensor:
    """A matrix of random bits, NaNs and infinities among them."""
    size = TORCH[dtype].itemsize
    return torch.randint(0, 256, (rows, columns * size), dtype=torch.uint8).view(TORCH[dtype])


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one type hold the same bits (NaN equals NaN)."""
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


ACCUMULATOR = {"int8": "int32", "uint8": "int32"}


def random_values(rows: int, columns: int, dtype: str) -> torch.Tensor:
    """Normal values, or integers of the whole range, of an element type."""
    if not TORCH[dtype].is_floating_point:
        info = torch.iinfo(TORCH[dtype])
        return torch.randint(info.min, info.max + 1, (rows, columns)).to(TORCH[dtype])
    return torch.randn(rows, columns).to(TORCH[dtype])


def poisoned(rows: int, columns: int, dtype: str) -> torch.Tensor:
    """A result that nothing has written."""
    poison = float("nan") if TORCH[dtype].is_floating_point else -77
    return torch.full((rows, columns), poison).to(TORCH[dtype])


def as_read(operand: torch.Tensor) -> torch.Tensor:
    """float64 values as the tensor core reads them: float32 without its low 13 bits (tf32)."""
    if operand.dtype == torch.float32:
        operand = (operand.view(torch.int32) & ~0x1FFF).view(torch.float32)
    return operand.double()


def check_product(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Compares ``c`` with the product a (M, K) @ b (K, N) computed in float64.

    The tensor core sums a K step with 25 bits and truncates the accumulator once a step: the
    error is bounded by the sum of absolute products times 2^-23 a step. A narrower result adds
    half a unit of its last place.
    """
    a, b = as_read(a), as_read(b)
    exact = a @ b
    if not c.dtype.is_floating_point:
        assert torch.equal(c.double(), exact)
        return
    steps = a.shape[1] // 8 + 2
    bound = (a.abs() @ b.abs()) * steps * 2.0**-23
    eps = torch.finfo(c.dtype).eps
    if c.dtype != torch.float32:
        bound = bound * (eps * 2**23 if c.dtype == torch.float16 else 1) + exact.abs() * eps
    error = (c.double() - exact).abs()
    assert (error <= bound + 1e-30).all(), f"largest error {error.max()} of {exact.abs().max()}"
