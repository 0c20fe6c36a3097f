"""Guards that ask for the variable of a loop, where the loop's length is known at run time only."""

from __future__ import annotations

import pytest
from verify.mutants import compiled, mutants

import tilelang.language as T
from tilelang import errors
from tilelang.transform import verify_synchronization

TARGETS = ("sm_80", "sm_90a", "sm_100a")


@pytest.mark.parametrize("target", TARGETS)
def test_a_guard_on_a_loop_of_unknown_length(target) -> None:
    """Each thread reads what it wrote itself, in iterations that stay inside of the tensor."""

    @T.prim_func
    def kernel(A: T.Tensor((8, 16), "float32"), C: T.Tensor((8, 16), "float32"), n: T.int32):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((8, 16), "float32")
            T.copy(A, s, disable_tma=True)
            for k in T.serial(n):
                for i, j in T.Parallel(8, 16):
                    C[i, k * 16 + j] = s[i, j]

    verify_synchronization(compiled(kernel, target))


@pytest.mark.parametrize("target", TARGETS)
def test_a_guard_on_a_loop_hides_no_race(target) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8, 16), "float32"), C: T.Tensor((8, 16), "float32"), n: T.int32):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((8, 16), "float32")
            T.copy(A, s, disable_tma=True)
            for k in T.serial(n):
                for i, j in T.Parallel(8, 16):
                    C[i, k * 16 + j] = s[7 - i, j]

    func = compiled(kernel, target)
    verify_synchronization(func)
    without_barriers = [m for key, m in mutants(func) if key[0].startswith("sync_")]
    assert without_barriers
    for mutant in without_barriers:
        with pytest.raises(errors.SynchronizationError, match="do not synchronize in between"):
            verify_synchronization(mutant)


def test_tiles_of_one_thread_in_one_place() -> None:
    """Thread 0 alone writes both tiles, which share bytes: compared byte by byte."""

    @T.prim_func
    def kernel(
        At: T.Tensor((1,), "int32"), X: T.Tensor((5,), "float32"), B: T.Tensor((1,), "int16")
    ):
        with T.Kernel(1, threads=128):
            value = T.alloc_fragment((1, 1), "float32")
            at = T.alloc_fragment((1,), "int32")
            tile = T.alloc_shared((1,), "int16")
            T.copy(At, at)
            for k in T.serial(1):
                T.copy(X[at[k] : at[k] + 1], value[0:1, k])
            T.copy(B, tile)

    verify_synchronization(compiled(kernel, "sm_80"))


def test_threads_that_touch_nothing_race_with_no_engine() -> None:
    """Warps that have not waited for a load have no element of the tile that takes its place."""

    @T.prim_func
    def kernel(A: T.Tensor((128, 48), "int8"), B: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=256):
            filler = T.alloc_shared((96,), "int32")
            loaded = T.alloc_shared((128, 48), "int8")
            tile = T.alloc_shared((3,), "int32")
            if T.get_thread_binding() < 128:
                T.copy(A, loaded)
            T.copy(B, tile)
            for i in T.Parallel(96):
                filler[i] = i
            T.copy(tile, B)
            T.copy(filler[0:3], B)

    verify_synchronization(compiled(kernel, "sm_90a"))


def test_threads_beside_warps_that_load_matrices() -> None:
    """Which lane of an ldmatrix gets an element says nothing of the stores on the other side."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 16), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((64, 16), "float16")
            tile = T.alloc_shared((48, 128), "int8")
            result = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            if T.get_thread_binding() < 128:
                for i, j in T.Parallel(48, 128):
                    tile[i, j] = j * 2
            else:
                T.gemm(a, a, result, transpose_B=True, clear_accum=True)
                T.copy(result, B)

    verify_synchronization(compiled(kernel, "sm_80"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "columns", "threads"), [(16, 104, 256), (24, 64, 128)])
def test_elements_that_a_choice_does_not_load(rows, columns, threads, target) -> None:
    """Registers beyond the tile are zero: the slot after it, which is being loaded, is not read."""

    @T.prim_func
    def kernel(
        A: T.Tensor((80, columns), "float16"), C: T.Tensor((80, columns), "float16"), n: T.int32
    ):
        with T.Kernel(1, threads=threads):
            a, c = (T.alloc_shared((rows, columns), "float16") for _ in range(2))
            local = T.alloc_fragment((rows, columns), "float16")
            for k in T.Pipelined(n, num_stages=4):
                T.copy(A[k * rows, 0], a)
                T.copy(a, local)
                T.copy(local, c)
                T.copy(c, C[k * rows, 0])

    func = compiled(kernel, target, without=["rename_tiles"])
    verify_synchronization(func)
    waits = ("mbarrier_wait", "tl::cp_async_wait")
    without_waits = [m for key, m in mutants(func) if key[0].startswith(waits)]
    assert without_waits
    for mutant in without_waits:
        with pytest.raises(errors.SynchronizationError):
            verify_synchronization(mutant)


@pytest.mark.parametrize(("rows", "depth"), [(96, 256), (72, 384), (88, 320)])
def test_a_gemm_by_threads_beside_a_load(rows, depth) -> None:
    """Of more than a million products, with and without a guard; each reads the slot that came."""

    @T.prim_func
    def kernel(
        A: T.Tensor((depth, rows * 5), "bfloat16"), C: T.Tensor((rows, 48), "float32"), n: T.int32
    ):
        with T.Kernel(1, threads=512):
            a = T.alloc_shared((depth, rows), "bfloat16")
            b = T.alloc_shared((depth, 48), "bfloat16")
            c = T.alloc_fragment((rows, 48), "float32")
            T.fill(b, 1)
            T.clear(c)
            for k in T.Pipelined(n, num_stages=2):
                T.copy(A[0, k * rows], a)
                T.gemm(a, b, c, transpose_A=True, policy=T.GemmWarpPolicy.FullCol)
            T.copy(c, C)

    func = compiled(kernel, "sm_90a")
    verify_synchronization(func)
    without_waits = [m for key, m in mutants(func) if key[0].startswith("mbarrier_wait")]
    assert without_waits
    for mutant in without_waits:
        with pytest.raises(errors.SynchronizationError):
            verify_synchronization(mutant)


def test_a_swizzled_tile_that_threads_read_beside_a_load() -> None:
    """Every warp computes the whole product, of more points than are enumerated."""

    @T.prim_func
    def kernel(A: T.Tensor((955, 104), "float16"), C: T.Tensor((3, 16, 192), "float32")):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((192, 16), "float16")
            b = T.alloc_shared((192, 96), "float16")
            first = T.alloc_fragment((16, 96), "float32")
            weights = T.alloc_fragment((16, 96), "float16")
            second = T.alloc_fragment((16, 192), "float32")
            T.fill(a, 1)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[k * 192, 0], b)
                T.gemm(a, b, first, transpose_A=True, clear_accum=True)
                T.copy(first, weights)
                T.gemm(weights, b, second, transpose_B=True, clear_accum=True)
                T.copy(second, C[k, :, :])

    verify_synchronization(compiled(kernel, "sm_90a"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pipelined", [False, True])
def test_a_choice_by_the_iteration(target, pipelined) -> None:
    """Rows below 5 exist in the first iteration only: there i & 7 is i in a swizzled address."""

    @T.prim_func
    def kernel(A: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2) if pipelined else T.serial(4):
                T.copy(A[k * 64, 0], a)
                for i, j in T.Parallel(64, 64):
                    a[i, j] = T.if_then_else(k * 64 + i < 5, a[i, j], 0)
                T.gemm(a, a, c)
            T.copy(c, C)

    func = compiled(kernel, target, without=["rename_tiles"])
    verify_synchronization(func)
    waits = ("mbarrier_wait", "tl::cp_async_wait") if pipelined else ("sync_",)
    without_waits = [m for key, m in mutants(func) if key[0].startswith(waits)]
    assert without_waits
    for mutant in without_waits:
        with pytest.raises(errors.SynchronizationError):
            verify_synchronization(mutant)


def test_a_gemm_by_threads_beside_copies_of_threads() -> None:
    """More than a million products read the slot that came, while cp.async fills the other one."""

    @T.prim_func
    def kernel(
        A: T.Tensor((128, 512), "float8_e4m3"),
        B: T.Tensor((512, 128), "float8_e4m3"),
        C: T.Tensor((128, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 128), "float8_e4m3")
            b = T.alloc_shared((128, 128), "float8_e4m3")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 128], a)
                T.copy(B[k * 128, 0], b)
                if k >= 1:
                    T.gemm(a, b, c)
            T.copy(c, C)

    func = compiled(kernel, "sm_80")
    verify_synchronization(func)
    without_waits = [m for key, m in mutants(func) if key[0].startswith("tl::cp_async_wait")]
    assert without_waits
    for mutant in without_waits:
        with pytest.raises(errors.SynchronizationError):
            verify_synchronization(mutant)
