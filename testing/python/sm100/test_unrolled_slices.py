"""T.unroll over slices of tensor memory and of fragments, which are chosen when compiling."""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import check_product, compile_sm100, poisoned, random_values

import tilelang.language as T
from tilelang import errors

pytestmark = pytest.mark.every_schedule


def test_row_blocks_of_an_accumulator():
    """256 rows in two products of 128; the indices are computed in the body."""

    @T.prim_func
    def blocks(
        A: T.Tensor((256, 128), "bfloat16"),
        B: T.Tensor((48, 128), "bfloat16"),
        C: T.Tensor((256, 48), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((256, 32), "bfloat16")
            b = T.alloc_shared((48, 32), "bfloat16")
            c = T.alloc_tmem((256, 48), "float32")
            for k in T.serial(4):
                T.copy(A[0, k * 32], a)
                T.copy(B[0, k * 32], b)
                for m in T.unroll(2):
                    row = m * 128
                    T.gemm(
                        a[row : row + 128, :],
                        b,
                        c[row : row + 128, :],
                        transpose_B=True,
                        clear_accum=k == 0,
                    )
            T.copy(c, C)

    kernel = compile_sm100(blocks)
    assert kernel.get_kernel_source().count("tcgen05_mma") >= 2
    a, b = random_values(256, 128, "bfloat16"), random_values(48, 128, "bfloat16")
    c = poisoned(256, 48, "float32")
    kernel(a, b, c)
    check_product(c, a, b.T)


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn"])
def test_steps_along_k_of_a_fragment(dtype: str, threads: int):
    """A in registers, by slices of K; the first product clears, which a condition says."""
    m, n, k, step = 128, 48, 160, 32

    @T.prim_func
    def steps(
        A: T.Tensor((m, k), dtype), B: T.Tensor((n, k), dtype), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_fragment((m, k), dtype)
            b = T.alloc_shared((n, step), dtype)
            c = T.alloc_fragment((m, n), "float32")
            T.copy(A, a)
            T.clear(c)
            for i in T.unroll(0, k, step):
                T.copy(B[0, i], b)
                T.gemm(a[:, i : i + step], b, c, transpose_B=True)
            T.copy(c, C)

    a, b = random_values(m, k, dtype), random_values(n, k, dtype)
    c = poisoned(m, n, "float32")
    compile_sm100(steps)(a, b, c)
    check_product(c, a, b.T)


def test_phases_of_a_barrier():
    """The parity that a wait is given, and the barrier's phases, go on from iteration to
    iteration, also in the loop around."""

    @T.prim_func
    def phases(
        A: T.Tensor((2, 256, 64), "bfloat16"),
        B: T.Tensor((32, 64), "bfloat16"),
        C: T.Tensor((2, 256, 32), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((32, 64), "bfloat16")
            c = T.alloc_tmem((256, 32), "float32")
            done = T.alloc_barrier(1)
            T.copy(B, b)
            for tile in T.serial(2):
                for m in T.unroll(3):
                    if m < 2:
                        T.copy(A[tile, m * 128, 0], a)
                        T.gemm(
                            a,
                            b,
                            c[m * 128 : (m + 1) * 128, :],
                            transpose_B=True,
                            clear_accum=True,
                            mbar=done,
                        )
                        T.mbarrier_wait_parity(done, (tile * 2 + m) % 2)
                T.copy(c, C[tile, 0, 0])

    a = torch.randn(2, 256, 64).bfloat16()
    b = random_values(32, 64, "bfloat16")
    c = torch.full((2, 256, 32), float("nan"))
    compile_sm100(phases)(a, b, c)
    for tile in range(2):
        check_product(c[tile], a[tile], b.T)


def test_loops_inside_and_outside():
    """Nested: the bounds of the inner loop, and an inner parallel loop, follow the outer one."""

    @T.prim_func
    def nested(X: T.Tensor((256, 96), "float32"), Y: T.Tensor((256, 96), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((128, 32), "float32")
            tile = T.alloc_tmem((256, 96), "float32")
            T.fill(tile, 7)
            for m in T.unroll(2):
                for k in T.unroll(m, 3):
                    column = k * 32
                    T.copy(X[m * 128, column], x)
                    for i, j in T.Parallel(128, 32):
                        scaled = x[i, j] * (m + 2)
                        x[i, j] = scaled + k
                    T.copy(x, tile[m * 128 : m * 128 + 128, column : column + 32])
            for k in T.unroll(3):
                for m in T.unroll(2):
                    part = T.alloc_var("int32", init=m)
                    part = part * 128
                    T.copy(tile[m * 128 : m * 128 + 128, k * 32 : k * 32 + 32], x)
                    T.copy(x, Y[part, k * 32])

    x, y = random_values(256, 96, "float32"), poisoned(256, 96, "float32")
    compile_sm100(nested)(x, y)
    expected = torch.empty(256, 96, dtype=torch.float64)
    expected[:] = 7
    for m in range(2):
        for k in range(m, 3):
            part = slice(m * 128, m * 128 + 128), slice(k * 32, k * 32 + 32)
            expected[part] = x[part].double() * (m + 2) + k
    assert torch.allclose(y.double(), expected, rtol=2**-22, atol=2**-22)


@pytest.mark.parametrize(
    "loop", [lambda: T.serial(2), lambda: T.unroll(2, unroll_factor=2)], ids=["serial", "factor"]
)
def test_other_loops_stay(loop):
    @T.prim_func
    def kept(X: T.Tensor((256, 32), "float32"), Y: T.Tensor((256, 32), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem((256, 32), "float32")
            T.copy(X, tile)
            for m in loop():
                T.copy(tile[m * 128 : m * 128 + 128, :], Y[m * 128, 0])

    with pytest.raises(errors.ShapeError, match=r"known only at run time.*T\.unroll"):
        compile_sm100(kept)


def test_a_loop_that_ends_early_stays():
    @T.prim_func
    def left(X: T.Tensor((256, 32), "float32"), Y: T.Tensor((256, 32), "float32"), n: T.int32):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem((256, 32), "float32")
            T.copy(X, tile)
            for m in T.unroll(2):
                if m == n:
                    break
                T.copy(tile[m * 128 : m * 128 + 128, :], Y[m * 128, 0])

    with pytest.raises(errors.ShapeError, match="without break, continue and allocations"):
        compile_sm100(left)
