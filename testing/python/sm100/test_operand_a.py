"""What tcgen05.mma reads after registers were stored is what the fragment held.

A product with the identity shows A itself: every element, at its place. That the planned stores
fill the cells of the PTX ISA's formulas is tested, without any tensor core, beside the layouts.
"""

from __future__ import annotations

import re

import pytest
import torch
from changed_ptx import emulate
from sm100_kernels import ACCUMULATOR, as_read, compile_sm100, poisoned, random_values

import tilelang.language as T

OPERANDS = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2", "int8", "uint8")


def through_identity(dtype: str, m: int, k: int, threads: int, begin: int, width: int):
    """C = A[:, begin : begin + width] @ 1, A in tensor memory."""
    accumulator = ACCUMULATOR.get(dtype, "float32")

    @T.prim_func
    def identity(
        A: T.Tensor((m, k), dtype),
        Eye: T.Tensor((width, width), dtype),
        C: T.Tensor((m, width), accumulator),
    ):
        with T.Kernel(1, threads=threads):
            a_frag = T.alloc_fragment((m, k), dtype)
            a_tmem = T.alloc_tmem([m, k], dtype)
            b_shared = T.alloc_shared((width, width), dtype)
            c_tmem = T.alloc_tmem([m, width], accumulator)
            T.copy(A, a_frag)
            T.copy(a_frag, a_tmem)
            T.copy(Eye, b_shared)
            T.gemm(
                a_tmem[:, begin : begin + width],
                b_shared,
                c_tmem,
                transpose_B=True,
                clear_accum=True,
            )
            T.copy(c_tmem, C)

    return identity


def check_identity(dtype, m, k, threads, begin, width):
    kernel = compile_sm100(through_identity(dtype, m, k, threads, begin, width))
    a = random_values(m, k, dtype)
    c = poisoned(m, width, ACCUMULATOR.get(dtype, "float32"))
    kernel(a, torch.eye(width).to(a.dtype), c)
    assert torch.equal(c.double(), as_read(a)[:, begin : begin + width])


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("m", [64, 128, 256])
@pytest.mark.parametrize("dtype", OPERANDS)
def test_stored_registers_are_what_the_mma_reads(dtype, m, threads):
    check_identity(dtype, m, 64, threads, 0, 64)


@pytest.mark.parametrize("dtype", OPERANDS)
def test_slices_along_k(dtype):
    check_identity(dtype, 128, 128, 128, 64, 32)


WHOLE_ROWS = pytest.mark.may_spill("a thread holds a row of 256 results")


@pytest.mark.parametrize("k", [16, 48, 80, 192, pytest.param(256, marks=WHOLE_ROWS)])
def test_every_k(k):
    check_identity("bfloat16", 128, k, 128, 0, k)


def test_unpacking_stores_would_break_it():
    """With .unpack::16b the same kernel multiplies something else than A."""
    m, k = 128, 64
    kernel = compile_sm100(through_identity("bfloat16", m, k, 128, 0, k))
    store = r"tcgen05\.st\.sync\.aligned\.32x32b\.x32\.b32"
    broken, count = re.subn(
        store, "tcgen05.st.sync.aligned.32x32b.x32.unpack::16b.b32", kernel.get_ptx()
    )
    assert count == 1
    emulate(kernel, broken)
    a, c = random_values(m, k, "bfloat16"), poisoned(m, k, "float32")
    kernel(a, torch.eye(k).bfloat16(), c)
    assert not torch.equal(c, a.float())
    # Every second element it reads is the empty upper half of a cell.
    assert torch.equal(c[:, ::4], a[:, : k // 2 : 2].float())
    assert torch.equal(c[:, 1::2], torch.zeros(m, k // 2))


@pytest.mark.every_schedule
@pytest.mark.parametrize("threads", [256, 384])
def test_elements_that_several_warpgroups_hold(threads):
    """mma.sync decides on the fragment; of the warps that hold an element one stores it."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 32), "float16"), B: T.Tensor((32, 32), "float16"),
        Few: T.Tensor((24, 32), "float16"), C: T.Tensor((128, 32)), D: T.Tensor((128, 24)),
        steps: T.int32,
    ):  # fmt: skip
        with T.Kernel(1, threads=threads):
            a = T.alloc_fragment((128, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            few = T.alloc_shared((24, 32), "float16")
            c = T.alloc_fragment((128, 32), "float32")
            d = T.alloc_fragment((128, 24), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(Few, few)
            T.clear(c)
            T.clear(d)
            for _ in T.Pipelined(steps, num_stages=2):
                T.gemm(a, few, d, transpose_B=True)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)
            T.copy(d, D)

    a, b, few = (torch.randint(-3, 4, (rows, 32)).half() for rows in (128, 32, 24))
    c, d = (torch.full((128, columns), float("nan")) for columns in (32, 24))
    compile_sm100(main)(a, b, few, c, d, 3)
    assert torch.equal(c.double(), 3 * a.double() @ b.double().T)
    assert torch.equal(d.double(), 3 * a.double() @ few.double().T)
