"""Copies, fills and loops of which every thread does its own: on memory that differs by thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from conformance.running import equal, integers, poison, run

import tilelang.language as T

THREADS, BLOCKS, WIDTH = 96, 3, 5
ROWS = THREADS * BLOCKS - 7


def rows_through(move: Callable[..., None], keeps: Any = None) -> Any:
    """B = 3 * A for the rows that ``keeps`` selects: ``move`` handles the row of a thread."""

    @T.prim_func
    def kernel(A: T.Tensor((ROWS, WIDTH), "int32"), B: T.Tensor((ROWS, WIDTH), "int32")):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            t = T.get_thread_binding()
            row = T.alloc_local((WIDTH,), "int32")
            tile = T.alloc_shared((THREADS, WIDTH), "int32")
            i = bx * THREADS + t
            if i < ROWS and (keeps is None or keeps(A, i)):
                move(A, B, i, t, row, tile)

    return kernel


@T.macro
def triple(row):
    for j in T.serial(WIDTH):
        row[j] = row[j] * 3


@T.macro
def to_a_tensor(A, B, i, t, row, tile):
    T.copy(A[i, :], row)
    triple(row)
    T.copy(row, B[i, :])


@T.macro
def from_a_corner(A, B, i, t, row, tile):
    T.copy(A[i, 0], row)
    triple(row)
    T.copy(row, B[i, 0])


@T.macro
def through_shared_memory(A, B, i, t, row, tile):
    T.copy(A[i, :], row)
    triple(row)
    T.copy(row, tile[t, :])
    T.clear(row)
    T.copy(tile[t, :], row)
    T.copy(row, B[i, :])


@T.macro
def between_memories(A, B, i, t, row, tile):
    T.copy(A[i, :], tile[t, :])
    T.copy(tile[t, :], row)
    triple(row)
    T.copy(row, tile[t, :])
    T.copy(tile[t, :], B[i, :])


@T.macro
def in_parts(A, B, i, t, row, tile):
    T.copy(A[i, :], row)
    triple(row)
    T.copy(row[0:2], B[i, 0:2])
    T.copy(row[2:WIDTH], B[i, 2:WIDTH])


@T.macro
def by_a_parallel_loop(A, B, i, t, row, tile):
    for j in T.Parallel(WIDTH):
        row[j] = A[i, j] * 3
    for j in T.Parallel(WIDTH):
        B[i, j] = row[j]


MOVES = {
    "to a tensor": to_a_tensor,
    "from a corner": from_a_corner,
    "through shared memory": through_shared_memory,
    "between memories": between_memories,
    "in parts": in_parts,
    "by a parallel loop": by_a_parallel_loop,
}


@pytest.mark.parametrize("move", MOVES)
def test_each_thread_moves_its_row(target: str, move: str) -> None:
    a = integers(ROWS, WIDTH)
    equal(run(rows_through(MOVES[move]), target, a, poison(ROWS, WIDTH, dtype="int32")), a * 3)


KEEPS = {
    "every_third": (lambda A, i: i % 3 == 1, lambda a: torch.arange(ROWS) % 3 == 1),
    "by_value": (lambda A, i: A[i, 0] > 4, lambda a: a[:, 0] > 4),
    "one": (lambda A, i: i == 77, lambda a: torch.arange(ROWS) == 77),
}


@pytest.mark.parametrize("keeps", KEEPS)
@pytest.mark.parametrize("move", MOVES)
def test_some_threads_move_theirs(target: str, move: str, keeps: str) -> None:
    in_kernel, expected = KEEPS[keeps]
    a, b = integers(ROWS, WIDTH), poison(ROWS, WIDTH, dtype="int32")
    wanted = torch.where(expected(a)[:, None], a * 3, b)
    equal(run(rows_through(MOVES[move], in_kernel), target, a, b.clone()), wanted)


def test_after_a_return(target: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((ROWS, WIDTH), "float32"), B: T.Tensor((ROWS, WIDTH), "float32")):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            i = bx * THREADS + T.get_thread_binding()
            if i >= ROWS:
                T.thread_return()
            row = T.alloc_local((WIDTH,), "float32")
            T.copy(A[i, :], row)
            T.copy(row, B[ROWS - 1 - i, :])

    a = torch.randn(ROWS, WIDTH)
    equal(run(kernel, target, a, poison(ROWS, WIDTH)), a.flip(0))


def test_one_thread_stores_to_a_row_that_all_know(target: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2, 64, WIDTH), "float32"), B: T.Tensor((2, WIDTH), "float32")):
        with T.Kernel(2, threads=64) as bx:
            t = T.get_thread_binding()
            row = T.alloc_local((WIDTH,), "float32")
            T.copy(A[bx, t, :], row)
            if t == 41 + bx:
                T.copy(row, B[bx, :])

    a = torch.randn(2, 64, WIDTH)
    expected = torch.stack([a[0, 41], a[1, 42]])
    equal(run(kernel, target, a, poison(2, WIDTH)), expected)


def test_fills(target: str) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((ROWS, WIDTH), "int32"), C: T.Tensor((THREADS, WIDTH), "int32")):
        with T.Kernel(1, threads=THREADS):
            t = T.get_thread_binding()
            tile = T.alloc_shared((THREADS, WIDTH), "int32")
            T.fill(tile[t, :], t)
            T.clear(tile[t, 1:3])
            T.fill(B[t * 2, :], 7)
            T.sync_threads()
            T.copy(tile, C)

    b, c = poison(ROWS, WIDTH, dtype="int32"), poison(THREADS, WIDTH, dtype="int32")
    expected = b.clone()
    expected[0 : 2 * THREADS : 2] = 7
    numbers = torch.arange(THREADS, dtype=torch.int32)[:, None].repeat(1, WIDTH)
    numbers[:, 1:3] = 0
    equal(run(kernel, target, b, c), numbers)
    equal(b, expected)


def test_each_thread_adds_its_counts(target: str) -> None:
    """Counts of each thread, added to those of the block and of all blocks."""

    @T.prim_func
    def kernel(
        A: T.Tensor((BLOCKS, THREADS), "int32"),
        Copied: T.Tensor((WIDTH,), "int32"),
        Looped: T.Tensor((WIDTH,), "int32"),
    ):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            t = T.get_thread_binding()
            counts = T.alloc_local((WIDTH,), "int32")
            T.clear(counts)
            counts[A[bx, t]] += 1 + t
            T.atomic_add(Copied, counts)
            for j in T.Parallel(WIDTH):
                T.atomic_add(Looped[j], counts[j])

    a = integers(BLOCKS, THREADS, low=0, high=WIDTH)
    copied, looped = torch.zeros(2, WIDTH, dtype=torch.int32)
    expected = torch.zeros(WIDTH, dtype=torch.int64)
    weights = torch.arange(1, THREADS + 1).repeat(BLOCKS)
    expected.index_add_(0, a.flatten().long(), weights)
    equal(run(kernel, target, a, copied, looped), expected)
    equal(copied, expected)


def test_rows_of_warps(target: str) -> None:
    """All threads of a warp name the row of their warp; they all write the same there."""

    @T.prim_func
    def kernel(A: T.Tensor((3, 40), "float32"), B: T.Tensor((3, 40), "float32")):
        with T.Kernel(1, threads=96):
            warp = T.get_thread_binding() // 32
            row = T.alloc_local((40,), "float32")
            T.copy(A[warp, :], row)
            if T.get_thread_binding() % 32 == 0:
                T.copy(row, B[2 - warp, :])

    a = torch.randn(3, 40)
    equal(run(kernel, target, a, poison(3, 40)), a.flip(0))
