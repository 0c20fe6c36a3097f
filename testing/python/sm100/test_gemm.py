"""T.gemm on sm_100a against float64: kinds, shapes, transposes, operands in each memory."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from sm100_kernels import (
    ACCUMULATOR,
    check_product,
    compile_sm100,
    poisoned,
    random_values,
)

import tilelang
import tilelang.language as T


@dataclass(frozen=True)
class Gemm:
    """C (m, n) = A @ B in blocks; the letters of ``form`` say where A and C of a block lie.

    "s": shared memory, "t": tensor memory, "f": a fragment.
    """

    m: int
    n: int
    k: int
    block: tuple[int, int, int]
    form: str = "st"
    a_type: str = "bfloat16"
    b_type: str = ""
    c_type: str = ""
    trans_a: bool = False
    trans_b: bool = True
    threads: int = 128
    barrier: bool = False
    clear: bool = False  # by T.clear before the loop

    @property
    def a_shape(self):
        return (self.k, self.m) if self.trans_a else (self.m, self.k)

    @property
    def b_shape(self):
        return (self.n, self.k) if self.trans_b else (self.k, self.n)

    def build(self):
        a_type, b_type = self.a_type, self.b_type or self.a_type
        c_type = self.c_type or ACCUMULATOR.get(a_type, "float32")
        bm, bn, bk = self.block
        a_block = (bk, bm) if self.trans_a else (bm, bk)
        b_block = (bn, bk) if self.trans_b else (bk, bn)
        a_memory, c_memory = self.form
        alloc_c = T.alloc_tmem if c_memory == "t" else T.alloc_fragment
        trans_a, trans_b, clear, barrier = self.trans_a, self.trans_b, self.clear, self.barrier

        @T.prim_func
        def gemm(
            A: T.Tensor(self.a_shape, a_type),
            B: T.Tensor(self.b_shape, b_type),
            C: T.Tensor((self.m, self.n), c_type),
        ):
            grid = (T.ceildiv(self.n, bn), T.ceildiv(self.m, bm))
            with T.Kernel(*grid, threads=self.threads) as (bx, by):
                a_shared = T.alloc_shared(a_block, a_type)
                b_shared = T.alloc_shared(b_block, b_type)
                c = alloc_c((bm, bn), c_type)
                a = a_shared
                if a_memory != "s":
                    a = T.alloc_fragment(a_block, a_type)
                if a_memory == "t":
                    a_tmem = T.alloc_tmem(a_block, a_type)
                if barrier:
                    mbar = T.alloc_barrier(1)
                if clear:
                    T.clear(c)
                for k in T.serial(T.ceildiv(self.k, bk)):
                    if trans_a:
                        T.copy(A[k * bk, by * bm], a_shared)
                    else:
                        T.copy(A[by * bm, k * bk], a_shared)
                    if trans_b:
                        T.copy(B[bx * bn, k * bk], b_shared)
                    else:
                        T.copy(B[k * bk, bx * bn], b_shared)
                    if a_memory != "s":
                        T.copy(a_shared, a)
                    if a_memory == "t":
                        T.copy(a, a_tmem)
                    T.gemm(
                        a_tmem if a_memory == "t" else a,
                        b_shared,
                        c,
                        trans_a,
                        trans_b,
                        clear_accum=False if clear else (k == 0),
                        mbar=mbar if barrier else None,
                    )
                    if barrier:
                        T.mbarrier_wait_parity(mbar, k % 2)
                T.copy(c, C[by * bm, bx * bn])

        return gemm

    def check(self):
        kernel = compile_sm100(self.build())
        a = random_values(*self.a_shape, self.a_type)
        b = random_values(*self.b_shape, self.b_type or self.a_type)
        c = poisoned(self.m, self.n, self.c_type or ACCUMULATOR.get(self.a_type, "float32"))
        kernel(a, b, c)
        check_product(c, a.T if self.trans_a else a, b.T if self.trans_b else b)


KINDS = [
    ("float16", "float16", "float32"),
    ("bfloat16", "bfloat16", "float32"),
    ("float16", "float16", "float16"),
    ("float32", "float32", "float32"),
    ("float8_e4m3fn", "float8_e4m3fn", "float32"),
    ("float8_e5m2", "float8_e4m3fn", "float32"),
    ("float8_e4m3fn", "float8_e5m2", "float16"),
    ("int8", "int8", "int32"),
    ("uint8", "int8", "int32"),
    ("int8", "uint8", "int32"),
]


@pytest.mark.parametrize("form", ["st", "tt", "sf", "ff"])
@pytest.mark.parametrize(("a_type", "b_type", "c_type"), KINDS)
def test_kinds(form, a_type, b_type, c_type):
    Gemm(128, 64, 128, (128, 64, 64), form, a_type, b_type, c_type).check()


@pytest.mark.parametrize("a_type", ["bfloat16", "float8_e4m3fn", "int8"])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_transposes(a_type, trans_a, trans_b):
    Gemm(
        256, 64, 128, (128, 64, 64), a_type=a_type, trans_a=bool(trans_a), trans_b=bool(trans_b)
    ).check()


@pytest.mark.parametrize("a_type", ["float16", "float8_e5m2"])
def test_ts_with_b_as_rows_of_k(a_type):
    Gemm(128, 96, 128, (128, 96, 64), "tt", a_type, trans_b=False).check()


@pytest.mark.parametrize("form", ["st", "tt"])
@pytest.mark.parametrize("m", [64, 128, 256])
@pytest.mark.parametrize("n", [16, 48, 80, 96, 192])
def test_shapes(form, m, n):
    threads = 256 if m == 256 else 128
    Gemm(m, n, 64, (m, n, 64), form, threads=threads).check()


@pytest.mark.every_schedule
@pytest.mark.parametrize("n", [64, 128, 256])
@pytest.mark.parametrize(
    "a_type", ["bfloat16", "float16", "float32", "float8_e4m3fn", "int8", "uint8"]
)
def test_rows_of_weight_stationary_instructions(n, a_type):
    """An instruction of 32 rows keeps its columns in four groups of lanes."""
    Gemm(70, n + 9, 96, (32, n, 64), a_type=a_type, threads=128).check()


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("c_type", ["float32", "float16"])
def test_transposes_of_32_rows(trans_a, trans_b, c_type):
    Gemm(
        32, 64, 128, (32, 64, 64), a_type="float16", c_type=c_type,
        trans_a=bool(trans_a), trans_b=bool(trans_b), threads=256, barrier=True,
    ).check()  # fmt: skip


@pytest.mark.parametrize("n", [8, 24, 40])
def test_narrow_results(n):
    Gemm(128, n, 64, (128, n, 64)).check()


def test_integers_have_no_instruction_of_24_columns():
    Gemm(128, 24, 64, (128, 24, 64), a_type="int8").check()


def test_more_columns_than_an_instruction():
    Gemm(128, 384, 64, (128, 384, 64), threads=256).check()


@pytest.mark.every_schedule
@pytest.mark.parametrize("form", ["st", "tt"])
@pytest.mark.parametrize(
    ("k", "block_k"), [(16, 16), (32, 32), (48, 48), (192, 192), (192, 64), (512, 128), (320, 32)]
)
def test_depths(form, k, block_k):
    Gemm(128, 32, k, (128, 32, block_k), form).check()


@pytest.mark.every_schedule
@pytest.mark.parametrize("form", ["st", "tt"])
def test_grids(form):
    Gemm(384, 192, 128, (128, 64, 64), form).check()


@pytest.mark.parametrize("form", ["st", "tt", "sf"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(200, 72, 104), (130, 40, 72), (64, 200, 8), (257, 33, 31)]
)
def test_ragged(form, m, n, k):
    Gemm(m, n, k, (128, 64, 64), form).check()


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("m", "n", "k"), [(200, 72, 104), (257, 33, 31)])
def test_ragged_tf32(m, n, k, trans_a, trans_b):
    Gemm(
        m, n, k, (128, 40, 24), a_type="float32", trans_a=bool(trans_a), trans_b=bool(trans_b)
    ).check()


@pytest.mark.parametrize("form", ["st", "tt", "sf"])
def test_cleared_before_the_loop(form):
    Gemm(128, 64, 128, (128, 64, 64), form, clear=True).check()


@pytest.mark.every_schedule
@pytest.mark.parametrize("form", ["st", "tt"])
@pytest.mark.parametrize("threads", [128, 256])
def test_barrier_of_the_kernel(form, threads):
    Gemm(128, 128, 192, (128, 128, 64), form, threads=threads, barrier=True).check()


@pytest.mark.every_schedule
@pytest.mark.parametrize("threads", [256, 384, 512])
@pytest.mark.parametrize("form", ["st", "tt", "sf", "ff"])
def test_more_threads(form, threads):
    Gemm(128, 128, 128, (128, 128, 64), form, threads=threads).check()


@pytest.mark.parametrize("step", [16, 32, 64])
def test_k_slices_of_a_loop(step: int) -> None:
    """Slices inside the swizzle atom, at an offset known only when the kernel runs."""

    @T.prim_func
    def kernel(
        A: T.Tensor((128, 128), "float16"),
        B: T.Tensor((64, 128), "float16"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 128), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            T.copy(A, a)
            T.copy(B, b)
            for k in T.serial(128 // step):
                last = 128 // step - 1 - k
                T.gemm(
                    a[:, k * step : k * step + step],
                    b[:, last * step : last * step + step],
                    c,
                    transpose_B=True,
                )
            T.copy(c, C)

    a, b = torch.randn(128, 128).half(), torch.randn(64, 128).half()
    c = torch.full((128, 64), float("nan"))
    tilelang.compile(kernel, target="sm_100a")(a, b, c)
    reversed_b = b.double().view(64, -1, step).flip(1).reshape(64, 128)
    torch.testing.assert_close(c.double(), a.double() @ reversed_b.T, rtol=1e-3, atol=1e-3)
