"""When compiled kernels are checked: by an environment variable, or an option of one kernel."""

from __future__ import annotations

import pytest

import tilelang
import tilelang.language as T
from tilelang import errors


@T.prim_func
def without_wait(
    A: T.Tensor((64, 64), "float16"),
    C: T.Tensor((64, 64), "float32"),
):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.wgmma_gemm(a, a, c, clear_accum=True)
        T.copy(c, C)


def lower(**configs):
    return tilelang.lower(without_wait, target="sm_90a", pass_configs=configs)


def test_the_environment_variable(monkeypatch) -> None:
    with pytest.raises(errors.SynchronizationError, match="nothing waits for it to complete"):
        lower()
    monkeypatch.setenv("TILELANG_VERIFY_SYNCHRONIZATION", "0")
    lower()


def test_the_option(monkeypatch) -> None:
    monkeypatch.setenv("TILELANG_VERIFY_SYNCHRONIZATION", "0")
    with pytest.raises(errors.SynchronizationError, match="nothing waits for it to complete"):
        lower(**{"tl.verify_synchronization": True})


def test_a_program_that_orders_itself() -> None:
    lower(**{"tl.disable_thread_storage_sync": True})
