"""Rings whose slot the iteration chooses, s[i % n]: each slot is waited for by itself."""

from __future__ import annotations

import re

import pytest
import torch
from verify.mutants import compiled, mutants

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.transform import verify_synchronization

ROWS, COLUMNS = 32, 64


def rolled(slots: int, turns: int, known: bool = True, condition: bool = False, ahead: int = 0):
    rows = turns * ROWS if known else T.dynamic("rows")

    @T.prim_func
    def main(
        n: T.int32,
        X: T.Tensor((rows, COLUMNS), "float16"),
        Y: T.Tensor((rows, COLUMNS), "float16"),
    ):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((slots, ROWS, COLUMNS), "float16")
            for i in T.serial(turns if known else n):
                if not known:
                    T.assume_disjoint(Y, i)
                T.copy(X[i * ROWS, 0], s[(i + ahead) % slots, :, :])
                if condition:
                    if i % 3 == 0:
                        T.copy(s[(i + ahead) % slots, :, :], Y[i * ROWS, 0])
                else:
                    T.copy(s[(i + ahead) % slots, :, :], Y[i * ROWS, 0])

    return main


def waits(kernel) -> list[str]:
    return re.findall(r"tma_store_wait_read<(\d)>", kernel.get_kernel_source())


def check(kernel, turns: int, taken=lambda i: True) -> None:
    x = torch.randn(turns * ROWS, COLUMNS).half()
    y = torch.zeros_like(x)
    kernel(turns, x, y)
    for i, (stored, given) in enumerate(zip(y.split(ROWS), x.split(ROWS), strict=True)):
        assert torch.equal(stored, given if taken(i) else torch.zeros_like(given))


@pytest.mark.every_schedule
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_all_slots_but_one_stay_in_flight(slots, known):
    as_written = {"tl.disable_load_early": True}
    kernel = tilelang.compile(rolled(slots, 7, known), target="sm_90a", pass_configs=as_written)
    assert waits(kernel) == [str(slots - 1), "0"]
    for turns in (7,) if known else (7, 1, slots):
        check(kernel, turns)


@pytest.mark.every_schedule
def test_iterations_that_store_nothing_leave_none_in_flight():
    kernel = tilelang.compile(rolled(2, 7, condition=True), target="sm_90a")
    assert waits(kernel) == ["0", "0"]
    check(kernel, 7, lambda i: i % 3 == 0)


def test_slots_that_are_never_used_again_need_no_wait():
    kernel = tilelang.compile(rolled(8, 7, ahead=1), target="sm_90a")
    assert waits(kernel) == ["0"]  # at the end
    check(kernel, 7)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_wait_for_fewer_stores_is_a_race(slots):
    func = compiled(rolled(slots, 7), "sm_90a")
    verify_synchronization(func)
    lost = [m for key, m in mutants(func) if "wait" in key[0]]
    assert lost
    for mutant in lost:
        with pytest.raises(errors.SynchronizationError):
            verify_synchronization(mutant)
