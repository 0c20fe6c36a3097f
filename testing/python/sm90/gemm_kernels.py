"""Kernels of T.gemm by wgmma that the tests of this folder share, and how they are checked."""

from __future__ import annotations

from typing import NamedTuple

import torch

import tilelang
import tilelang.language as T

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


class Case(NamedTuple):
    """One gemm of one block, operands copied to shared memory (A, if asked, to a fragment)."""

    types: tuple[str, str, str]
    shape: tuple[int, int, int]  # M, N, K
    threads: int = 128
    policy: T.GemmWarpPolicy = T.GemmWarpPolicy.Square
    transpose_a: bool = False
    transpose_b: bool = True
    a_in_fragment: bool = False
    clear: str = "clear_accum"

    def __str__(self) -> str:
        letters = "NT"[self.transpose_a] + "NT"[self.transpose_b]
        shape = "x".join(map(str, self.shape))
        place = "-fragment" if self.a_in_fragment else ""
        return f"{'-'.join(self.types)}-{shape}-{self.threads}-{self.policy.name}-{letters}{place}"


def gemm(case: Case, target: str = "sm_90a"):
    (m, n, k), (a, b, c) = case.shape, case.types
    shape_a = (k, m) if case.transpose_a else (m, k)
    shape_b = (n, k) if case.transpose_b else (k, n)
    options = {
        "transpose_A": case.transpose_a,
        "transpose_B": case.transpose_b,
        "policy": case.policy,
    }

    @T.prim_func
    def main(
        A: T.Tensor(shape_a, a), B: T.Tensor(shape_b, b), C: T.Tensor((m, n), c), first: T.int32
    ):
        with T.Kernel(1, threads=case.threads):
            x = T.alloc_shared(shape_a, a)
            y = T.alloc_shared(shape_b, b)
            z = T.alloc_fragment((m, n), c)
            T.copy(A, x)
            T.copy(B, y)
            if case.clear == "T.clear":
                T.clear(z)
            elif case.clear == "add":
                T.fill(z, 5)
            elif case.clear == "condition":
                T.fill(z, 9)
            clear = {"clear_accum": True, "condition": first == 0}.get(case.clear, False)
            f = T.alloc_fragment(shape_a, a)
            if case.a_in_fragment:
                T.copy(x, f)
            T.gemm(f if case.a_in_fragment else x, y, z, clear_accum=clear, **options)
            T.copy(z, C)

    return tilelang.compile(main, target=target)


def integers(shape: tuple[int, ...], dtype: str, device: str = "cpu") -> torch.Tensor:
    """Small enough that sums are exact in every accumulator."""
    low = 0 if dtype == "uint8" else -3
    return torch.randint(low, 4, shape).to(getattr(torch, dtype)).to(device)


def poisoned(shape: tuple[int, ...], dtype: str, device: str = "cpu") -> torch.Tensor:
    kind = getattr(torch, dtype)
    return torch.full(shape, float("nan") if kind.is_floating_point else -77).to(kind).to(device)


def uses_wgmma(kernel) -> bool:
    return "wgmma.mma_async" in kernel.get_ptx() and "mma.sync" not in kernel.get_ptx()


def check(case: Case, device: str = "cpu", wgmma: bool = True) -> None:
    """The gemm is done by wgmma (or not), and equals the product in float64."""
    m, n, k = case.shape
    a = integers((k, m) if case.transpose_a else (m, k), case.types[0], device)
    b = integers((n, k) if case.transpose_b else (k, n), case.types[1], device)
    c = poisoned((m, n), case.types[2], device)
    kernel = gemm(case)
    assert uses_wgmma(kernel) == wgmma, [remark.message for remark in kernel.remarks]
    kernel(a, b, c, 0)
    left = a.double().T if case.transpose_a else a.double()
    right = b.double().T if case.transpose_b else b.double()
    want = left @ right + (5 if case.clear == "add" else 0)
    assert torch.equal(c.double(), want)
