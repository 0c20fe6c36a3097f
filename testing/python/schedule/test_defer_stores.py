"""Stores by TMA in loops: waited for before their tile is filled again, and at the end."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

every_schedule = pytest.mark.every_schedule


def poisoned(*shape: int) -> torch.Tensor:
    return torch.full(shape, float("nan")).half()


def waits(kernel) -> list[str]:
    """Stores and waits of the kernel, in the order of its text."""
    lines = kernel.get_kernel_source().split("main_kernel(")[1].splitlines()
    names = ("tma_store(", "tma_store_wait")
    return [name for line in lines for name in names if name in line]


def scaled(tiles: int, body, threads: int = 128):
    step = T.macro(body)

    @T.prim_func
    def main(A: T.Tensor((tiles * 64, 64), "float16"), C: T.Tensor((tiles * 64, 64), "float16")):
        with T.Kernel(1, threads=threads):
            out = T.alloc_shared((64, 64), "float16")
            other = T.alloc_shared((64, 64), "float16")
            step(A, C, out, other)

    return tilelang.compile(main, target="sm_90a")


def _fill(A, out, t):
    for i, j in T.Parallel(64, 64):
        out[i, j] = A[t * 64 + i, j] * 2


def _in_a_loop(A, C, out, other):
    for t in T.serial(5):
        T.macro(_fill)(A, out, t)
        T.copy(out, C[t * 64, 0])


def _under_a_condition(A, C, out, other):
    for t in T.serial(5):
        if t != 7:
            T.macro(_fill)(A, out, t)
            T.copy(out, C[t * 64, 0])


def _two_tiles(A, C, out, other):
    for t in T.serial(5):
        T.macro(_fill)(A, out, t)
        T.copy(out[0:32, :], C[t * 64 : t * 64 + 32, :])
        T.copy(out[32:64, :], C[t * 64 + 32 : t * 64 + 64, :])


def _nested(A, C, out, other):
    for t in T.serial(5):
        for _u in T.serial(2):
            T.macro(_fill)(A, out, t)
            T.copy(out, C[t * 64, 0])


@every_schedule
@pytest.mark.parametrize("body", [_in_a_loop, _under_a_condition, _two_tiles, _nested])
def test_a_store_runs_while_the_loop_goes_on(body) -> None:
    kernel = scaled(5, body)
    found = waits(kernel)
    assert found[0] == "tma_store_wait" and found[-1] == "tma_store_wait"
    assert found.count("tma_store_wait") == 2
    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    kernel(A, C)
    assert torch.equal(C, A * 2)


def _read_later(A, C, out, other):
    for t in T.serial(5):
        T.macro(_fill)(A, out, t)
        T.copy(out, C[t * 64, 0])
        T.copy(out, other)
    T.copy(other, C[0:64, :])


def _filled_elsewhere(A, C, out, other):
    T.macro(_fill)(A, out, 3)
    for t in T.serial(5):
        T.copy(out, C[t * 64, 0])


@every_schedule
@pytest.mark.parametrize("body", [_read_later, _filled_elsewhere])
def test_a_tile_touched_elsewhere_is_waited_for_where_it_is_stored(body) -> None:
    kernel = scaled(5, body)
    found = waits(kernel)
    assert all(found[i + 1] == "tma_store_wait" for i, name in enumerate(found) if "(" in name)
    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    kernel(A, C)
    want = A[192:256].repeat(5, 1) * 2 if body is _filled_elsewhere else A * 2
    if body is _read_later:
        want[0:64] = A[256:320] * 2
    assert torch.equal(C, want)


@every_schedule
def test_the_last_of_several_stores_to_one_place_stays() -> None:
    def body(A, C, out, other):
        for t in T.serial(5):
            T.macro(_fill)(A, out, t)
            T.copy(out, C[0:64, :])

    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    scaled(5, body)(A, C)
    assert torch.equal(C[0:64], A[256:320] * 2)


@every_schedule
def test_two_roles_wait_for_their_own() -> None:
    def body(A, C, out, other):
        for t in T.serial(2):
            if T.get_warp_group_idx() == 0:
                T.macro(_fill)(A, out, t)
                T.copy(out, C[t * 64, 0])
            else:
                T.macro(_fill)(A, other, t + 2)
                T.copy(other, C[t * 64 + 128, 0])

    A, C = torch.randn(256, 64).half(), poisoned(256, 64)
    scaled(4, body, threads=256)(A, C)
    assert torch.equal(C, A * 2)
