"""Kernels whose gemms pairs of blocks compute, each block with its rows of A and half of B."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sm100_kernels import ACCUMULATOR

import tilelang.language as T


@T.macro
def operand_of(a, memory):
    """The tile in the memory that a PairGemm says."""
    shape, dtype = a.shape, a.dtype
    if memory == "s":
        return a
    if memory == "w":
        written = T.alloc_shared(shape, dtype)
        for x, y in T.Parallel(*shape):
            written[x, y] = a[x, y]
        return written
    fragment = T.alloc_fragment(shape, dtype)
    T.copy(a, fragment)
    if memory == "f":
        return fragment
    tmem = T.alloc_tmem(shape, dtype)
    T.copy(fragment, tmem)
    return tmem


@dataclass(frozen=True)
class PairGemm:
    """C (m, n) = A @ B in tiles; A lies in shared memory ("s"; "w": written there by threads), a
    fragment ("f") or tensor memory ("t"), C in a fragment or tensor memory."""

    m: int
    n: int
    k: int
    tile: tuple[int, int, int] = (128, 128, 64)  # of a block
    a: str = "s"
    c: str = "f"
    dtype: str = "bfloat16"
    trans_a: bool = False
    trans_b: bool = True
    stages: int = 0
    threads: int = 128
    size: int = 2  # of the clusters
    read: bool = False  # threads read the tiles of A, too
    clear: bool = True  # by T.clear, else by clear_accum

    @property
    def c_type(self) -> str:
        return ACCUMULATOR.get(self.dtype, "float32")

    @property
    def shapes(self):
        a = (self.k, self.m) if self.trans_a else (self.m, self.k)
        b = (self.n, self.k) if self.trans_b else (self.k, self.n)
        return a, b, (self.m, self.n)

    def build(self):
        m, n, k = self.tile
        size, in_type, out_type, read, clear = (
            self.size,
            self.dtype,
            self.c_type,
            self.read,
            self.clear,
        )
        trans_a, trans_b, memory = self.trans_a, self.trans_b, self.a
        alloc_c = T.alloc_fragment if self.c == "f" else T.alloc_tmem
        shapes, threads, stages = self.shapes, self.threads, self.stages
        rows = (self.m + m * size - 1) // (m * size) * size

        @T.prim_func
        def main(
            A: T.Tensor(shapes[0], in_type),
            B: T.Tensor(shapes[1], in_type),
            C: T.Tensor(shapes[2], out_type),
            Read: T.Tensor((self.m if read else 1, self.k if read else 1), in_type),
        ):
            grid = rows, T.ceildiv(self.n, n)
            with T.Kernel(*grid, threads=threads, cluster_dims=size) as (by, bx):
                a = T.alloc_shared((k, m) if trans_a else (m, k), in_type)
                b = T.alloc_shared((n // 2, k) if trans_b else (k, n // 2), in_type)
                c = alloc_c((m, n), out_type)
                row = by * m
                column = bx * n + T.block_rank_in_cluster() % 2 * (n // 2)
                if clear:
                    T.clear(c)
                for i in T.Pipelined(T.ceildiv(self.k, k), num_stages=stages):
                    if trans_a:
                        T.copy(A[i * k, row], a)
                    else:
                        T.copy(A[row, i * k], a)
                    if trans_b:
                        T.copy(B[column, i * k], b)
                    else:
                        T.copy(B[i * k, column], b)
                    operand = operand_of(a, memory)
                    first = False if clear else i == 0
                    T.gemm(
                        operand, b, c, transpose_A=trans_a, transpose_B=trans_b,
                        clear_accum=first, use_2cta=True,
                    )  # fmt: skip
                    if read:
                        T.copy(a, Read[row, i * k])
                result = c
                if self.c != "f":
                    result = T.alloc_fragment((m, n), out_type)
                    T.copy(c, result)
                T.copy(result, C[row, bx * n])

        return main


def persistent(M, N, K, tile=(128, 128, 64), pairs=2, stages=3, threads=128):
    """The pairs take tile after tile; the result of one is stored while the next is computed."""
    m, n, k = tile
    tiles = T.ceildiv(M, 2 * m), T.ceildiv(N, n)

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N))):
        with T.Kernel(2 * pairs, threads=threads, cluster_dims=2) as block:
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((n // 2, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            rank = T.block_rank_in_cluster()
            for by, bx in T.Persistent(tiles, pairs, block // 2):
                T.clear(c)
                for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                    T.copy(A[by * 2 * m + rank * m, i * k], a)
                    T.copy(B[bx * n + rank * (n // 2), i * k], b)
                    T.gemm(a, b, c, transpose_B=True, use_2cta=True)
                T.copy(c, C[by * 2 * m + rank * m, bx * n])

    return main


def chained(M, L, D, keys=128, stages=2, threads=128):
    """Out (M, D) = relu(Q (M, D) @ K (L, D)^T) @ V (L, D): both gemms by pairs; the first result
    goes to the second one in tensor memory."""

    @T.prim_func
    def main(
        Q: T.Tensor((M, D), "bfloat16"),
        K: T.Tensor((L, D), "bfloat16"),
        V: T.Tensor((L, D), "bfloat16"),
        Out: T.Tensor((M, D), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, 256) * 2, threads=threads, cluster_dims=2) as block:
            q = T.alloc_shared((128, D), "bfloat16")
            k = T.alloc_shared((keys // 2, D), "bfloat16")
            v = T.alloc_shared((keys, D // 2), "bfloat16")
            s = T.alloc_fragment((128, keys), "float32")
            p = T.alloc_fragment((128, keys), "bfloat16")
            o = T.alloc_fragment((128, D), "float32")
            rank = T.block_rank_in_cluster()
            T.copy(Q[block * 128, 0], q)
            T.clear(o)
            for i in T.Pipelined(T.ceildiv(L, keys), num_stages=stages):
                T.copy(K[i * keys + rank * (keys // 2), 0], k)
                T.copy(V[i * keys, rank * (D // 2)], v)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True, use_2cta=True)
                for x, y in T.Parallel(128, keys):
                    p[x, y] = T.max(s[x, y], 0)
                T.gemm(p, v, o, use_2cta=True)
            T.copy(o, Out[block * 128, 0])

    return main


def shared_rows(K, stages):
    """A cluster of four: its pairs compute columns of their own of 256 rows; the even blocks share
    the tile of A."""

    @T.prim_func
    def main(
        A: T.Tensor((256, K), "float16"),
        B: T.Tensor((128, K), "float16"),
        C: T.Tensor((256, 128), "float32"),
    ):
        with T.Kernel(4, threads=128, cluster_dims=4) as block:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            row = block % 2 * 128
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(K, 64), num_stages=stages):
                T.copy_cluster(A[row, i * 64], a, cluster_mask=0b0101)
                T.copy(B[block * 32, i * 64], b)
                T.gemm(a, b, c, transpose_B=True, use_2cta=True)
            T.copy(c, C[row, block // 2 * 64])

    return main


def values(shape, dtype: str) -> torch.Tensor:
    """Small integers, whose products and sums are exact."""
    return torch.randint(-3, 4, shape).to(getattr(torch, dtype))
