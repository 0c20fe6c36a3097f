"""Prints what kernels become, after filling the heap in a way that ``sys.argv[1]`` seeds.

Run by ``test_same_text.py`` in processes of their own: addresses and hashes differ in each.
"""

from __future__ import annotations

import random
import sys

import tilelang
import tilelang.language as T
from tilelang.layout import Layout
from tilelang.transform import pipeline, run_pass


def many_buffers():
    """Shared tiles of several layouts, fragments with one name, tensor memory, roles, barriers."""

    @T.prim_func
    def many_buffers(
        A: T.Tensor((128, 256), "float16"),
        B: T.Tensor((256, 64), "float16"),
        C: T.Tensor((128, 64), "float32"),
        D: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=256):
            tiles = [T.alloc_shared((128, 64), "float16") for _ in range(2)]
            b = T.alloc_shared((2, 64, 64), "float16")
            square = T.alloc_shared((64, 64), "float32")
            bars = T.alloc_barrier([128, 128])
            c = T.alloc_fragment((128, 64), "float32")
            for k in T.serial(2):
                for n, a in enumerate(tiles):
                    T.copy(A[0, k * 128 + n * 64], a)
                    T.copy(B[k * 128 + n * 64, 0], b[n, :, :])
                for n, a in enumerate(tiles):
                    T.gemm(a, b[n, :, :], c, clear_accum=(k == 0) if n == 0 else False)
            T.copy(c, C)
            for role in (0, 1):
                with T.ws(role):
                    f = T.alloc_fragment((64, 64), "float32")
                    for i, j in T.Parallel(64, 64):
                        f[i, j] = C[role * 64 + j, i]
                    if role == 0:
                        T.copy(f, square)
                    T.barrier_arrive(bars[role])
                    for i, j in T.Parallel(64, 64):
                        D[role * 64 + i, j] = f[i, j]

    return many_buffers


def vectors():
    @T.prim_func
    def vectors(X: T.Tensor((8, 256), "float32"), Y: T.Tensor((8, 256), "float32")):
        with T.Kernel(1, threads=128):
            parts = [T.alloc_shared((8, 64), "float32") for _ in range(4)]
            sums = [T.alloc_fragment((8,), "float32") for _ in range(4)]
            for n, tile in enumerate(parts):
                T.copy(X[0, n * 64], tile)
            for tile, total in zip(reversed(parts), sums, strict=True):
                part = T.alloc_fragment((8, 64), "float32")
                T.copy(tile, part)
                T.reduce_sum(part, total, dim=1)
            for i, j in T.Parallel(8, 256):
                Y[i, j] = parts[0][i, j % 64] + sums[0][i] + sums[1][i] + sums[2][i] + sums[3][i]

    return vectors


def main() -> None:
    rng = random.Random(sys.argv[1])
    noise = [Layout((1 + i % 7,)) for i in range(rng.randrange(1, 20_000))]
    rng.shuffle(noise)
    del noise[rng.randrange(len(noise)) :]
    for kernel in (many_buffers, vectors):
        func = kernel()
        for name in pipeline():
            func = run_pass(name, func)
            print(f"== {name}\n{func}")
        print(tilelang.lower(kernel(), target="sm_100a").kernel_source)


if __name__ == "__main__":
    main()
