"""Threads see every phase of the compiler's mbarriers, whenever asynchronous operations act."""

from __future__ import annotations

import re

import pytest
import torch
from tma_cases import TARGETS, assert_same, compiled, poisoned, random_bits

import tilelang
import tilelang.language as T
from tilelang import errors

pytestmark = pytest.mark.every_schedule

#: Serial loops load nothing ahead.
AS_WRITTEN = {"tl.disable_load_early": True}


def barriers(kernel) -> list[str]:
    """The barriers that threads meet at, in the order of the source, after the set-up."""
    found = re.findall(
        r"(__syncthreads\(\)|sync_threads\(\d+, \d+\)|__syncwarp\(\))", kernel.get_kernel_source()
    )
    return [name.removeprefix("tl::") for name in found][1:]


@pytest.mark.parametrize("target", TARGETS)
def test_loads_apart_have_barriers_of_their_own(target: str) -> None:
    """Nobody waits between two loads: the second completes on a barrier of its own."""

    @T.prim_func
    def func(
        X: T.Tensor((64, 32), "float32"),
        Y: T.Tensor((64, 32), "float32"),
        Z: T.Tensor((64, 32), "float32"),
    ):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64, 32), "float32")
            y = T.alloc_shared((64, 32), "float32")
            total = T.alloc_fragment((64, 32), "float32")
            T.copy(X, x)
            T.clear(total)
            T.copy(Y, y)
            for i, j in T.Parallel(64, 32):
                total[i, j] += x[i, j] - 2.0 * y[i, j]
            T.copy(total, Z)

    kernel = compiled(func, target, loads=2, **{"tl.disable_block_fitting": True})
    assert barriers(kernel) == []
    x, y = random_bits((64, 32), "float32"), random_bits((64, 32), "float32", seed=1)
    result = poisoned((64, 32), "float32")
    kernel(x, y, result)
    assert_same(result, x - 2 * y)


def through_shared(loop_threads: tuple[int, int] | None, threads: int):
    """Tiles pass through shared memory without any thread touching them."""

    @T.prim_func
    def func(A: T.Tensor((7 * 32, 64), "float32"), B: T.Tensor((7 * 32, 64), "float32")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_shared((32, 64), "float32")
            if loop_threads is None:
                for step in T.serial(7):
                    T.copy(A[step * 32, 0], tile)
                    T.copy(tile, B[step * 32, 0])
            else:
                tid = T.get_thread_binding()
                if tid >= loop_threads[0] and tid < loop_threads[1]:
                    for step in T.serial(7):
                        T.copy(A[step * 32, 0], tile)
                        T.copy(tile, B[step * 32, 0])

    return func


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("loop_threads", "threads", "expected"),
    [
        (None, 128, "__syncthreads()"),
        ((0, 64), 128, "sync_threads(15, 64)"),
        ((64, 128), 128, "sync_threads(15, 64)"),
        ((96, 256), 256, "sync_threads(15, 160)"),
        ((96, 128), 256, "__syncwarp()"),
    ],
)
def test_a_loop_has_a_barrier_between_its_phases(target, loop_threads, threads, expected) -> None:
    kernel = compiled(
        through_shared(loop_threads, threads), target, loads=1, stores=1, **AS_WRITTEN
    )
    assert barriers(kernel) == [expected]
    source, result = random_bits((7 * 32, 64), "float32"), poisoned((7 * 32, 64), "float32")
    kernel(source, result)
    assert_same(result, source)


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_that_has_a_barrier_gets_no_other(target: str) -> None:
    @T.prim_func
    def func(A: T.Tensor((7 * 32, 64), "float32"), B: T.Tensor((7 * 32, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 64), "float32")
            for step in T.serial(7):
                T.copy(A[step * 32, 0], tile)
                for i, j in T.Parallel(32, 64):
                    B[step * 32 + i, j] = tile[31 - i, j]

    kernel = compiled(func, target, loads=1, **AS_WRITTEN)
    assert barriers(kernel) == ["__syncthreads()"]
    source, result = random_bits((7 * 32, 64), "float32"), poisoned((7 * 32, 64), "float32")
    kernel(source, result)
    assert_same(result, source.view(7, 32, 64).flip(1).reshape(224, 64))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("leave", ["break", "continue"])
def test_iterations_that_end_early(target: str, leave: str) -> None:
    """The barrier of the phase is reached by iterations that skip the rest, too."""

    @T.prim_func
    def func(
        A: T.Tensor((7 * 32, 64), "float32"), B: T.Tensor((7 * 32, 64), "float32"), n: T.int32
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 64), "float32")
            for _ in T.serial(2):
                for step in T.serial(7):
                    T.copy(A[step * 32, 0], tile)
                    if step == n:
                        if leave == "break":
                            break
                        else:
                            continue
                    for i, j in T.Parallel(32, 64):
                        B[step * 32 + i, j] = tile[31 - i, j]

    kernel = compiled(func, target, loads=1)
    source, result = random_bits((7 * 32, 64), "float32"), poisoned((7 * 32, 64), "float32")
    kernel(source, result, 4)
    expected = source.view(7, 32, 64).flip(1).clone()
    expected[4 : 7 if leave == "break" else 5] = 77
    assert_same(result, expected.reshape(224, 64))


@pytest.mark.parametrize("target", TARGETS)
def test_more_loads_than_barriers(target: str) -> None:
    """A barrier that serves twice is waited for by all before its second phase."""
    count = 40

    @T.prim_func
    def func(A: T.Tensor((count * 8, 32), "float32"), B: T.Tensor((count * 8, 32), "float32")):
        with T.Kernel(1, threads=128):
            tiles = T.alloc_shared((count, 8, 32), "float32")
            for step in tuple(range(count)):
                T.copy(A[step * 8 : step * 8 + 8, :], tiles[step, :, :])
                T.copy(tiles[step, :, :], B[step * 8 : step * 8 + 8, :])

    kernel = compiled(func, target, loads=count, stores=count)
    assert barriers(kernel) == 2 * ["__syncthreads()"]
    source, result = random_bits((count * 8, 32), "float32"), poisoned((count * 8, 32), "float32")
    kernel(source, result)
    assert_same(result, source)


@pytest.mark.parametrize("target", TARGETS)
def test_warpgroups_take_turns_in_a_loop(target: str) -> None:
    """Each has a barrier of its own, and a phase in each of its iterations."""

    @T.prim_func
    def func(A: T.Tensor((256, 64), "float16"), B: T.Tensor((256, 64), "float16")):
        with T.Kernel(1, threads=256):
            first = T.alloc_shared((32, 64), "float16")
            second = T.alloc_shared((32, 64), "float16")
            tid = T.get_thread_binding()
            for step in T.serial(4):
                if tid < 128:
                    T.copy(A[step * 64, 0], first)
                    T.copy(first, B[step * 64, 0])
                else:
                    T.copy(A[step * 64 + 32, 0], second)
                    T.copy(second, B[step * 64 + 32, 0])

    kernel = compiled(func, target, loads=2, stores=2)
    source, result = random_bits((256, 64), "float16"), poisoned((256, 64), "float16")
    kernel(source, result)
    assert_same(result, source)


def numbered(used: tuple[int, ...], run_time: bool = False):
    """Threads 64 to 127 reverse a vector, the compiler's barriers among the program's."""

    @T.prim_func
    def func(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=128):
            held = T.alloc_shared((64,), "float32")
            tid = T.get_thread_binding()
            for number in used:
                if tid < 64:
                    T.sync_threads(number, 64)
            if run_time and tid < 64:
                T.sync_threads(n, 64)
            if tid >= 64:
                held[tid - 64] = A[tid - 64]
                B[tid - 64] = held[127 - tid]

    return func


@pytest.mark.parametrize(("used", "free"), [((), 15), ((15,), 14), ((1, 14, 15), 13)])
def test_numbers_of_the_program_are_left_to_it(used, free) -> None:
    kernel = tilelang.compile(numbered(used), target="sm_100a")
    assert f"sync_threads({free}, 64)" in kernel.get_kernel_source()
    source, result = torch.rand(64), torch.full((64,), torch.nan)
    kernel(source, result, 1)
    assert torch.equal(result, source.flip(0))


def test_numbers_run_out() -> None:
    with pytest.raises(errors.ResourceError, match="no hardware barrier is free"):
        tilelang.compile(numbered(tuple(range(1, 16))), target="sm_100a")
    with pytest.raises(errors.ResourceError, match="constants for barrier_id"):
        tilelang.compile(numbered((), run_time=True), target="sm_100a")
