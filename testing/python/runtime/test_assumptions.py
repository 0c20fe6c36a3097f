"""T.assume: the host refuses calls that do not fulfil facts about their arguments."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

TARGETS = ["sm_80", "sm_90a", "sm_100a", "sm_120a"]


def doubled(state, configs=None, target="sm_100a"):
    """A kernel that doubles rows of dynamic length; ``state(n, k)`` states facts."""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), k: T.int32):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            state(n, k)
            for i in T.Parallel(64):
                if bx * 64 + i < n:
                    B[bx * 64 + i] = A[bx * 64 + i] * 2

    return tilelang.compile(main, target=target, pass_configs=configs)


def rows(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(n).float(), torch.zeros(n)


@pytest.mark.parametrize("target", TARGETS)
def test_a_fact_about_a_dimension(target: str) -> None:
    kernel = doubled(lambda n, k: T.assume(n % 8 == 0), target=target)
    a, b = rows(72)
    kernel(a, b, 0)
    assert torch.equal(b, a * 2)
    wrong = r"T\.assume\(.*n.*8.*\) does not hold in this call, where n is 65"
    with pytest.raises(errors.AssumptionError, match=wrong) as caught:
        kernel(*rows(65), 0)
    assert isinstance(caught.value, RuntimeError)
    assert "test_assumptions.py" in str(caught.value)


@T.macro
def is_index(n, k):
    T.assume(k >= 0 and k < n)


def test_a_fact_about_a_dimension_and_a_scalar() -> None:
    kernel = doubled(is_index)
    kernel(*rows(64), 63)
    with pytest.raises(errors.AssumptionError, match=r"(k|n) is 64 and (k|n) is 64"):
        kernel(*rows(64), 64)


@T.macro
def divides_unless_zero(n, k):
    T.assume(k == 0 or n % k == 0)


def test_the_second_operand_divides_only_where_the_first_one_lets_it() -> None:
    kernel = doubled(divides_unless_zero)
    kernel(*rows(64), 0)
    kernel(*rows(64), 32)
    with pytest.raises(errors.AssumptionError):
        kernel(*rows(64), 33)


def test_an_empty_grid_states_nothing() -> None:
    doubled(lambda n, k: T.assume(n > 0))(*rows(0), 0)


def test_facts_outside_of_kernels() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32")):
        T.assume(n <= 128)
        with T.Kernel(1, threads=128):
            i = T.get_thread_binding()
            if i < n:
                A[i] = i

    kernel = tilelang.compile(main, target="sm_90a")
    kernel(a := torch.zeros(100).int())
    assert torch.equal(a, torch.arange(100).int())
    with pytest.raises(errors.AssumptionError, match="n is 129"):
        kernel(torch.zeros(129).int())


def under_a_condition():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), k: T.int32):
        with T.Kernel(1, threads=32):
            i = T.get_thread_binding()
            if k == 1:
                T.assume(n % 4 == 0)
                if i < n:
                    A[i] = 1
            if k == 2:
                return
            for j in T.serial(k):
                T.assume(n > 32)
                A[j] = 2
            T.assume(n >= 8)
            A[7] = 3

    return main


def test_facts_under_conditions_are_left_to_the_program() -> None:
    kernel = tilelang.compile(under_a_condition(), target="sm_100a")
    kernel(a := torch.zeros(9).int(), 0)
    assert a.tolist() == [0] * 7 + [3, 0]
    # The kernel returns before the last fact.
    kernel(torch.zeros(3).int(), 2)


def test_absent_tensors_make_no_fact_wrong() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            T.assume(n > 16)
            B[T.get_thread_binding()] = 1

    kernel = tilelang.compile(main, target="sm_90a")
    kernel(None, b := torch.zeros(32).int())
    assert b.tolist() == [1] * 32
    with pytest.raises(errors.AssumptionError):
        kernel(torch.zeros(16).int(), b)


def selected(checked: bool, target: str = "sm_100a"):
    """Rows chosen by a table, whose entries the program vouches for."""

    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), P: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            i = T.get_thread_binding()
            row = P[i]
            T.assume(row >= 0 and row < 8)
            B[i] = A[row]

    configs = {tilelang.PassConfigKey.TL_CHECK_ASSUMPTIONS: checked}
    return tilelang.compile(main, target=target, pass_configs=configs)


@pytest.mark.parametrize("target", TARGETS)
def test_checked_facts_of_the_device(target: str) -> None:
    a, p, b = torch.arange(8).int(), torch.arange(32).int() % 8, torch.zeros(32).int()
    selected(True, target)(a, p, b)
    assert torch.equal(b, p)
    p[5] = 8
    with pytest.raises(errors.EmulatorError, match=r"T\.assume\(.*\) does not hold"):
        selected(True, target)(a, p, b)


def test_without_the_option_the_device_tests_nothing() -> None:
    assert "TL_CHECK" not in selected(False).get_kernel_source()
    assert "TL_CHECK" in selected(True).get_kernel_source()
