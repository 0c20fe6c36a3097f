"""T.assume_disjoint: stores by TMA to rows that the compiler cannot know to be apart."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.emulator import EmulatorError

ROWS, COLUMNS, TURNS = 32, 64, 6


def scattered(promise: bool, loop=T.serial, known: bool = False):
    """Copies tiles to places that a table gives, or in order where they are ``known``."""

    @T.prim_func
    def main(
        X: T.Tensor((ROWS * TURNS, COLUMNS), "float16"),
        table: T.Tensor((TURNS,), "int32"),
        Y: T.Tensor((ROWS * TURNS, COLUMNS), "float16"),
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((ROWS, COLUMNS), "float16")
            for i in loop(TURNS):
                if promise:
                    T.assume_disjoint(Y, i)
                T.copy(X[i * ROWS, 0], tile)
                T.copy(tile, Y[(i if known else T.clamp(table[i], 0, TURNS - 1)) * ROWS, 0])

    return tilelang.compile(main, target="sm_90a")


def waits(kernel) -> set[str]:
    return set(re.findall(r"tma_store_wait(?:_read)?<\d>", kernel.get_kernel_source()))


def told(kernel) -> list[str]:
    return [r.message for r in kernel.remarks if "assume_disjoint" in r.message]


def run(kernel, table: torch.Tensor) -> None:
    x = torch.randn(ROWS * TURNS, COLUMNS).half()
    y = torch.full_like(x, float("nan"))
    kernel(x, table.int(), y)
    places = y.view(TURNS, ROWS, COLUMNS)[table]
    assert torch.equal(places, x.view(TURNS, ROWS, COLUMNS))


@pytest.mark.every_schedule
@pytest.mark.parametrize("loop", [T.serial, lambda n: T.Pipelined(n, num_stages=2)])
def test_a_promise_that_is_kept(loop):
    assert waits(scattered(False, loop)) == {"tma_store_wait<0>"}
    kernel = scattered(True, loop)
    assert waits(kernel) == {"tma_store_wait_read<0>"}
    assert not told(kernel)
    run(kernel, torch.randperm(TURNS))


@pytest.mark.parametrize("spelling", ["max", "assumed", "named"])
def test_rows_of_a_table_that_is_only_not_negative(spelling):
    @T.prim_func
    def main(
        X: T.Tensor((ROWS * TURNS, COLUMNS), "float16"),
        table: T.Tensor((TURNS,), "int32"),
        Y: T.Tensor((ROWS * TURNS, COLUMNS), "float16"),
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((ROWS, COLUMNS), "float16")
            for i in T.serial(TURNS):
                T.assume_disjoint(Y, i)
                T.copy(X[i * ROWS, 0], tile)
                if spelling == "max":
                    T.copy(tile, Y[T.max(table[i], 0) * ROWS, 0])
                elif spelling == "assumed":
                    T.assume(table[i] >= 0)
                    T.copy(tile, Y[table[i] * ROWS, 0])
                else:
                    row = table[i]
                    T.assume(row >= 0)
                    T.copy(tile, Y[row * ROWS, 0])

    kernel = tilelang.compile(main, target="sm_90a")
    assert waits(kernel) == {"tma_store_wait_read<0>"} and not told(kernel)
    for _ in range(5):
        run(kernel, torch.randperm(TURNS))
    for first in range(TURNS - 1):
        for other in range(first + 1, TURNS):
            broken = torch.randperm(TURNS)
            broken[first] = broken[other]
            with pytest.raises(EmulatorError, match="conflicts with the write"):
                run(kernel, broken)


@pytest.mark.every_schedule
def test_rows_of_a_table_that_a_branch_tests():
    @T.prim_func
    def main(
        X: T.Tensor((ROWS * TURNS, COLUMNS), "float16"),
        table: T.Tensor((TURNS,), "int32"),
        Y: T.Tensor((ROWS * TURNS, COLUMNS), "float16"),
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((ROWS, COLUMNS), "float16")
            for i in T.serial(TURNS):
                T.assume_disjoint(Y, i)
                T.copy(X[i * ROWS, 0], tile)
                if table[i] >= 0:
                    T.copy(tile, Y[table[i] * ROWS, 0])

    kernel = tilelang.compile(main, target="sm_90a")
    assert waits(kernel) == {"tma_store_wait_read<0>"} and not told(kernel)
    table = torch.tensor([4, -1, 0, 5, -1, 2])
    x = torch.randn(ROWS * TURNS, COLUMNS).half()
    y = torch.full_like(x, float("nan"))
    kernel(x, table.int(), y)
    kept = table >= 0
    stored, given = (each.view(TURNS, ROWS, COLUMNS) for each in (y, x))
    assert torch.equal(stored[table[kept]], given[kept])
    assert stored[[1, 3]].isnan().all()


def test_what_is_assumed_of_a_tensor_that_the_kernel_writes_is_forgotten():
    @T.prim_func
    def main(
        X: T.Tensor((ROWS * TURNS, COLUMNS), "float16"),
        table: T.Tensor((TURNS,), "int32"),
        Y: T.Tensor((ROWS * TURNS, COLUMNS), "float16"),
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((ROWS, COLUMNS), "float16")
            for i in T.serial(TURNS):
                T.assume_disjoint(Y, i)
                T.assume(table[i] >= 0)
                table[i] = table[i] - 1
                T.copy(X[i * ROWS, 0], tile)
                T.copy(tile, Y[table[i] * ROWS, 0])

    assert not waits(tilelang.compile(main, target="sm_90a"))


def test_a_remark_says_why_a_store_must_have_been_written():
    (said,) = [
        r.message for r in scattered(False).remarks if "TMA has written the tensor" in r.message
    ]
    assert "iterations of the loop over i may store to the same elements of Y" in said
    assert "T.assume_disjoint(Y, i) promises" in said
    for kernel in (scattered(True), scattered(False, known=True)):
        assert not [r for r in kernel.remarks if "TMA has written the tensor" in r.message]


def test_a_broken_promise_is_found():
    with pytest.raises(EmulatorError, match="conflicts with the write") as found:
        run(scattered(True), torch.tensor([0, 1, 2, 2, 4, 5]))
    assert "T.copy(tile, Y[" in str(found.value)


def test_a_promise_without_effect_leaves_a_remark():
    kernel = scattered(True, known=True)
    assert waits(kernel) == {"tma_store_wait_read<0>"}
    (message,) = told(kernel)
    assert message.startswith("T.assume_disjoint of Y has no effect")


def test_tiles_of_persistent_blocks():
    @T.prim_func
    def main(m: T.int32, X: T.Tensor((128, 64), "float16"), Y: T.Tensor((128, 64), "float16")):
        with T.Kernel(2, threads=128) as block:
            tile = T.alloc_shared((32, 32), "float16")
            for by, bx in T.Persistent((T.min(T.max(m, 1), 4), 2), 2, block):
                T.assume_disjoint(Y, by)
                T.copy(X[by * 32, bx * 32], tile)
                T.copy(tile, Y[by * 32, bx * 32])

    kernel = tilelang.compile(main, target="sm_90a")
    assert waits(kernel) == {"tma_store_wait_read<0>"}
    x = torch.randn(128, 64).half()
    y = torch.zeros_like(x)
    kernel(4, x, y)
    assert torch.equal(y, x)


def ragged(promise: bool, blocks: int = 1, beside: str = "else", uniform: bool = True):
    """Tiles that end at rows of a table: whole ones are stored by TMA, others by threads."""

    @T.macro
    def by_threads(tile, Y, first, end):
        for r, c in T.Parallel(ROWS, COLUMNS):
            if first + r < end:
                Y[first + r, c] = tile[r, c]

    @T.prim_func
    def main(
        X: T.Tensor((ROWS * TURNS, COLUMNS), "float16"),
        table: T.Tensor((TURNS + 1,), "int32"),
        Y: T.Tensor((ROWS * TURNS, COLUMNS), "float16"),
    ):
        with T.Kernel(blocks, threads=128) as block:
            tile = T.alloc_shared((ROWS, COLUMNS), "float16")
            for i in T.serial(TURNS // blocks):
                if promise:
                    T.assume_disjoint(Y, i)
                place = i * blocks + block
                first, end = T.max(table[place], 0), table[place + 1]
                T.copy(X[first, 0], tile)
                whole = end - first >= ROWS if uniform else T.get_thread_binding() < 64
                if whole:
                    T.copy(tile, Y[first, 0])
                    if beside == "then":
                        by_threads(tile, Y, first, end)
                else:
                    by_threads(tile, Y, first, end)

    return tilelang.compile(main, target="sm_90a")


def stores(kernel) -> int:
    return kernel.get_kernel_source().count("tma_store(")


@pytest.mark.every_schedule
@pytest.mark.parametrize("blocks", [1, 2, TURNS])
def test_threads_store_in_the_other_branch(blocks):
    kernel = ragged(True, blocks)
    assert stores(kernel) == 1
    assert not told(kernel)
    ends = torch.tensor([0, 32, 37, 69, 101, 120, 152]).int()
    x = torch.randn(ROWS * TURNS, COLUMNS).half()
    y = torch.full_like(x, float("nan"))
    kernel(x, ends, y)
    assert torch.equal(y[:152], x[:152])
    assert y[152:].isnan().all()


def why(kernel) -> str:
    return next(r.message for r in kernel.remarks if "tile, Y[" in r.message)


def test_stores_of_threads_that_are_not_known_to_be_apart():
    kernel = ragged(False)
    assert stores(kernel) == 0
    assert "threads also write Y in other turns of a loop; T.assume_disjoint says" in why(kernel)
    for options in ({"beside": "then"}, {"uniform": False}):
        kernel = ragged(True, **options)
        assert stores(kernel) == 0
        assert why(kernel).endswith("threads also write Y")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("tile", "takes a tensor in global memory"),
        ("outside", "takes the variable of an enclosing"),
        ("number", "takes the variable of an enclosing"),
        ("parallel", "takes the variable of an enclosing"),
    ],
)
def test_wrong_promises(what, message):
    def trace():
        @T.prim_func
        def main(Y: T.Tensor((64, 64), "float16")):
            with T.Kernel(2, threads=128) as block:
                tile = T.alloc_shared((64, 64), "float16")
                for i in T.serial(4):
                    if what == "parallel":
                        for j in T.Parallel(64):
                            T.assume_disjoint(Y, j)
                            Y[i, j] = 0
                    else:
                        index = {"outside": block, "number": 3}.get(what, i)
                        T.assume_disjoint(tile if what == "tile" else Y, index)

        return main

    with pytest.raises(errors.ScopeError, match=message):
        trace()
