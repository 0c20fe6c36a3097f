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
