"""Operands of GEMMs for benchmark/gemm.py: types, storage orders, and the library's own GEMM."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch


class Kind(NamedTuple):
    """Types of operands, sums and result, and the largest relative error of a result.

    ``title`` names the types in a table.
    """

    dtype: torch.dtype
    sums: torch.dtype
    out: torch.dtype
    tolerance: float
    title: str


KINDS = {
    "bfloat16": Kind(torch.bfloat16, torch.float32, torch.bfloat16, 4e-3, "bfloat16"),
    "float16": Kind(torch.float16, torch.float32, torch.float16, 1e-3, "float16"),
    "e4m3": Kind(
        torch.float8_e4m3fn, torch.float32, torch.bfloat16, 4e-3, "float8_e4m3, bfloat16 result"
    ),
    "int8": Kind(torch.int8, torch.int32, torch.int32, 0.0, "int8, int32 result"),
    "tf32": Kind(torch.float32, torch.float32, torch.float32, 1e-3, "tf32"),
}


def name(dtype: torch.dtype) -> str:
    """How kernels spell the type."""
    return str(dtype).split(".")[1]


def random_matrix(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Normal data; integers with a standard deviation of 32, so that few are cut off at 127."""
    values = torch.randn(rows, columns, device="cuda")
    if dtype == torch.int8:
        values = (values * 32).round().clamp(-127, 127)
    return values.to(dtype)


class Problem(NamedTuple):
    """C (M, N) = A B: ``a`` and ``b`` as stored, which ``order`` says: N as is, T transposed."""

    kind: Kind
    order: str
    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor

    @property
    def factors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Views (M, K) and (K, N)."""
        a, b = (x.T if t == "T" else x for x, t in zip((self.a, self.b), self.order, strict=True))
        return a, b

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N, K."""
        a, b = self.factors
        return a.shape[0], b.shape[1], a.shape[1]

    @property
    def flops(self) -> int:
        m, n, k = self.sizes
        return 2 * m * n * k

    def library(self) -> Callable[[], torch.Tensor]:
        """cuBLAS by way of torch; of e4m3 its faster variant, which adds up in the tensor core."""
        a, b = self.factors
        if self.kind.dtype == torch.int8:
            return lambda: torch._int_mm(a, b, out=self.c)
        if self.kind.dtype != torch.float8_e4m3fn:
            return lambda: torch.mm(a, b, out=self.c)
        one = torch.ones((), device="cuda")
        scaled = {"scale_a": one, "scale_b": one, "out_dtype": self.kind.out}
        return lambda: torch._scaled_mm(a, b, **scaled, use_fast_accum=True, out=self.c)

    def check(self, run: Callable[[], object]) -> None:
        """Compares the first and the last rows with float64, and that all is written."""
        self.c.fill_(-1 if self.kind.out == torch.int32 else float("nan"))
        run()
        assert not self.c.isnan().any()
        a, b = self.factors
        rows = min(128, a.shape[0])
        ends = torch.cat([torch.arange(rows), torch.arange(-rows, 0)])
        want = a[ends].double() @ b.double()
        error = ((self.c[ends].double() - want).norm() / want.norm()).item()
        assert error <= self.kind.tolerance, f"relative error {error:.2g}"


def random_problem(kind: Kind, order: str, sizes: tuple[int, int, int]) -> Problem:
    """Random operands on the GPU."""
    m, n, k = sizes
    a = random_matrix(*((k, m) if order[0] == "T" else (m, k)), kind.dtype)
    b = random_matrix(*((n, k) if order[1] == "T" else (k, n)), kind.dtype)
    return Problem(kind, order, a, b, torch.empty(m, n, dtype=kind.out, device="cuda"))
