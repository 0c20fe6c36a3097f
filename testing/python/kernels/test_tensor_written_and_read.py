"""A block that stores to a tensor and loads it again has a barrier between the threads of both."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import emulator, errors

SCHEDULES = ("late", "eager", 1, 2)


def compiled(function, target="sm_90a"):
    kernel = tilelang.compile(function, target=target)
    source = kernel.get_kernel_source()
    return kernel, source.count("__syncthreads()")


def run(kernel, make, check):
    """Launches under every schedule; the sanitizer reports races."""
    for schedule in SCHEDULES:
        tensors = make()
        with emulator.options(schedule=schedule):
            kernel(*tensors)
        check(*tensors)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("target", ["sm_80", "sm_100a"])
def test_a_tile_goes_through_a_tensor(target, dynamic):
    """19 columns are stored by other threads than they are loaded by."""
    m = T.dynamic("m") if dynamic else 200
    n = T.dynamic("n") if dynamic else 19

    @T.prim_func
    def kernel(A: T.Tensor((m, n), "int32"), C: T.Tensor((m, n), "int32"),
               D: T.Tensor((n, m), "int32")):  # fmt: skip
        with T.Kernel(T.ceildiv(m, 64), threads=96) as bx:
            f = T.alloc_fragment((64, 32), "int32")
            T.copy(A[bx * 64, 0], f)
            for i, j in T.Parallel(64, 32):
                C[bx * 64 + i, j] = f[i, j] * 2
            for j, i in T.Parallel(32, 64):
                D[j, bx * 64 + i] = C[bx * 64 + i, j] + 1

    def make():
        a = torch.randint(-99, 99, (200, 19)).int()
        return a, torch.full((200, 19), 77).int(), torch.full((19, 200), 77).int()

    def check(a, c, d):
        assert torch.equal(c, a * 2)
        assert torch.equal(d, (a * 2 + 1).T)

    built, barriers = compiled(kernel, target)
    # One in each version: rows of unknown length are there twice, and once more for whole blocks.
    assert barriers == (3 if dynamic else 1)
    assert "int* __restrict__ C" not in built.get_kernel_source()
    assert "int* __restrict__ D" in built.get_kernel_source()
    run(built, make, check)


@pytest.mark.parametrize("dynamic", [False, True])
def test_threads_that_touch_only_their_own_elements_do_not_wait(dynamic):
    """In place, in a loop, in two halves."""
    n = T.dynamic("n") if dynamic else 128

    @T.prim_func
    def kernel(A: T.Tensor((512, n), "float32"), B: T.Tensor((512, n), "float32")):
        with T.Kernel(2, threads=128) as bx:
            f = T.alloc_fragment((64, 64), "float32")
            for k in T.serial(4):
                for half in T.serial(2):
                    T.copy(A[bx * 256 + k * 64, half * 64], f)
                    for i, j in T.Parallel(64, 64):
                        f[i, j] = f[i, j] + 1.0
                    T.copy(f, A[bx * 256 + k * 64, half * 64])
                T.copy(f, B[bx * 256 + k * 64, 0])
                T.copy(f, B[bx * 256 + k * 64, 64])

    built, barriers = compiled(kernel)
    assert barriers == 0

    def make():
        return torch.arange(512 * 128).float().reshape(512, 128), torch.zeros(512, 128)

    def check(a, b):
        assert torch.equal(a, make()[0] + 1)
        assert torch.equal(b, torch.cat([a[:, 64:], a[:, 64:]], dim=1))

    run(built, make, check)


def test_a_loop_carries_the_hazard():
    """Each iteration reads what another thread stored in the one before."""

    @T.prim_func
    def kernel(C: T.Tensor((128,), "int32"), steps: T.int32):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((128,), "int32")
            for _ in T.serial(steps):
                for i in T.Parallel(128):
                    f[i] = C[(i + 1) % 128]
                for i in T.Parallel(128):
                    C[i] = f[i]

    built, barriers = compiled(kernel)
    assert barriers == 2
    start = torch.randint(-99, 99, (128,)).int()
    run(built, lambda: (start.clone(), 5), lambda c, _: _equal(c, start.roll(-5)))


def _equal(got, want):
    assert torch.equal(got, want)


def test_two_stores_of_other_threads():
    """What the second statement stores must stay."""

    @T.prim_func
    def kernel(C: T.Tensor((64, 64), "int32")):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(64, 64):
                C[i, j] = 1
            for i, j in T.Parallel(64, 8):
                C[j, 63 - i] = 2

    built, barriers = compiled(kernel)
    assert barriers == 1
    want = torch.ones(64, 64).int()
    want[:8] = 2
    run(built, lambda: (torch.zeros(64, 64).int(),), lambda c: _equal(c, want))


def test_atomics_need_no_barrier_among_themselves():
    @T.prim_func
    def kernel(C: T.Tensor((8,), "int32"), D: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                T.atomic_add(C[i % 8], 1)
            for i in T.Parallel(128):
                T.atomic_add(C[i % 4], 1)
            for i in T.Parallel(8):
                D[i] = C[i]

    built, barriers = compiled(kernel)
    assert barriers == 1
    want = torch.tensor([48] * 4 + [16] * 4).int()
    run(built, lambda: (torch.zeros(8).int(), torch.zeros(8).int()), lambda _, d: _equal(d, want))


def test_threads_that_cannot_wait_are_refused():
    @T.prim_func
    def kernel(C: T.Tensor((64,), "int32"), D: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=128):
            tid = T.get_thread_binding()
            if tid % 2 == 0:
                C[tid // 2] = tid
                D[tid // 2] = C[63 - tid // 2]

    with pytest.raises(errors.SemanticsError, match="the same elements of C"):
        tilelang.compile(kernel, target="sm_90a")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("placed", [True, False])
def test_a_barrier_of_the_program_hands_over_elements(target, placed):
    """NVRTC reads before the barrier what it is told that no other thread writes."""

    @T.prim_func
    def kernel(C: T.Tensor((16, 1), "int32"), D: T.Tensor((16, 128), "int32")):
        with T.Kernel(16, threads=128) as bx:
            for i in T.Parallel(1):
                C[bx, i] = 15 - bx
            T.sync_threads()
            for i in T.Parallel(128):
                D[bx, i] = C[bx, 0] + i

    options = None if placed else {"tl.disable_thread_storage_sync": True}
    built = tilelang.compile(kernel, target=target, pass_configs=options)
    want = torch.arange(15, -1, -1)[:, None] + torch.arange(128)

    def make():
        return torch.full((16, 1), 77).int(), torch.zeros(16, 128).int()

    run(built, make, lambda _, d: _equal(d, want.int()))


def test_threads_that_touch_their_own_elements_keep_restrict():
    @T.prim_func
    def kernel(C: T.Tensor((4, 128), "float32")):
        with T.Kernel(4, threads=128) as bx:
            for i in T.Parallel(128):
                C[bx, i] = C[bx, i] * 2.0

    built, barriers = compiled(kernel)
    assert barriers == 0
    assert "float* __restrict__ C" in built.get_kernel_source()


@pytest.mark.parametrize("columns", [48, 64])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_rows_of_one_block_and_rows_of_each_block(target, columns):
    """A condition makes the row of the store a number; the load has the index of the block."""

    @T.prim_func
    def kernel(A: T.Tensor((32, columns), "float32"), C: T.Tensor((96, columns), "float32"),
               D: T.Tensor((96, columns), "float32"), n: T.int32):  # fmt: skip
        with T.Kernel(3, threads=128) as bx:
            if bx == 1:
                for i, j in T.Parallel(32, columns):
                    C[32 + i, j] = A[i, j] * 2.0
            for j, i in T.Parallel(columns, 32):
                if (bx * n + i) < 96:
                    D[bx * n + i, j] = C[bx * n + (n - 1 - i), j]

    a, c = torch.randn(32, columns), torch.randn(96, columns)
    after = c.clone()
    after[32:64] = a * 2
    want = after.view(3, 32, columns).flip(1).reshape(96, columns)
    built = tilelang.compile(kernel, target=target)

    def make():
        return a.clone(), c.clone(), torch.full((96, columns), torch.nan), 32

    run(built, make, lambda _a, _c, d, _n: _equal(d, want))


def test_a_partial_tile_goes_through_a_tensor():
    """Blocks with whole tiles have code of their own, in which their first row is a number."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 32), "float16"), C: T.Tensor((56, 64), "float32"),
               D: T.Tensor((64, 64), "float32")):  # fmt: skip
        with T.Kernel(2, threads=256) as bx:
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            product = T.alloc_fragment((32, 64), "float32")
            tile = T.alloc_shared((32, 64), "float32")
            T.copy(A[bx * 32, 0], a)
            T.copy(A[bx * 32, 0], b)
            T.gemm(a, b, product, clear_accum=True)
            T.copy(product, C[bx * 32, 0])
            T.copy(C[bx * 32, 0], tile)
            T.copy(tile, D[bx * 32, 0])

    a = torch.randn(64, 32).half()
    blocks = a.view(2, 32, 32).double()
    wide = torch.nn.functional.pad(blocks, (0, 32))
    want = (blocks @ wide).reshape(64, 64).float()

    def make():
        return a.clone(), torch.full((56, 64), torch.nan), torch.full((64, 64), torch.nan)

    def check(_, c, d):
        torch.testing.assert_close(c, want[:56])
        torch.testing.assert_close(d[:56], want[:56])
        assert (d[56:] == 0).all()

    run(compiled(kernel)[0], make, check)
