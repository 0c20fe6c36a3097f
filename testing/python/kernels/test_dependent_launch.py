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
@pytest.mark.parametrize("schedule", ["late", 0, 1])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_residual_is_not_loaded_before_the_wait(target, schedule, persistent):
    """Operands are loaded before it; what the kernel before writes is added to their product."""

    @T.prim_func
    def residual(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, K), "float16"),
        y: T.Tensor((M, K), "float16"), C: T.Tensor((M, K), "float16"),
    ):  # fmt: skip
        grid = T.ceildiv(K, 64), T.ceildiv(M, 64)
        with T.Kernel(4 if persistent else 6, threads=128) as block:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            r = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for bx, by in T.Persistent(grid, 4 if persistent else 6, block):
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                    T.copy(A[by * 64, k * 32], a)
                    T.copy(B[k * 32, bx * 64], b)
                    T.gemm(a, b, c)
                T.pdl_sync()
                T.copy(y[by * 64, bx * 64], r)
                for i, j in T.Parallel(64, 64):
                    c[i, j] += r[i, j]
                T.copy(c, C[by * 64, bx * 64])

    x, a = (torch.randint(-4, 5, (M, K)).half() for _ in range(2))
    b, y, c = (
        torch.randint(-2, 3, (K, K)).half(),
        torch.zeros(M, K).half(),
        torch.zeros(M, K).half(),
    )
    kernel = compiled(target, residual)
    with options(schedule=schedule):
        scale(target)(x, y)
        kernel(a, b, y, c)
    torch.testing.assert_close(c, (a.float() @ b.float() + 2 * x.float()).half(), rtol=0, atol=0)


@TARGETS
def test_one_thread_waits_for_its_block(target):
    """A condition on threads keeps loads where they are, behind the barrier."""

    @T.prim_func
    def copy(y: T.Tensor((M, K), "float16"), z: T.Tensor((M, K), "float16")):
        with T.Kernel(M // 8, threads=128) as block:
            rows = T.alloc_shared((8, K), "float16")
            if T.get_thread_binding() == 0:
                T.pdl_sync()
            T.sync_threads()
            T.copy(y[block * 8, 0], rows)
            T.copy(rows, z[block * 8, 0])

    x, y, z = torch.randn(M, K).half(), torch.zeros(M, K).half(), torch.zeros(M, K).half()
    scale(target)(x, y)
    compiled(target, copy)(y, z)
    assert torch.equal(z, 2 * x)


def test_kernels_of_other_launches_between():
    """A kernel that lets no dependents start has ended when the next one starts."""
    x, y, z = torch.randn(M, K).half(), torch.zeros(M, K).half(), torch.zeros(M, K).half()

    @T.prim_func
    def early(y: T.Tensor((M, K), "float16"), z: T.Tensor((M, K), "float16")):
        with T.Kernel(M // 8, threads=128) as block:
            for i, j in T.Parallel(8, K):
                z[block * 8 + i, j] = y[block * 8 + i, j]
            T.pdl_sync()

    kernel = compiled("sm_100a", early)
    scale("sm_100a")(x, y)
    kernel_between = gemm("sm_100a", waits="never")
    kernel_between(y, torch.zeros(K, N).half(), torch.zeros(M, N))
    kernel(y, z)
    assert torch.equal(z, 2 * x)
    scale("sm_100a")(x, y)
    with pytest.raises(EmulatorError, match="before griddepcontrol"):
        kernel(y, z)


def test_ampere_has_no_dependent_launches():
    (launch,) = gemm("sm_80").spec.launches
    assert not launch.dependent
    c, expected = chain("sm_80", gemm("sm_80"))
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
