"""Where gemms by wgmma are waited for: at the first statement that depends on them."""

from __future__ import annotations

import re

import pytest
import torch
from sm90.gemm_kernels import poisoned, uses_wgmma

import tilelang
import tilelang.language as T

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
every_schedule = pytest.mark.every_schedule
M, N, K = 128, 64, 64


def compiled(body, threads: int = 256):
    """``body(tiles, results, X, Y)``: tiles of two A (M x K) and two B (N x K) are loaded, results
    (M x N) stored; X and Y are tensors of M x N for what happens meanwhile."""

    @T.prim_func
    def main(
        A: T.Tensor((2, M, K), "bfloat16"),
        B: T.Tensor((2, N, K), "bfloat16"),
        C: T.Tensor((2, M, N), "float32"),
        X: T.Tensor((M, N), "float32"),
        Y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = [T.alloc_shared((M, K), "bfloat16") for _ in range(2)]
            b = [T.alloc_shared((N, K), "bfloat16") for _ in range(2)]
            c = [T.alloc_fragment((M, N), "float32") for _ in range(2)]
            for i in (0, 1):
                T.copy(A[i, :, :], a[i])
                T.copy(B[i, :, :], b[i])
            body(a, b, c, X, Y)
            for i in (0, 1):
                T.copy(c[i], C[i, :, :])

    return tilelang.compile(main, target="sm_90a")


def check(kernel, products=((0,), (1,)), device: str = "cpu") -> None:
    """C[i] is the sum of the products with these numbers, and Y is 3 X."""
    assert uses_wgmma(kernel)
    a, b = (torch.randint(-3, 4, (2, n, K)).bfloat16().to(device) for n in (M, N))
    x = torch.randn(M, N, device=device)
    c, y = poisoned((2, M, N), "float32", device), poisoned((M, N), "float32", device)
    kernel(a, b, c, x, y)
    all_products = a.double() @ b.double().transpose(1, 2)
    want = torch.stack([sum(all_products[j] for j in numbers) for numbers in products])
    assert torch.equal(c.double(), want)
    assert torch.equal(y, x * 3)


def steps(kernel) -> list[str]:
    """Commits, waits, barriers and the work on X, in the order of the text."""
    text = kernel.get_kernel_source().split("main_kernel(")[1]
    names = {
        "wgmma_commit": "commit", "wgmma_wait<0>": "wait 0", "wgmma_wait<1>": "wait 1",
        "wgmma_wait<2>": "wait 2", "* 3.0f": "work", "__syncthreads": "sync",
    }  # fmt: skip
    found = re.findall("|".join(re.escape(name) for name in names), text)
    return [names[name] for name in found]


def from_first_commit(kernel) -> list[str]:
    found = steps(kernel)
    return found[found.index("commit") :]


def gemm(a, b, c, i, clear=True):
    T.gemm(a[i], b[i], c[i], transpose_B=True, clear_accum=clear)


@T.macro
def work(X, Y):
    for i, j in T.Parallel(M, N):
        Y[i, j] = X[i, j] * 3


@T.macro
def use(c, n):
    for i, j in T.Parallel(M, N):
        c[n][i, j] = c[n][i, j] + 0


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
def test_what_does_not_depend_on_a_gemm_runs_beside_it(device: str) -> None:
    @T.macro
    def body(a, b, c, X, Y):
        gemm(a, b, c, 0)
        work(X, Y)
        use(c, 0)
        gemm(a, b, c, 1)

    kernel = compiled(body)
    assert from_first_commit(kernel)[:3] == ["commit", "work", "wait 0"]
    check(kernel, device=device)


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
def test_the_first_of_two_is_waited_for_alone(device: str) -> None:
    @T.macro
    def body(a, b, c, X, Y):
        gemm(a, b, c, 0)
        work(X, Y)
        gemm(a, b, c, 1)
        use(c, 0)
        use(c, 1)

    kernel = compiled(body)
    assert from_first_commit(kernel)[:5] == ["commit", "work", "commit", "wait 1", "wait 0"]
    check(kernel, device=device)


@every_schedule
def test_who_needs_the_second_waits_for_both() -> None:
    @T.macro
    def body(a, b, c, X, Y):
        gemm(a, b, c, 0)
        work(X, Y)
        gemm(a, b, c, 1)
        use(c, 1)

    kernel = compiled(body)
    assert from_first_commit(kernel) == ["commit", "work", "commit", "wait 0"]
    check(kernel)


@every_schedule
def test_operands_are_overwritten_after_the_gemm() -> None:
    @T.macro
    def body(a, b, c, X, Y):
        gemm(a, b, c, 0)
        T.clear(c[1])
        work(X, Y)
        T.copy(a[1], a[0])
        T.copy(b[1], b[0])
        T.gemm(a[0], b[0], c[1], transpose_B=True)

    kernel = compiled(body)
    assert from_first_commit(kernel)[:3] == ["commit", "work", "wait 0"]
    check(kernel)


@every_schedule
@pytest.mark.parametrize("clear", [False, True])
def test_the_same_accumulators_again(clear: bool) -> None:
    @T.macro
    def body(a, b, c, X, Y):
        gemm(a, b, c, 0)
        work(X, Y)
        T.gemm(a[1], b[1], c[0], transpose_B=True, clear_accum=clear)
        T.copy(c[0], c[1])

    numbers = (1,) if clear else (0, 1)
    check(compiled(body), products=(numbers, numbers))


@every_schedule
def test_a_gemm_in_a_branch_is_waited_for_in_it() -> None:
    @T.macro
    def body(a, b, c, X, Y):
        T.clear(c[0])
        T.clear(c[1])
        if X[0, 0] == X[0, 0]:
            gemm(a, b, c, 0, clear=False)
        work(X, Y)
        gemm(a, b, c, 1, clear=False)

    check(compiled(body))


@every_schedule
def test_a_gemm_before_a_loop_that_has_some_of_its_own() -> None:
    @T.macro
    def body(a, b, c, X, Y):
        gemm(a, b, c, 0)
        work(X, Y)
        T.clear(c[1])
        for _ in T.serial(3):
            T.gemm(a[1], b[1], c[1], transpose_B=True)
        for i, j in T.Parallel(M, N):
            c[1][i, j] = c[1][i, j] / 3

    kernel = compiled(body)
    assert from_first_commit(kernel)[:2] == ["commit", "work"]
    check(kernel)


@every_schedule
def test_in_a_loop_it_does_not_outlive_its_iteration() -> None:
    @T.macro
    def body(a, b, c, X, Y):
        for i in (0, 1):
            T.clear(c[i])
        for k in T.serial(3):
            if k % 2 == 0:
                for i in (0, 1):
                    gemm(a, b, c, i, clear=False)
        work(X, Y)
        for n in (0, 1):
            for i, j in T.Parallel(M, N):
                c[n][i, j] = c[n][i, j] / 2

    check(compiled(body))


@every_schedule
def test_the_barrier_of_a_program_comes_after_the_gemm() -> None:
    @T.macro
    def body(a, b, c, X, Y):
        gemm(a, b, c, 0)
        work(X, Y)
        T.sync_threads()
        gemm(a, b, c, 1)

    kernel = compiled(body)
    assert from_first_commit(kernel)[:4] == ["commit", "work", "wait 0", "sync"]
    check(kernel)


@every_schedule
def test_one_warpgroup_each() -> None:
    """Either may overwrite its operand alone, when its own gemm is complete."""

    @T.macro
    def body(a, b, c, X, Y):
        T.clear(c[0])
        T.clear(c[1])
        work(X, Y)
        if T.get_warp_group_idx() == 0:
            d = T.alloc_fragment((64, N), "float32")
            T.gemm(a[0][0:64, :], b[0], d, transpose_B=True, clear_accum=True)
            T.copy(d, Y[0:64, :])
        else:
            e = T.alloc_fragment((64, N), "float32")
            T.gemm(a[0][64:128, :], b[0], e, transpose_B=True, clear_accum=True)
            T.copy(e, Y[64:128, :])

    kernel = compiled(body)
    a, b = (torch.randint(-3, 4, (2, n, K)).bfloat16() for n in (M, N))
    c, y = poisoned((2, M, N), "float32"), poisoned((M, N), "float32")
    kernel(a, b, c, torch.randn(M, N), y)
    assert torch.equal(y.double(), a[0].double() @ b[0].double().T)
