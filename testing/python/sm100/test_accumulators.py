"""Fragments that are the C or the A of tensor core instructions, over the control flow of a kernel:
where their copies to and from tensor memory stand, and which product overwrites."""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import compile_sm100, poisoned

import tilelang.language as T
from tilelang import emulator, errors

M, N, K = 128, 64, 64
SCHEDULES = ["late", "eager", 1, 2]


def operands() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A, B of small integers and A @ B.T, exact in float32."""
    a = torch.randint(-4, 5, (M, K)).to(torch.bfloat16)
    b = torch.randint(-4, 5, (N, K)).to(torch.bfloat16)
    return a, b, a.double() @ b.double().T


def run(kernel, *arguments, schedule) -> torch.Tensor:
    c = poisoned(M, N, "float32")
    with emulator.options(schedule=schedule, instruction_limit=2_000_000):
        kernel(*arguments, c)
    return c.double()


def accumulating(body):
    """A kernel around ``body(a, b, c, n)``; A @ B.T of shared tiles, C a fragment."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        n: T.int32,
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, K), "bfloat16")
            b = T.alloc_shared((N, K), "bfloat16")
            c = T.alloc_fragment((M, N), "float32")
            T.copy(A, a)
            T.copy(B, b)
            body(a, b, c, n)
            T.copy(c, C)

    return compile_sm100(kernel)


@T.macro
def continue_before(a, b, c, n):
    T.clear(c)
    for k in T.serial(4):
        if k == n:
            continue
        T.gemm(a, b, c, transpose_B=True)


@T.macro
def break_before(a, b, c, n):
    T.clear(c)
    for k in T.serial(4):
        if k == n:
            break
        T.gemm(a, b, c, transpose_B=True)


@T.macro
def break_in_a_while_loop(a, b, c, n):
    k = T.alloc_var("int32", init=0)
    T.clear(c)
    while k < 4:
        if k == n:
            break
        T.gemm(a, b, c, transpose_B=True)
        k += 1


@T.macro
def break_between(a, b, c, n):
    T.clear(c)
    for k in T.serial(4):
        for i, j in T.Parallel(M, N):
            c[i, j] = c[i, j] * 0.5
        T.gemm(a, b, c, transpose_B=True)
        if k == n:
            break
        T.gemm(a, b, c, transpose_B=True)


@T.macro
def clear_before_break(a, b, c, n):
    for k in T.serial(4):
        T.clear(c)
        if k == n:
            break
        T.gemm(a, b, c, transpose_B=True)
        T.gemm(a, b, c, transpose_B=True)


@T.macro
def overwriting_is_skipped(a, b, c, n):
    T.fill(c, 3.0)
    for k in T.serial(4):
        if k == n:
            continue
        T.gemm(a, b, c, transpose_B=True, clear_accum=(k == 0))


@T.macro
def continue_in_the_inner_loop(a, b, c, n):
    for o in T.serial(2):
        T.clear(c)
        for k in T.serial(2):
            T.gemm(a, b, c, transpose_B=True)
            if k == n:
                continue
            T.gemm(a, b, c, transpose_B=True)
        if o == n:
            continue
        for i, j in T.Parallel(M, N):
            c[i, j] = c[i, j] * 2.0


@T.macro
def gemm_and_break_under_one_condition(a, b, c, n):
    T.clear(c)
    for k in T.serial(4):
        for i, j in T.Parallel(M, N):
            c[i, j] = c[i, j] + 1.0
        if k == n:
            T.gemm(a, b, c, transpose_B=True)
            break
        else:
            T.gemm(a, b, c, transpose_B=True)
            T.gemm(a, b, c, transpose_B=True)


def halved(n: int) -> float:
    """The multiple of A @ B.T that break_between leaves."""
    value = 0.0
    for k in range(4):
        value = value * 0.5 + 1
        if k == n:
            break
        value += 1
    return value


# name: the body, and C of (n, A @ B.T)
BODIES = {
    "continue before": (continue_before, lambda n, p: (3 if 0 <= n < 4 else 4) * p),
    "break before": (break_before, lambda n, p: (n if 0 <= n < 4 else 4) * p),
    "break in while": (break_in_a_while_loop, lambda n, p: (n if 0 <= n < 4 else 4) * p),
    "break between": (break_between, lambda n, p: halved(n) * p),
    "clear before break": (clear_before_break, lambda n, p: (0 if 0 <= n < 4 else 2) * p),
    "overwriting skipped": (
        overwriting_is_skipped,
        lambda n, p: 3 + 3 * p if n == 0 else (3 if n < 4 else 4) * p,
    ),
    "inner continue": (
        continue_in_the_inner_loop,
        lambda n, p: (3 if n < 2 else 4) * (1 if n == 1 else 2) * p,
    ),
    "one condition": (
        gemm_and_break_under_one_condition,
        lambda n, p: (n + 1) + (2 * n + 1) * p if n < 4 else 4 + 8 * p,
    ),
}


@pytest.fixture(scope="module")
def kernels():
    return {}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n", [0, 1, 3, 7])
@pytest.mark.parametrize("name", BODIES)
def test_loops_that_are_left(name, n, schedule, kernels):
    body, expected = BODIES[name]
    if name not in kernels:
        kernels[name] = accumulating(body)
    a, b, product = operands()
    assert torch.equal(run(kernels[name], a, b, n, schedule=schedule), expected(n, product))


@pytest.mark.parametrize("schedule", SCHEDULES[:3])
def test_a_and_c_in_one_buffer(schedule):
    @T.prim_func
    def kernel(
        X: T.Tensor((M, K), "float32"),
        B: T.Tensor((N, K), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            both = T.alloc_tmem((M, K + N), "float32")
            b = T.alloc_shared((N, K), "float32")
            T.copy(X, both[:, 0:K])
            T.copy(B, b)
            T.gemm(both[:, 0:K], b, both[:, K : K + N], transpose_B=True, clear_accum=True)
            T.copy(both[:, K : K + N], C)

    a, b, product = operands()
    got = run(compile_sm100(kernel), a.float(), b.float(), schedule=schedule)
    assert torch.equal(got, product)


@T.macro
def wait_behind(a, b, c, mbar, issue):
    issue(a, b, c, mbar, True)
    T.mbarrier_wait_parity(mbar, 0)


@T.macro
def wait_in_each_iteration(a, b, c, mbar, issue):
    T.clear(c)
    for k in T.serial(3):
        issue(a, b, c, mbar, False)
        T.mbarrier_wait_parity(mbar, k % 2)
        for i, j in T.Parallel(M, N):
            c[i, j] = c[i, j] * 2.0


@T.macro
def wait_behind_the_loop(a, b, c, mbar, issue):
    for k in T.serial(3):
        if k > 0:
            T.mbarrier_wait_parity(mbar, (k - 1) % 2)
        issue(a, b, c, mbar, k == 0)
    T.mbarrier_wait_parity(mbar, 0)


@T.macro
def no_wait(a, b, c, mbar, issue):
    issue(a, b, c, mbar, True)


@T.macro
def wait_in_a_branch(a, b, c, mbar, issue):
    for k in T.serial(1):
        issue(a, b, c, mbar, True)
        if k == 1:
            T.mbarrier_wait_parity(mbar, 0)


@T.macro
def use_before_the_wait(a, b, c, mbar, issue):
    issue(a, b, c, mbar, True)
    for i, j in T.Parallel(M, N):
        c[i, j] = c[i, j] * 2.0
    T.mbarrier_wait_parity(mbar, 0)


@T.macro
def break_before_the_wait(a, b, c, mbar, issue):
    for k in T.serial(2):
        issue(a, b, c, mbar, True)
        if k == 1:
            break
        T.mbarrier_wait_parity(mbar, 0)


@T.macro
def by_gemm(a, b, c, mbar, clear):
    T.gemm(a, b, c, transpose_B=True, clear_accum=clear, mbar=mbar)


@T.macro
def by_tcgen05_gemm(a, b, c, mbar, clear):
    T.tcgen05_gemm(a, b, c, transpose_B=True, clear_accum=clear, mbar=mbar)


@T.macro
def by_arrival(a, b, c, mbar, clear):
    T.tcgen05_gemm(a, b, c, transpose_B=True, clear_accum=clear, mbar=None)
    T.tcgen05_mma_arrive(mbar)


ISSUES = {"gemm": by_gemm, "tcgen05_gemm": by_tcgen05_gemm, "arrival": by_arrival}


def with_mbarrier(body, issue, a_scope=T.alloc_shared):
    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = a_scope((M, K), "bfloat16")
            b = T.alloc_shared((N, K), "bfloat16")
            c = T.alloc_fragment((M, N), "float32")
            mbar = T.alloc_barrier(1)
            T.copy(A, a)
            T.copy(B, b)
            body(a, b, c, mbar, issue)
            T.copy(c, C)

    return compile_sm100(kernel)


@pytest.mark.parametrize("issue", ISSUES)
@pytest.mark.parametrize(
    ("body", "factor", "a_scope"),
    [
        (wait_behind, 1, T.alloc_shared),
        (wait_behind, 1, T.alloc_fragment),
        (wait_in_each_iteration, 14, T.alloc_shared),
        (wait_in_each_iteration, 14, T.alloc_fragment),
        (wait_behind_the_loop, 3, T.alloc_shared),
    ],
)
def test_copy_back_is_behind_the_wait(body, factor, a_scope, issue):
    kernel = with_mbarrier(body, ISSUES[issue], a_scope)
    a, b, product = operands()
    for schedule in SCHEDULES:
        assert torch.equal(run(kernel, a, b, schedule=schedule), factor * product)


@pytest.mark.parametrize("issue", ISSUES)
@pytest.mark.parametrize(
    "body", [no_wait, wait_in_a_branch, use_before_the_wait, break_before_the_wait]
)
def test_use_that_no_wait_precedes(body, issue):
    with pytest.raises(errors.SemanticsError, match="before the next use of c") as caught:
        with_mbarrier(body, ISSUES[issue])
    assert "test_accumulators.py" in str(caught.value)


@pytest.mark.parametrize("issue", ISSUES)
def test_fragment_a_that_a_product_still_reads(issue):
    with pytest.raises(errors.SemanticsError, match="after the gemm in the same iteration"):
        with_mbarrier(wait_behind_the_loop, ISSUES[issue], T.alloc_fragment)


@pytest.mark.parametrize("wg_wait", [-1, 0, 1])
def test_wg_wait_changes_nothing(wg_wait):
    """tcgen05.mma has no groups: with mbar= the kernel waits, without it T.gemm does."""

    @T.macro
    def body(a, b, c, n):
        mbar = T.alloc_barrier(1)
        T.gemm(a, b, c, transpose_B=True, mbar=mbar, wg_wait=wg_wait, clear_accum=True)
        T.mbarrier_wait_parity(mbar, 0)
        T.gemm(a, b, c, transpose_B=True, wg_wait=wg_wait)

    a, b, product = operands()
    kernel = accumulating(body)
    for schedule in SCHEDULES:
        assert torch.equal(run(kernel, a, b, 0, schedule=schedule), 2 * product)
