"""The list of programs of test_bugs_elsewhere.py, and what several of them share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import tilelang.language as T

ALL = ("sm_80", "sm_90a", "sm_100a")
TMA = ("sm_90a", "sm_100a")
WITHOUT_TMA = {"tl.disable_tma_lower": True}


class Case(NamedTuple):
    """A kernel's function, what it is called with, and what tensors must hold afterwards."""

    function: Any
    arguments: tuple[Any, ...]
    expected: dict[int, torch.Tensor]
    options: dict[str, Any] | None = None


class Bug(NamedTuple):
    """What was seen, and the program that would show it."""

    symptom: str
    make: Callable[[], Case]
    targets: tuple[str, ...]


BUGS: dict[str, Bug] = {}


def bug(symptom: str, targets: tuple[str, ...] = ALL, **variants: tuple) -> Callable:
    """Registers a case, once for each value of its one parameter if it has one."""

    def register(make: Callable[..., Case]) -> Callable[..., Case]:
        if not variants:
            BUGS[make.__name__] = Bug(symptom, make, targets)
        for name, values in variants.items():
            for value in values:
                case = functools.partial(make, **{name: value})
                BUGS[f"{make.__name__}-{value}"] = Bug(symptom, case, targets)
        return make

    return register


def small(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.randint(-3, 4, shape).to(dtype)


def poison(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, -77, dtype=dtype)


def gemm(M, N, K, m=64, n=64, k=32, stages=3, threads=128, start=0, blocks=None, staged=False):
    """C = A B^T from column ``start * k`` on, by ``blocks`` persistent blocks."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        tiles = [T.ceildiv(M, m), T.ceildiv(N, n)]
        with T.Kernel(blocks or tiles[0] * tiles[1], threads=threads) as block:
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((n, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            out = T.alloc_shared((m, n), "float32")
            for by, bx in T.Persistent(tiles, blocks or tiles[0] * tiles[1], block):
                T.clear(c)
                for i in T.Pipelined(start, T.ceildiv(K, k), num_stages=stages):
                    T.copy(A[by * m, i * k], a)
                    T.copy(B[bx * n, i * k], b)
                    T.gemm(a, b, c, transpose_B=True)
                if staged:
                    T.copy(c, out)
                    T.copy(out, C[by * m, bx * n])
                else:
                    T.copy(c, C[by * m, bx * n])

    return main


def gemm_case(M, N, K, start=0, k=32, **options) -> Case:
    a, b = small(M, K), small(N, K)
    product = a[:, start * k :].float() @ b[:, start * k :].float().T
    function = gemm(M, N, K, k=k, start=start, **options)
    return Case(function, (a, b, poison(M, N)), {2: product})


def rows(n=7, width=64, stages=3, height=16, threads=64):
    """B gets blocks of A, upside down, so that threads read what others copied."""

    @T.prim_func
    def main(
        A: T.Tensor((n * height, width), "float32"),
        B: T.Tensor((n * height, width), "float32"),
        count: T.int32,
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((height, width), "float32")
            for i in T.Pipelined(count, num_stages=stages):
                T.copy(A[i * height, 0], a)
                for r, q in T.Parallel(height, width):
                    B[i * height + r, q] = a[height - 1 - r, q]

    return main


def flipped(a: torch.Tensor, height: int, count: int) -> torch.Tensor:
    want = torch.full_like(a, -77)
    for i in range(count):
        want[i * height : (i + 1) * height] = a[i * height : (i + 1) * height].flip(0)
    return want


def chain(n_blocks=6, stages=2, same=False, in_shared=False, rows=128, threads=128):
    """Out = sum of relu(A B_j^T) C_j; ``same``: C is B; ``in_shared``: the weights are."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, 64), "float16"),
        B: T.Tensor((n_blocks * 64, 64), "float16"),
        C: T.Tensor((n_blocks * 64, 64), "float16"),
        Out: T.Tensor((rows, 64), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((rows, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((rows, 64), "float32")
            p = T.alloc_fragment((rows, 64), "float16")
            ps = T.alloc_shared((rows, 64), "float16")
            acc = T.alloc_fragment((rows, 64), "float32")
            T.copy(A, a)
            T.clear(acc)
            for j in T.Pipelined(n, num_stages=stages):
                T.copy(B[j * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                for r, q in T.Parallel(rows, 64):
                    p[r, q] = T.max(s[r, q], 0)
                if same:
                    T.gemm(p, b, acc)
                else:
                    T.copy(C[j * 64, 0], c)
                    if in_shared:
                        T.copy(p, ps)
                        T.gemm(ps, c, acc)
                    else:
                        T.gemm(p, c, acc)
            T.copy(acc, Out)

    return main


def chain_case(n: int, same=False, rows=128, **options) -> Case:
    a, b, c = small(rows, 64), small(384, 64), small(384, 64)
    want = torch.zeros(rows, 64)
    for j in range(n):
        block = slice(j * 64, j * 64 + 64)
        want += (a.float() @ b[block].float().T).clamp(min=0) @ (b if same else c)[block].float()
    return Case(chain(same=same, rows=rows, **options), (a, b, c, poison(rows, 64), n), {3: want})
