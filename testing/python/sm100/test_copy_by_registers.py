"""Copies from shared to tensor memory that tcgen05.cp cannot do go by way of registers.

They are right, and a remark says why.
"""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import (
    check_product,
    compile_sm100,
    poisoned,
    random_bits,
    random_values,
    same_bits,
)
from tmem_cp_cases import accumulated, cps, registers_to_tmem, ts_gemm

import tilelang.language as T
from tilelang.layout import make_linear_layout, make_padded_layout


def remark_of(kernel) -> str:
    """What the compiler says of the copy into tensor memory, which it does by way of registers."""
    assert cps(kernel) == [] and registers_to_tmem(kernel)
    (text,) = [r.message for r in kernel.remarks if "goes through registers" in r.message]
    return text


def through(m, n, dtype, to=None, shared=None, layout=None, part=None, threads=128):
    """A kernel that copies X to Y through shared and tensor memory.

    ``to``: the type in tensor memory; ``shared``: the shape of the shared buffer; ``layout``: a
    function that makes its layout; ``part``: the columns [0, part) alone.
    """
    to = to or dtype
    part = part or n

    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, part), to)):
        with T.Kernel(1, threads=threads):
            source = T.alloc_shared(shared or (m, n), dtype)
            tile = T.alloc_tmem([m, part], to)
            if layout is not None:
                T.annotate_layout({source: layout(source)})
            T.copy(X, source[0:m, 0:n])
            T.copy(source[0:m, 0:part], tile)
            T.copy(tile, Y)

    return kernel


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (through(64, 32, "float32"), "it writes all 128 lanes, and the tile has 64"),
        (through(64, 64, "bfloat16"), "it writes all 128 lanes, and the tile has 64"),
        (
            through(128, 20, "bfloat16"),
            "rows of shared buffer source are not a multiple of 16 bytes",
        ),
        (through(128, 24, "bfloat16", part=12), "its rows do not fill units of 16 bytes"),
        (
            through(128, 64, "float16", layout=lambda b: make_padded_layout(b, 8)),
            "its rows are not 16 bytes apart",
        ),
        (
            through(128, 64, "float16", layout=lambda b: make_linear_layout(b)),
            "its rows are not 16 bytes apart",
        ),
        (through(128, 64, "float16", shared=(132, 72)), "or their number is not a multiple of 8"),
    ],
    ids=["64 rows", "64 packed rows", "40 bytes", "24 bytes", "padded", "row-major", "132 rows"],
)
def test_falls_back(function, reason):
    kernel = compile_sm100(function)
    x = random_bits(*map(int, function.params[0].shape), str(function.params[0].dtype))
    y = random_bits(*map(int, function.params[1].shape), str(function.params[1].dtype))
    assert reason in remark_of(kernel)
    kernel(x, y)
    assert same_bits(y, x[:, : y.shape[1]])


def test_conversions_fall_back():
    kernel = compile_sm100(through(128, 64, "float32", to="bfloat16"))
    assert "it converts float32 to bfloat16" in remark_of(kernel)
    x, y = random_values(128, 64, "float32"), poisoned(128, 64, "bfloat16")
    kernel(x, y)
    assert torch.equal(y, x.bfloat16())


@pytest.mark.parametrize(("begin", "rows"), [(0, 64), (64, 64), (32, 96)])
def test_some_of_the_rows_fall_back(begin, rows):
    m, n = 128, 32

    @T.prim_func
    def part(
        X: T.Tensor((m, n), "float32"),
        Z: T.Tensor((rows, n), "float32"),
        Y: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=128):
            whole = T.alloc_fragment((m, n), "float32")
            source = T.alloc_shared((rows, n), "float32")
            tile = T.alloc_tmem([m, n], "float32")
            T.copy(X, whole)
            T.copy(whole, tile)
            T.copy(Z, source)
            T.copy(source, tile[begin : begin + rows, 0:n])
            T.copy(tile, Y)

    kernel = compile_sm100(part)
    assert f"the tile has {rows} of them" in remark_of(kernel)
    x, y, z = (random_bits(r, n, "float32") for r in (m, m, rows))
    kernel(x, z, y)
    expected = x.clone()
    expected[begin : begin + rows] = z
    assert same_bits(y, expected)


def test_float16_accumulators_fall_back():
    """Each element has a cell of its own there."""
    kernel = compile_sm100(accumulated(128, 64, 64, "float16", "float16"))
    (text,) = [r.message for r in kernel.remarks if "goes through registers" in r.message]
    assert "16 bits have a 32-bit cell each" in text
    a, b = random_values(128, 64, "float16"), random_values(64, 64, "float16")
    d, c = random_values(128, 64, "float16"), poisoned(128, 64, "float16")
    kernel(a, b, d, c)
    one = torch.eye(128).double()
    check_product(c, torch.cat([a.double(), one], 1), torch.cat([b.T.double(), d.double()], 0))


def test_operands_of_64_rows_fall_back():
    m, n, k = 64, 32, 64
    kernel = compile_sm100(ts_gemm(m, n, k, 2, "bfloat16"))
    assert "the tile has 64 of them" in remark_of(kernel)
    a, b = random_values(m, 2 * k, "bfloat16"), random_values(n, 2 * k, "bfloat16")
    c = poisoned(m, n, "float32")
    kernel(a, b, c)
    check_product(c, a, b.T)


def test_a_tile_whose_order_in_memory_is_known_elsewhere_keeps_it():
    """Its address is taken, so that no swizzled layout is chosen for it."""
    m, n = 128, 32

    @T.prim_func
    def addressed(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=128):
            source = T.alloc_shared((m, n), "float32")
            tile = T.alloc_tmem([m, n], "float32")
            for i, j in T.Parallel(m, n):
                source[i, j] = X[i, j]
            T.atomic_add(source[0, 0], 1.0)
            T.copy(source, tile)
            T.copy(tile, Y)

    kernel = compile_sm100(addressed)
    assert "other users" in remark_of(kernel)
