"""T.tcgen05_mma_arrive: products issued by hand, and the mbarriers that they complete on."""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import compile_sm100, poisoned

import tilelang
import tilelang.language as T
from tilelang import emulator, errors

M, N, K, STEPS = 128, 64, 64, 5
SCHEDULES = ["late", "eager", 1, 2, 3]


def check(kernel, tiles: int) -> None:
    """Sums of STEPS products of ``tiles`` tiles each."""
    a = torch.randint(-4, 5, (STEPS, M, K * tiles)).to(torch.bfloat16)
    b = torch.randint(-4, 5, (STEPS, N, K * tiles)).to(torch.bfloat16)
    expected = sum(a[i].double() @ b[i].double().T for i in range(STEPS))
    for schedule in SCHEDULES:
        c = poisoned(M, N, "float32")
        with emulator.options(schedule=schedule, instruction_limit=5_000_000):
            kernel(a, b, c)
        assert torch.equal(c.double(), expected), schedule


@pytest.mark.parametrize("tiles", [1, 2])
def test_one_arrival_for_several_products(tiles):
    @T.prim_func
    def kernel(
        A: T.Tensor((STEPS, M, K * tiles), "bfloat16"),
        B: T.Tensor((STEPS, N, K * tiles), "bfloat16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, K * tiles), "bfloat16")
            b = T.alloc_shared((N, K * tiles), "bfloat16")
            c = T.alloc_tmem((M, N), "float32")
            done = T.alloc_barrier(1)
            for step in T.serial(STEPS):
                T.copy(A[step, 0, 0], a)
                T.copy(B[step, 0, 0], b)
                for t in range(tiles):
                    T.tcgen05_gemm(
                        a[:, t * K : (t + 1) * K],
                        b[:, t * K : (t + 1) * K],
                        c,
                        transpose_B=True,
                        clear_accum=(step == 0) if t == 0 else False,
                        mbar=None,
                    )
                T.tcgen05_mma_arrive(done)
                T.mbarrier_wait_parity(done, step % 2)
            T.copy(c, C)

    check(compile_sm100(kernel), tiles)


def test_ring_of_stages():
    """A warpgroup loads a ring of two stages, a second one issues products and frees stages by
    arrivals of the tensor core; a last arrival ends the accumulation."""

    @T.prim_func
    def kernel(
        A: T.Tensor((STEPS, M, K), "bfloat16"),
        B: T.Tensor((STEPS, N, K), "bfloat16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((2, M, K), "bfloat16")
            b = T.alloc_shared((2, N, K), "bfloat16")
            c = T.alloc_tmem((M, N), "float32")
            full = T.alloc_barrier([128, 128])
            empty = T.alloc_barrier([1, 1])
            done = T.alloc_barrier(1)
            thread = T.get_thread_binding()
            if thread < 128:
                for step in T.serial(STEPS):
                    T.mbarrier_wait_parity(empty[step % 2], (step // 2 + 1) % 2)
                    for i, k in T.Parallel(M, K):
                        a[step % 2, i, k] = A[step, i, k]
                    for j, k in T.Parallel(N, K):
                        b[step % 2, j, k] = B[step, j, k]
                    T.fence_proxy_async()
                    T.mbarrier_arrive(full[step % 2])
            else:
                for step in T.serial(STEPS):
                    T.mbarrier_wait_parity(full[step % 2], step // 2 % 2)
                    T.tcgen05_gemm(
                        a[step % 2, :, :],
                        b[step % 2, :, :],
                        c,
                        transpose_B=True,
                        clear_accum=step == 0,
                        mbar=None,
                    )
                    T.tcgen05_mma_arrive(empty[step % 2])
                T.tcgen05_mma_arrive(done)
                T.mbarrier_wait_parity(done, 0)
                T.copy(c, C)

    check(compile_sm100(kernel), 1)


def products_of(issuer, arrival, threads):
    """Groups of threads that conditions select issue products, and arrive."""

    @T.prim_func
    def kernel(
        A: T.Tensor((STEPS, M, K), "bfloat16"),
        B: T.Tensor((STEPS, N, K), "bfloat16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((M, K), "bfloat16")
            b = T.alloc_shared((N, K), "bfloat16")
            c = T.alloc_tmem((M, N), "float32")
            done = T.alloc_barrier(1)
            for step in T.serial(STEPS):
                T.copy(A[step, 0, 0], a)
                T.copy(B[step, 0, 0], b)
                if issuer():
                    T.tcgen05_gemm(a, b, c, transpose_B=True, clear_accum=step == 0, mbar=None)
                if arrival():
                    T.tcgen05_mma_arrive(done)
                T.mbarrier_wait_parity(done, step % 2)
            T.copy(c, C)

    return kernel


def thread():
    return T.get_thread_binding()


#: Who issues, who arrives, the threads of the block.
COVERED = {
    "second warpgroup, all": (lambda: thread() >= 128, lambda: True, 256),
    "inner warpgroup, all": (lambda: thread() // 128 == 1, lambda: True, 384),
    "warp, its upper half of the block": (
        lambda: thread() // 32 == 6,
        lambda: thread() >= 128,
        256,
    ),
    "first thread, all": (lambda: thread() == 0, lambda: True, 128),
    "some thread, all": (lambda: thread() == 77, lambda: True, 256),
    "thread of two dimensions": (
        lambda: (T.get_thread_binding(0) == 3) & (T.get_thread_binding(1) == 2),
        lambda: True,
        (32, 4),
    ),
    "all, first warp": (lambda: True, lambda: thread() < 32, 256),
}


@pytest.mark.parametrize("groups", COVERED)
def test_the_issuing_thread_arrives(groups):
    """An arrival covers what its own thread issued: it goes to the one that did."""
    check(compile_sm100(products_of(*COVERED[groups])), 1)


def test_the_target_has_no_tcgen05():
    @T.prim_func
    def kernel(C: T.Tensor((M,), "float32")):
        with T.Kernel(1, threads=128):
            done = T.alloc_barrier(1)
            T.tcgen05_mma_arrive(done)
            C[T.get_thread_binding()] = 1.0

    with pytest.raises(errors.TargetError, match="sm_90a has no tcgen05"):
        tilelang.compile(kernel, target="sm_90a")
