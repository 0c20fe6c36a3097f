"""Pipelined loops, for mutations of their PTX: rings, gemms in flight, stores that are deferred.

Loops run as often as an argument says, so that the assembler unrolls none: the first uses of a
slot, which wait for nobody, have no instruction of their own.
"""

from __future__ import annotations

import torch

import tilelang.language as T


def staged_gemm(stages: int = 2, loads: int = 1):
    """C (384, 64) = A (384, 160) B^T, B (64, 160); results leave by TMA while loads run ahead.

    So many ``loads`` bring the rows of each operand: on sm_100a two warps share four or more.
    """
    m, n, k = 128, 64, 32

    @T.prim_func
    def main(
        A: T.Tensor((384, 160), "bfloat16"),
        B: T.Tensor((64, 160), "bfloat16"),
        C: T.Tensor((384, 64), "bfloat16"),
        tiles: T.int32,
        steps: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((m, k), "bfloat16")
            b = T.alloc_shared((n, k), "bfloat16")
            c = T.alloc_fragment((m, n), "float32")
            out = T.alloc_shared((m, n), "bfloat16")
            for t in T.serial(tiles):
                T.clear(c)
                for i in T.Pipelined(steps, num_stages=stages):
                    for part in tuple(range(loads)):
                        rows, columns = m // loads, n // loads
                        first, left = part * rows, part * columns
                        T.copy(A[t * m + first, i * k], a[first : first + rows, :])
                        T.copy(B[left, i * k], b[left : left + columns, :])
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, out)
                T.copy(out, C[t * m, 0])

    return main


def gemm_arguments() -> tuple[torch.Tensor | int, ...]:
    """Of ``staged_gemm``."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(rows, 160, generator=generator).bfloat16() for rows in (384, 64))
    return a, b, torch.zeros(384, 64).bfloat16(), 3, 5


def chain(rows=256, keys=64, width=64, threads=256, rescale=True, depth=64, by_threads=False):
    """Out (rows, width) = sum over n blocks of relu(A B_j^T) C_j, the sum halved before each block
    if ``rescale``. A is (rows, depth); B and C have 6 blocks of ``keys`` rows. ``by_threads``:
    each thread stores its part of A to shared memory."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "float16"),
        B: T.Tensor((6 * keys, depth), "float16"),
        C: T.Tensor((6 * keys, width), "float16"),
        Out: T.Tensor((rows, width), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((rows, depth), "float16")
            b = T.alloc_shared((keys, depth), "float16")
            c = T.alloc_shared((keys, width), "float16")
            s = T.alloc_fragment((rows, keys), "float32")
            p = T.alloc_fragment((rows, keys), "float16")
            acc = T.alloc_fragment((rows, width), "float32")
            if by_threads:
                for r, q in T.Parallel(rows, depth):
                    a[r, q] = A[r, q]
            else:
                T.copy(A, a)
            T.clear(acc)
            for j in T.Pipelined(n, num_stages=2):
                T.copy(B[j * keys, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                for r, q in T.Parallel(rows, keys):
                    p[r, q] = T.max(s[r, q], 0)
                if rescale:
                    for r, q in T.Parallel(rows, width):
                        acc[r, q] *= 0.5
                T.copy(C[j * keys, 0], c)
                T.gemm(p, c, acc)
            T.copy(acc, Out)

    return main


def chain_arguments(
    rows=256, keys=64, width=64, depth=64, count=4
) -> tuple[torch.Tensor | int, ...]:
    """Of ``chain``."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((rows, depth), (6 * keys, depth), (6 * keys, width))
    a, b, c = (torch.randn(*shape, generator=generator).half() for shape in shapes)
    return a, b, c, torch.zeros(rows, width), count
