"""Tiles that T.async_copy fills ahead: a barrier before the wait for a group orders nothing."""

from __future__ import annotations

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang.language as T

ROWS, K = 16, 64


@pytest.mark.every_schedule
@pytest.mark.parametrize("first", [0, 1, 2])
def test_pairs_of_tiles(first: int, target: str) -> None:
    """Two slots of three tiles; the number of chunks is known at run time.

    The barrier after the wait is that of the tile which is read first, whichever it is.
    """
    total = 10 * ROWS

    @T.prim_func
    def main(
        A: T.Tensor((3, total, K), "float16"),
        B: T.Tensor((K, K), "float16"),
        C: T.Tensor((total, K), "float32"),
        rows: T.int32,
    ):
        with T.Kernel(1, threads=64):
            tiles = [T.alloc_shared((2, ROWS, K), "float16") for _ in range(3)]
            operand = T.alloc_shared((K, K), "float16")
            product = T.alloc_fragment((ROWS, K), "float32")
            T.copy(B, operand)
            for tile, n in zip(tiles, range(3), strict=True):
                T.copy(A[n, 0:ROWS, :], tile[0, :, :])
            for i in T.serial(T.ceildiv(rows, ROWS)):
                T.sync_threads()
                if (i + 1) * ROWS < rows:
                    after = (i + 1) * ROWS
                    for tile, n in zip(tiles, range(3), strict=True):
                        T.async_copy(A[n, after : after + ROWS, :], tile[(i + 1) % 2, :, :])
                    T.ptx_wait_group(3)
                else:
                    T.ptx_wait_group(0)
                T.clear(product)
                for tile in tiles[first:] + tiles[:first]:
                    T.gemm(tile[i % 2, :, :], operand, product)
                T.copy(product, C[i * ROWS, 0])

    for rows in (total, 3 * ROWS, ROWS):
        a, b = normal(3, total, K, dtype="float16"), normal(K, K, dtype="float16")
        c = run(main, target, a, b, torch.zeros(total, K), rows)
        expected = (a.double() @ b.double()).sum(0)
        expected[rows:] = 0
        close(c, expected)


@pytest.mark.every_schedule
@pytest.mark.parametrize("ahead", [1, 4, 9])
def test_rings(ahead: int, target: str) -> None:
    """A group is in flight for each tile ahead; a barrier stands between copy and wait."""
    chunks = 12

    @T.prim_func
    def main(A: T.Tensor((chunks, 32, 8), "int32"), B: T.Tensor((chunks, 8, 32), "int32")):
        with T.Kernel(1, threads=64):
            ring = T.alloc_shared((ahead + 1, 32, 8), "int32")
            other = T.alloc_shared((64,), "int32")
            turned = T.alloc_shared((64,), "int32")
            for k in T.serial(ahead):
                T.async_copy(A[k, :, :], ring[k, :, :])
            for k in T.serial(chunks):
                if k + ahead < chunks:
                    T.async_copy(A[k + ahead, :, :], ring[(k + ahead) % (ahead + 1), :, :])
                else:
                    T.ptx_commit_group()
                for i in T.Parallel(64):
                    other[i] = i + k
                for i in T.Parallel(64):
                    turned[i] = other[63 - i] - 63
                T.ptx_wait_group(ahead)
                for i, j in T.Parallel(8, 32):
                    B[k, i, j] = ring[k % (ahead + 1), j, i] + turned[j]
                T.sync_threads()

    a = integers(chunks, 32, 8)
    b = run(main, target, a, poison(chunks, 8, 32, dtype="int32"))
    shift = torch.arange(chunks)[:, None, None] - torch.arange(32)
    equal(b, a.transpose(1, 2) + shift)
