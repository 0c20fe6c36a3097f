"""Gemms of one block, by whatever instruction, and their exact results."""

from __future__ import annotations

from typing import NamedTuple

import torch

import tilelang
import tilelang.language as T


class Case(NamedTuple):
    """One gemm of one block, operands copied to shared memory, or on to a fragment."""

    types: tuple[str, str, str]
    shape: tuple[int, int, int]  # M, N, K
    threads: int = 128
    policy: T.GemmWarpPolicy = T.GemmWarpPolicy.Square
    transpose_a: bool = False
    transpose_b: bool = False
    a_in_fragment: bool = False
    b_in_fragment: bool = False
    clear: str = "clear_accum"

    def __str__(self) -> str:
        letters = "NT"[self.transpose_a] + "NT"[self.transpose_b]
        shape = "x".join(map(str, self.shape))
        place = "-fragment" if self.a_in_fragment else ""
        return f"{'-'.join(self.types)}-{shape}-{self.threads}-{self.policy.name}-{letters}{place}"


def gemm(case: Case, target: str, pass_configs: dict | None = None):
    """The kernel; its last argument is 0 where a condition is to clear C."""
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
            g = T.alloc_fragment(shape_b, b)
            if case.a_in_fragment:
                T.copy(x, f)
            if case.b_in_fragment:
                T.copy(y, g)
            left = f if case.a_in_fragment else x
            right = g if case.b_in_fragment else y
            T.gemm(left, right, z, clear_accum=clear, **options)
            T.copy(z, C)

    return tilelang.compile(main, target=target, pass_configs=pass_configs)


def integers(shape: tuple[int, ...], dtype: str, device: str = "cpu") -> torch.Tensor:
    """Small enough that sums are exact in every accumulator."""
    low = 0 if dtype == "uint8" else -3
    return torch.randint(low, 4, shape).to(getattr(torch, dtype)).to(device)


def operands(case: Case, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A and B as the kernel takes them, and in float64 what C is to be."""
    m, n, k = case.shape
    a = integers((k, m) if case.transpose_a else (m, k), case.types[0], device)
    b = integers((n, k) if case.transpose_b else (k, n), case.types[1], device)
    left = a.double().T if case.transpose_a else a.double()
    right = b.double().T if case.transpose_b else b.double()
    return a, b, left @ right + (5 if case.clear == "add" else 0)
