"""T.pdl_sync and T.pdl_trigger: kernels that begin before the one before them has ended."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import EmulatorError, options

M, N, K = 96, 80, 160
TARGETS = pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])


def compiled(target, function):
    return tilelang.compile(function, target=target)


def scale(target, factor=2):
    """y = factor * x, after which dependents may begin."""

    @T.prim_func
    def scale(x: T.Tensor((M, K), "float16"), y: T.Tensor((M, K), "float16")):
        with T.Kernel(M // 8, threads=128) as block:
            T.pdl_trigger()
            for i, j in T.Parallel(8, K):
                y[block * 8 + i, j] = x[block * 8 + i, j] * factor

    return compiled(target, scale)


def gemm(target, waits="before", stages=3):
    """C = A @ B; A is what the kernel before has written, B has been there before."""

    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            if waits == "before":
                T.pdl_sync()
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=stages):
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[k * 32, bx * 64], b)
                T.gemm(a, b, c)
            if waits == "after":
                T.pdl_sync()
            T.copy(c, C[by * 64, bx * 64])

    return compiled(target, gemm)


def chain(target, second, schedule="late", **settings):
    x = torch.randint(-4, 5, (M, K)).half()
    y, b, c = torch.zeros(M, K).half(), torch.randint(-4, 5, (K, N)).half(), torch.zeros(M, N)
    with options(schedule=schedule, **settings):
        scale(target)(x, y)
        second(y, b, c)
    return c, 2 * x.float() @ b.float()


@TARGETS
@pytest.mark.parametrize("schedule", ["late", "eager", 0, 1, 2])
@pytest.mark.parametrize("stages", [0, 3])
def test_a_gemm_waits_for_its_operand(target, schedule, stages):
    c, expected = chain(target, gemm(target, stages=stages), schedule)
    torch.testing.assert_close(c, expected, rtol=0, atol=0)


@TARGETS
def test_a_wait_that_comes_too_late(target):
    second = gemm(target, waits="after")
    with pytest.raises(EmulatorError, match=r"before griddepcontrol\.wait.*scale_kernel") as caught:
        chain(target, second)
    assert caught.value.kind == "race"
    assert caught.value.span.file == caught.value.earlier_span.file == __file__
    c, expected = chain(target, second, sanitize="report")
    assert (c != expected).any()


def test_kernels_that_do_not_wait_are_launched_after_the_others():
    c, expected = chain("sm_100a", gemm("sm_100a", waits="never"))
    torch.testing.assert_close(c, expected, rtol=0, atol=0)


@TARGETS
@pytest.mark.parametrize("waits", ["before", "never"])
def test_which_launches_are_dependent(target, waits):
    (launch,) = gemm(target, waits).spec.launches
    assert launch.dependent == (waits == "before")
