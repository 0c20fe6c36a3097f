"""T.tma_copy from a column that is known only when the kernel runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import EmulatorError

TARGETS = pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
ROWS, COLUMNS = 16, 64


def moved(shape: tuple[int, ...]) -> Any:
    """B = the columns of A from Starts[0] on, by TMA."""
    box = (*shape[:-1], COLUMNS)

    @T.prim_func
    def main(
        A: T.Tensor(shape, "float16"), Starts: T.Tensor((1,), "int32"), B: T.Tensor(box, "float16")
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared(box, "float16")
            full = T.alloc_barrier(1)
            start = Starts[0]
            if T.get_thread_binding() == 0:
                if len(shape) == 1:
                    T.tma_copy(A[start : start + COLUMNS], tile, barrier=full)
                else:
                    T.tma_copy(A[0:ROWS, start : start + COLUMNS], tile, barrier=full)
                T.mbarrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.copy(tile, B)

    return main


@pytest.mark.every_schedule
@TARGETS
@pytest.mark.parametrize("shape", [(512,), (ROWS, 256)])
@pytest.mark.parametrize("start", [0, 8, 136])
def test_columns_of_whole_16_bytes(start: int, shape: tuple[int, ...], target: str) -> None:
    a, b = torch.randn(shape).half(), torch.full((*shape[:-1], COLUMNS), float("nan")).half()
    tilelang.compile(moved(shape), target=target)(a, torch.tensor([start], dtype=torch.int32), b)
    assert torch.equal(b, a[..., start : start + COLUMNS])


@TARGETS
@pytest.mark.parametrize("shape", [(512,), (ROWS, 256)])
def test_the_emulator_reports_other_columns(shape: tuple[int, ...], target: str) -> None:
    a, b = torch.randn(shape).half(), torch.zeros((*shape[:-1], COLUMNS)).half()
    kernel = tilelang.compile(moved(shape), target=target)
    with pytest.raises(EmulatorError, match=r"16 bytes|multiple of 16"):
        kernel(a, torch.tensor([4], dtype=torch.int32), b)
