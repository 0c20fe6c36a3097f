"""Stores by TMA are waited for by count: a ring of n slots has n - 1 of them in flight."""

from __future__ import annotations

import re

import pytest
import torch
from changed_ptx import emulate

import tilelang
import tilelang.language as T
from tilelang.emulator import EmulatorError

ROWS, COLUMNS = 16, 64


def ring(slots: int, stores: int, turns: int, extra: str = ""):
    """``stores`` copies a turn go through slots one after another, each filled by threads.

    ``extra`` "sometimes": every other turn stores a tile of its own in between.
    """

    @T.prim_func
    def main(
        X: T.Tensor((turns * stores * ROWS, COLUMNS), "float16"),
        Y: T.Tensor((turns * stores * ROWS, COLUMNS), "float16"),
        Z: T.Tensor((turns * ROWS, COLUMNS), "float16"),
    ):
        with T.Kernel(1, threads=128):
            tiles = [T.alloc_shared((ROWS, COLUMNS), "float16") for _ in range(slots)]
            own = T.alloc_shared((ROWS, COLUMNS), "float16")
            T.fill(own, 3)
            for i in T.serial(turns):
                for p, tile in enumerate([tiles[p % slots] for p in range(stores)]):
                    first = (i * stores + p) * ROWS
                    for r, c in T.Parallel(ROWS, COLUMNS):
                        tile[r, c] = X[first + r, c] * 2
                    T.copy(tile, Y[first, 0])
                if extra == "sometimes":  # noqa: SIM102 - one is of Python, one of the kernel
                    if i % 2 == 1:
                        T.copy(own, Z[i * ROWS, 0])

    return main


def left(kernel) -> list[int]:
    """Groups that each wait leaves in flight, but for the one at the end."""
    found = re.findall(r"tma_store_wait_read<(\d+)>", kernel.get_kernel_source())
    assert "tma_store_wait<" not in kernel.get_kernel_source()
    assert found[-1] == "0"
    return [int(groups) for groups in found[:-1]]


def run(kernel, turns: int, stores: int, extra: str = "") -> None:
    x = torch.randn(turns * stores * ROWS, COLUMNS).half()
    y = torch.full_like(x, float("nan"))
    z = torch.full((turns * ROWS, COLUMNS), float("nan")).half()
    kernel(x, y, z)
    assert torch.equal(y, x * 2)
    if extra:
        assert torch.equal(z.isnan()[:, 0], torch.arange(turns * ROWS) // ROWS % 2 == 0)


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("slots", "stores", "counts"),
    [
        (2, 4, [1, 1, 1, 1]),
        (3, 6, [2] * 6),
        (2, 3, [0, 1]),  # a turn begins with the slot that ended the one before
        (1, 2, [0, 0]),
    ],
)
def test_a_ring_of_slots(slots, stores, counts):
    kernel = tilelang.compile(ring(slots, stores, turns=6), target="sm_90a")
    assert left(kernel) == counts
    run(kernel, 6, stores)


@pytest.mark.every_schedule
def test_a_store_that_some_turns_leave_out_is_not_counted():
    kernel = tilelang.compile(ring(2, 2, turns=6, extra="sometimes"), target="sm_90a")
    assert left(kernel) == [1, 1]
    run(kernel, 6, 2, "sometimes")


def test_a_count_is_the_largest():
    """One group more in flight, and the slot may be filled while it is read."""
    kernel = tilelang.compile(ring(3, 3, turns=4), target="sm_90a")
    ptx = kernel.get_ptx()
    assert left(kernel) == [2, 2, 2]
    emulate(kernel, ptx.replace("wait_group.read 2", "wait_group.read 3"))
    with pytest.raises(EmulatorError, match="still being read"):
        run(kernel, 4, 3)
