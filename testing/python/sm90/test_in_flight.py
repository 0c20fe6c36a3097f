"""Gemms that the program leaves in flight and waits for itself: T.wgmma_gemm, wg_wait=,
T.wait_wgmma."""

from __future__ import annotations

import re

import pytest
import torch
from sm90.gemm_kernels import poisoned, uses_wgmma

import tilelang
import tilelang.language as T
from tilelang import emulator, errors

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
M, N, K = 128, 64, 64


def issue_wgmma(a, b, c, clear=False):
    T.wgmma_gemm(a, b, c, transpose_B=True, clear_accum=clear)


def issue_gemm(a, b, c, clear=False):
    T.gemm(a, b, c, transpose_B=True, clear_accum=clear, wg_wait=-1)


ISSUES = {"T.wgmma_gemm": issue_wgmma, "T.gemm wg_wait": issue_gemm}


def compiled(body, blocks_of_k: int, columns: int = N, target: str = "sm_90a"):
    """``body(A, B, out)`` computes one tile, M x columns."""

    @T.prim_func
    def main(
        A: T.Tensor((M, blocks_of_k * K), "bfloat16"),
        B: T.Tensor((columns, blocks_of_k * K), "bfloat16"),
        C: T.Tensor((M, columns), "float32"),
    ):
        with T.Kernel(1, threads=256):
            c = T.alloc_fragment((M, columns), "float32")
            body(A, B, c)
            T.copy(c, C)

    return tilelang.compile(main, target=target)


def check(kernel, blocks_of_k: int, device: str = "cpu", columns: int = N) -> None:
    assert uses_wgmma(kernel)
    check_product(kernel, blocks_of_k, device, columns)


def check_product(kernel, blocks_of_k: int, device: str = "cpu", columns: int = N) -> None:
    a = torch.randint(-3, 4, (M, blocks_of_k * K)).bfloat16().to(device)
    b = torch.randint(-3, 4, (columns, blocks_of_k * K)).bfloat16().to(device)
    c = poisoned((M, columns), "float32", device)
    kernel(a, b, c)
    assert torch.equal(c.double(), a.double() @ b.double().T)


def overlapped(issue, blocks: int, target: str = "sm_90a"):
    """Loads the next block while the product of the last is in flight."""

    @T.macro
    def body(A, B, c):
        a = T.alloc_shared((2, M, K), "bfloat16")
        b = T.alloc_shared((2, N, K), "bfloat16")
        T.copy(A[0, 0], a[0, :, :])
        T.copy(B[0, 0], b[0, :, :])
        T.clear(c)
        for i in T.serial(blocks):
            issue(a[i % 2, :, :], b[i % 2, :, :], c)
            if i + 1 < blocks:
                T.wait_wgmma(1)
                T.copy(A[0, (i + 1) * K], a[(i + 1) % 2, :, :])
                T.copy(B[0, (i + 1) * K], b[(i + 1) % 2, :, :])
        T.wait_wgmma(0)

    return compiled(body, blocks, target=target)


@pytest.mark.every_schedule
@pytest.mark.parametrize("issue", ISSUES)
@pytest.mark.parametrize("target", ["sm_80", "sm_100a", "sm_120a"])
def test_targets_without_wgmma_wait_at_once(issue, target):
    kernel = overlapped(ISSUES[issue], 5, target)
    check_product(kernel, 5)
    messages = [remark.message for remark in kernel.remarks if remark.topic == "argument"]
    said = "T.wgmma_gemm is T.gemm here" if issue == "T.wgmma_gemm" else "wg_wait=-1 has no effect"
    for text in (said, "T.wait_wgmma has no effect"):
        assert any(text in message for message in messages)


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("issue", ISSUES)
def test_one_group_in_flight(issue, device):
    check(overlapped(ISSUES[issue], 5), 5, device)


@pytest.mark.every_schedule
@pytest.mark.parametrize("issue", ISSUES)
def test_a_later_gemm_waits_for_all(issue):
    @T.macro
    def body(A, B, c):
        a = T.alloc_shared((2, M, K), "bfloat16")
        b = T.alloc_shared((2, N, K), "bfloat16")
        for s in T.unroll(2):
            T.copy(A[0, s * K], a[s, :, :])
            T.copy(B[0, s * K], b[s, :, :])
        ISSUES[issue](a[0, :, :], b[0, :, :], c, True)
        T.gemm(a[1, :, :], b[1, :, :], c, transpose_B=True)

    check(compiled(body, 2), 2)


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
def test_two_accumulators_in_flight(device):
    """The first is waited for, and used, while the second is in flight."""

    @T.macro
    def body(A, B, c):
        a = T.alloc_shared((M, K), "bfloat16")
        b = T.alloc_shared((2 * N, K), "bfloat16")
        left = T.alloc_fragment((M, N), "float32")
        right = T.alloc_fragment((M, N), "float32")
        T.copy(A, a)
        T.copy(B, b)
        issue_wgmma(a, b[0:N, :], left, True)
        issue_wgmma(a, b[N : 2 * N, :], right, True)
        T.wait_wgmma(1)
        for i, j in T.Parallel(M, N):
            c[i, j] = left[i, j]
        T.wait_wgmma(0)
        for i, j in T.Parallel(M, N):
            c[i, N + j] = right[i, j]

    check(compiled(body, 1, 2 * N), 1, device, 2 * N)


def without_wait(A, B, c):
    a = T.alloc_shared((M, K), "bfloat16")
    b = T.alloc_shared((N, K), "bfloat16")
    T.copy(A, a)
    T.copy(B, b)
    issue_wgmma(a, b, c, True)


@pytest.mark.may_serialise("a wait is missing on purpose")
def test_a_missing_wait_is_reported(monkeypatch):
    """The accumulator is used in flight: the verifier says so, and without it the emulator."""

    @T.macro
    def body(A, B, c):
        without_wait(A, B, c)

    with pytest.raises(errors.SynchronizationError, match="nothing waits for it to complete"):
        compiled(body, 1)
    monkeypatch.setenv("TILELANG_VERIFY_SYNCHRONIZATION", "0")
    a, b = torch.ones(M, K).bfloat16(), torch.ones(N, K).bfloat16()
    kernel = compiled(body, 1)
    with pytest.raises(emulator.EmulatorError, match=r"wgmma\.wait_group"):
        kernel(a, b, poisoned((M, N), "float32"))


def test_an_operand_overwritten_in_flight_is_reported(monkeypatch):
    @T.macro
    def body(A, B, c):
        a = T.alloc_shared((M, K), "bfloat16")
        b = T.alloc_shared((N, K), "bfloat16")
        T.copy(A, a)
        T.copy(B, b)
        issue_wgmma(a, b, c, True)
        T.sync_threads()
        T.fill(b, 0)
        T.wait_wgmma(0)

    with pytest.raises(errors.SynchronizationError, match="reads b: nothing waits"):
        compiled(body, 1)
    monkeypatch.setenv("TILELANG_VERIFY_SYNCHRONIZATION", "0")
    a, b = torch.ones(M, K).bfloat16(), torch.ones(N, K).bfloat16()
    kernel = compiled(body, 1)
    with pytest.raises(emulator.EmulatorError, match="still being read by wgmma"):
        kernel(a, b, poisoned((M, N), "float32"))


def single(body, target: str = "sm_90a"):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            body(
                T.alloc_shared((64, 64), "float16"),
                T.alloc_shared((64, 64), "float16"),
                T.alloc_fragment((64, 64), "float32"),
            )

    return tilelang.compile(main, target=target)


@T.macro
def slice_of_c(a, b, c):
    wide = T.alloc_fragment((64, 128), "float32")
    issue_wgmma(a, b, wide[:, 0:64])


@T.macro
def too_many(a, b, c):
    T.wait_wgmma(8)


REFUSED = [
    (slice_of_c, "sm_90a", errors.LayoutError, "needs whole fragments for C and A"),
    (too_many, "sm_90a", errors.SemanticsError, "must be a constant from 0 to 7"),
]


@pytest.mark.parametrize(
    ("body", "target", "error", "text"), REFUSED, ids=lambda value: getattr(value, "name", None)
)
def test_refused(body, target, error, text):
    with pytest.raises(error, match=re.escape(text)):
        single(body, target)


def test_wg_wait_means_nothing_to_mma_sync():
    @T.macro
    def body(a, b, c):
        part = T.alloc_fragment((16, 32), "float32")
        T.gemm(a[0:16, :], b[:, 0:32], part, wg_wait=-1)

    messages = [remark.message for remark in single(body).remarks]
    assert any("wg_wait=-1 has no effect: mma.sync has no groups" in text for text in messages)


@pytest.mark.every_schedule
@pytest.mark.parametrize("issue", ISSUES.values(), ids=ISSUES)
def test_a_gemm_that_wgmma_cannot_carry_out_waits(issue):
    """The program counts two groups. The first one reads ``a``, which is overwritten afterwards."""

    @T.prim_func
    def main(
        A: T.Tensor((2, 64, 64), "bfloat16"),
        B: T.Tensor((64, 64), "bfloat16"),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((16, 32), "float32"),
        E: T.Tensor((64, 64), "bfloat16"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "bfloat16"), T.alloc_shared((64, 64), "bfloat16")
            c, d = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((16, 32), "float32")
            ready = T.alloc_barrier(arrive_count=128)
            T.copy(A[0, :, :], a)
            T.copy(B, b)
            T.clear(d)
            issue(a, b, c, clear=True)
            issue(a[0:16, :], b[0:32, :], d)
            T.wait_wgmma(1)
            T.mbarrier_arrive(ready)
            T.mbarrier_wait_parity(ready, 0)
            T.copy(A[1, :, :], a)
            T.wait_wgmma(0)
            T.copy(c, C)
            T.copy(d, D)
            T.copy(a, E)

    kernel = tilelang.compile(main, target="sm_90a")
    ptx = kernel.get_ptx()
    assert "wgmma.mma_async" in ptx and "mma.sync" in ptx and "wait_group.sync.aligned 1" not in ptx
    assert any(remark.topic == "argument" for remark in kernel.remarks)
    a, b = torch.randint(-3, 4, (2, 64, 64)).bfloat16(), torch.randint(-3, 4, (64, 64)).bfloat16()
    c, d, e = (
        poisoned(shape, kind, "cpu")
        for shape, kind in (((64, 64), "float32"), ((16, 32), "float32"), ((64, 64), "bfloat16"))
    )
    kernel(a, b, c, d, e)
    product = a[0].double() @ b.double().T
    assert torch.equal(c.double(), product)
    assert torch.equal(d.double(), product[:16, :32])
    assert torch.equal(e, a[1])


def test_columns_that_warpgroups_cannot_share_are_no_error():
    """B lies along N in swizzles of 64 columns, so two warpgroups cannot halve 64 of them."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "bfloat16"),
        B: T.Tensor((64, 64), "bfloat16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((64, 64), "bfloat16"), T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.wgmma_gemm(a, b, c, clear_accum=True)
            T.wait_wgmma(0)
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    assert any("warpgroups cannot share C" in remark.message for remark in kernel.remarks)
    a, b = torch.randint(-3, 4, (64, 64)).bfloat16(), torch.randint(-3, 4, (64, 64)).bfloat16()
    c = poisoned((64, 64), "float32", "cpu")
    kernel(a, b, c)
    assert torch.equal(c.double(), a.double() @ b.double())
