"""Kernels of T.gemm by wgmma that the tests of this folder share, and how they are checked."""

from __future__ import annotations

import functools
from typing import Any

import block_gemms
import torch
from block_gemms import operands

#: Types of A, B and C that wgmma multiplies.
HALF_TYPES = [
    ("float16", "float16", "float32"),
    ("float16", "float16", "float16"),
    ("bfloat16", "bfloat16", "float32"),
]
OTHER_TYPES = [
    ("float32", "float32", "float32"),
    ("int8", "int8", "int32"),
    ("int8", "uint8", "int32"),
    ("uint8", "int8", "int32"),
    ("uint8", "uint8", "int32"),
    ("float8_e4m3fn", "float8_e4m3fn", "float32"),
    ("float8_e4m3fn", "float8_e5m2", "float16"),
    ("float8_e5m2", "float8_e4m3fn", "float32"),
    ("float8_e5m2", "float8_e5m2", "float16"),
]
CLEARS = ["clear_accum", "T.clear", "add", "condition"]


#: B is (N, K), the way that every type may be.
Case = functools.partial(block_gemms.Case, transpose_b=True)


def gemm(case: block_gemms.Case, **configs: Any):
    return block_gemms.gemm(case, "sm_90a", configs)


def poisoned(shape: tuple[int, ...], dtype: str, device: str = "cpu") -> torch.Tensor:
    kind = getattr(torch, dtype)
    return torch.full(shape, float("nan") if kind.is_floating_point else -77).to(kind).to(device)


def uses_wgmma(kernel) -> bool:
    return "wgmma.mma_async" in kernel.get_ptx() and "mma.sync" not in kernel.get_ptx()


def check(case: block_gemms.Case, device: str = "cpu", wgmma: bool = True) -> None:
    """The gemm is done by wgmma (or not), and equals the product in float64."""
    a, b, want = operands(case, device)
    c = poisoned(tuple(want.shape), case.types[2], device)
    kernel = gemm(case)
    assert uses_wgmma(kernel) == wgmma, [remark.message for remark in kernel.remarks]
    kernel(a, b, c, 0)
    assert torch.equal(c.double(), want)
