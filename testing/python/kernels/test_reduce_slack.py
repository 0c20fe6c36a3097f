"""Partial results of rows, maxima that may stay behind, and loops that whole warps go around."""

from __future__ import annotations

import itertools

import pytest
import torch

import tilelang
import tilelang.language as T

pytestmark = pytest.mark.filterwarnings("error")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
BOTH = list(itertools.product((False, True), repeat=2))
TARGETS = ["sm_80", "sm_90a", "sm_100a"]


def compiled(function, target, device):
    return tilelang.compile(function, target="auto" if device == "cuda" else target)


def partial_sums(rows, columns, parts, threads, clear, gemm, dtype="float32"):
    """P (rows, parts) += or = parts of the rows of X, of a gemm with the unit matrix or loaded."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), "float16"),
        Unit: T.Tensor((columns, columns), "float16"),
        P: T.Tensor((rows, parts), dtype),
    ):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((rows, columns), "float32")
            p = T.alloc_fragment((rows, parts), dtype)
            if gemm:
                a = T.alloc_shared((rows, columns), "float16")
                b = T.alloc_shared((columns, columns), "float16")
                T.copy(X, a)
                T.copy(Unit, b)
                T.gemm(a, b, x, clear_accum=True)
            else:
                T.copy(X, x)
            T.copy(P, p)
            T.reduce_sum(x, p, dim=1, clear=clear)
            T.copy(p, P)

    return main


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "columns", "parts", "threads"),
    [(64, 80, 8, 128), (64, 64, 2, 128), (64, 32, 32, 128), (128, 64, 1, 256)],
)
@pytest.mark.parametrize(("clear", "gemm"), BOTH)
def test_partial_sums(device, target, rows, columns, parts, threads, clear, gemm):
    x = torch.randint(-9, 9, (rows, columns)).half().to(device)
    p = torch.randint(-9, 9, (rows, parts)).float().to(device)
    want = x.float().view(rows, columns // parts, parts).sum(1) + (0 if clear else p)
    function = partial_sums(rows, columns, parts, threads, clear, gemm)
    compiled(function, target, device)(x, torch.eye(columns).half().to(device), p)
    assert torch.equal(p, want)


def test_partial_sums_of_a_gemm_stay_with_their_threads():
    """Eight of a row are four threads' two columns each: nobody exchanges anything."""
    for parts, exchanges in ((8, False), (4, True)):
        kernel = compiled(partial_sums(64, 80, parts, 128, False, gemm=True), "sm_90a", "cpu")
        assert ("shfl" in kernel.get_kernel_source()) == exchanges


def highest(rows, columns, threads, slack, least, gemm):
    """Y = max(X, Y) by rows, or min, that may stay behind by ``slack``."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), "float16"),
        Unit: T.Tensor((columns, columns), "float16"),
        Y: T.Tensor((rows,), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((rows, columns), "float32")
            y = T.alloc_fragment((rows,), "float32")
            if gemm:
                a = T.alloc_shared((rows, columns), "float16")
                b = T.alloc_shared((columns, columns), "float16")
                T.copy(X, a)
                T.copy(Unit, b)
                T.gemm(a, b, x, clear_accum=True)
            else:
                T.copy(X, x)
            T.copy(Y, y)
            reduction = T.reduce_min if least else T.reduce_max
            reduction(x, y, dim=1, clear=False, slack=slack)
            T.copy(y, Y)

    return main


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("slack", [0, 2.5, 1e9])
@pytest.mark.parametrize(("least", "gemm"), BOTH)
@pytest.mark.parametrize("threads", [128, 256])
def test_a_result_stays_behind_by_no_more_than_slack(
    device, target, slack, least, gemm, threads
):  # fmt: skip
    rows, columns = 128, 64
    x = torch.randint(-20, 20, (rows, columns)).half().to(device)
    before = torch.randint(-40, 40, (rows,)).float().to(device)
    y = before.clone()
    unit = torch.eye(columns).half().to(device)
    compiled(highest(rows, columns, threads, slack, least, gemm), target, device)(x, unit, y)
    sign = -1 if least else 1
    exact = torch.maximum(sign * before, (sign * x.float()).amax(1))
    got = sign * y
    assert ((got == exact) | ((got == sign * before) & (exact <= got + slack))).all()
    if slack == 0:
        assert torch.equal(got, exact)
    if slack == 1e9 and gemm and target == "sm_90a":
        assert torch.equal(y, before)


def test_infinities_and_rows_that_hold_none():
    """-inf + slack is -inf: whatever comes is beyond it."""
    kernel = compiled(highest(64, 16, 128, 8.0, least=False, gemm=True), "sm_90a", "cpu")
    x = torch.randn(64, 16).half()
    y = torch.full((64,), -torch.inf)
    kernel(x, torch.eye(16).half(), y)
    assert torch.equal(y, x.float().amax(1))


def scaled(rows, columns, threads):
    """X (rows, columns) *= S by rows, where S is not 1; a gemm gives x its layout."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), "float16"),
        Unit: T.Tensor((columns, columns), "float16"),
        S: T.Tensor((rows,), "float32"),
        Y: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((rows, columns), "float16")
            b = T.alloc_shared((columns, columns), "float16")
            x = T.alloc_fragment((rows, columns), "float32")
            s = T.alloc_fragment((rows,), "float32")
            T.copy(X, a)
            T.copy(Unit, b)
            T.copy(S, s)
            T.gemm(a, b, x, clear_accum=True)
            for i, j in T.Parallel(rows, columns):
                if s[i] != 1:
                    x[i, j] *= s[i]
            T.copy(x, Y)

    return main


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("share", [0, 0.02, 1])
def test_rows_that_a_condition_picks(device, target, share):
    rows, columns, threads = 128, 80, 128
    x = torch.randint(-9, 9, (rows, columns)).half().to(device)
    s = torch.where(torch.rand(rows) < share, torch.randint(2, 9, (rows,)), 1).float().to(device)
    y = torch.full((rows, columns), torch.nan, device=device)
    kernel = compiled(scaled(rows, columns, threads), target, device)
    kernel(x, torch.eye(columns).half().to(device), s, y)
    assert torch.equal(y, x.float() * s[:, None])


def test_warps_go_around_a_loop_that_none_of_their_rows_needs():
    kernel = compiled(scaled(64, 80, 128), "sm_90a", "cpu")
    x, unit, y = torch.ones(64, 80).half(), torch.eye(80).half(), torch.empty(64, 80)
    work = {}
    for rows in (0, 1, 64):
        kernel(x, unit, torch.where(torch.arange(64) < rows, 3.0, 1.0), y)
        work[rows] = kernel.last_launch.instructions
    assert work[0] < work[1] < work[64]
