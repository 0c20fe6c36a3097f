"""Rows that one thread holds: several chains combine them, where the order does not matter."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T

THREADS = 32
REFERENCE = {
    "max": lambda x: x.amax(1),
    "min": lambda x: x.amin(1),
    "absmax": lambda x: x.abs().amax(1),
    "sum": lambda x: x.sum(1),
    "bitxor": lambda x: torch.tensor([_xor(row) for row in x.tolist()]),
}


def _xor(row: list[int]) -> int:
    result = 0
    for value in row:
        result ^= value
    return result


def reduction(kind: str, dtype: str, columns: int, clear: bool):
    """B[i] = the reduction of row i of A, which thread i holds; of B too where not ``clear``."""

    @T.prim_func
    def main(A: T.Tensor((THREADS, columns), dtype), B: T.Tensor((THREADS,), dtype)):
        with T.Kernel(1, threads=THREADS):
            a = T.alloc_fragment((THREADS, columns), dtype)
            b = T.alloc_fragment((THREADS,), dtype)
            T.annotate_layout({a: T.Fragment((THREADS, columns), lambda i, j: (i, j))})
            T.copy(A, a)
            T.copy(B, b)
            getattr(T, f"reduce_{kind}")(a, b, dim=1, clear=clear)
            T.copy(b, B)

    return main


def chained(kernel) -> bool:
    return bool(re.search(r"b(_acc)?_chains\[4\]", kernel.get_kernel_source()))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_rounded_sums_keep_their_order_without_tensor_memory(dtype: str, target: str) -> None:
    kernel = tilelang.compile(reduction("sum", dtype, 130, True), target=target)
    assert chained(kernel) == (dtype == "int32")


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("columns", [63, 64, 130])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("max", "float32"),
        ("min", "float16"),
        ("absmax", "float32"),
        ("sum", "float32"),
        ("max", "int32"),
        ("sum", "int32"),
        ("bitxor", "int32"),
    ],
)
def test_rows_of_a_thread(kind: str, dtype: str, columns: int, clear: bool) -> None:
    kernel = tilelang.compile(reduction(kind, dtype, columns, clear), target="sm_100a")
    assert chained(kernel) == (columns >= 64)
    torch.manual_seed(columns)
    if dtype == "int32":
        a, b = (torch.randint(-1000, 1000, s, dtype=torch.int32) for s in ((32, columns), (32,)))
    else:
        a, b = (torch.randn(s).to(getattr(torch, dtype)) for s in ((32, columns), (32,)))
    a[3, columns - 1], a[4, 0] = 2000, -2000  # at the ends of a row
    rows = a if clear else torch.cat([a, b[:, None]], 1)
    want = REFERENCE[kind](rows.double() if kind == "sum" and dtype == "float32" else rows)
    kernel(a, b)
    if kind == "sum" and dtype == "float32":
        torch.testing.assert_close(b.double(), want, rtol=1e-5, atol=1e-4)
    else:
        assert torch.equal(b.double(), want.double())


def test_results_that_are_not_numbers() -> None:
    """A row of NaN alone, and one with some: T.reduce_max returns a number where there is one."""
    kernel = tilelang.compile(reduction("max", "float32", 70, True), target="sm_100a")
    a, b = torch.randn(THREADS, 70), torch.full((THREADS,), 7.0)
    a[5, ::2] = float("nan")
    kernel(a, b)
    want = torch.where(a.isnan(), -torch.inf, a).amax(1)
    assert torch.equal(b, want)


@pytest.mark.parametrize(("columns", "packed"), [(64, True), (100, True), (130, False)])
def test_packed_sums_are_those_of_four_chains(columns: int, packed: bool) -> None:
    """Chains take elements in turn; packed additions round as single ones do."""
    kernel = tilelang.compile(reduction("sum", "float32", columns, True), target="sm_100a")
    assert ("tl::add_four(" in kernel.get_kernel_source()) == packed
    a, b = torch.randn(THREADS, columns) * 1e3, torch.full((THREADS,), float("nan"))
    kernel(a, b)
    chains = torch.zeros(THREADS, 4)
    for column in range(columns):
        chains[:, column % 4] += a[:, column]
    want = (chains[:, 0] + chains[:, 1]) + (chains[:, 2] + chains[:, 3])
    assert torch.equal(b, want)
