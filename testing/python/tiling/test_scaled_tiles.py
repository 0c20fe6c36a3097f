"""Tiles of straightforward block-scaled GEMMs on Blackwell, and factors that are packed first."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6]).double()
FORMATS = {  # types of elements and of factors, and the elements that share one
    "mxfp8": ("float8_e4m3fn", "float8_e8m0fnu", 32),
    "mxfp4": ("float4_e2m1fn", "float8_e8m0fnu", 32),
    "nvfp4": ("float4_e2m1fn", "float8_e4m3fn", 16),
}


def shape_of(order, rows, blocks):
    """The shape of factors of so many rows and blocks."""
    if order == "rows":
        return (rows, blocks)
    if order == "words":
        return (-(-blocks // 4), rows)
    return (-(-rows // 128), -(-blocks // 4), 2, 256)


def scaled(m, n, k, form="mxfp8", order="rows", tile=(128, 128, 128), batches=0):
    dtype, factor, block = FORMATS[form]
    rows, columns, depth = tile
    per = depth // block
    lead = (batches,) if batches else ()
    factor = "uint32" if order == "words" else factor
    packed = {"packed": True} if dtype == "float4_e2m1fn" else {}

    def at(index, step):
        if order == "rows":
            return index * 128, step * per
        if order == "words":
            return step * (per // 4), index * 128
        return index, step * (per // 4), 0, 0

    @T.prim_func
    def main(
        A: T.Tensor((*lead, m, k), dtype),
        B: T.Tensor((*lead, n, k), dtype),
        SA: T.Tensor((*lead, *shape_of(order, m, k // block)), factor),
        SB: T.Tensor((*lead, *shape_of(order, n, k // block)), factor),
        C: T.Tensor((*lead, m, n), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), *lead, threads=128) as grid:
            bx, by = grid[0], grid[1]
            z = (grid[2],) if batches else ()
            a = T.alloc_shared((rows, depth), dtype, **packed)
            b = T.alloc_shared((columns, depth), dtype, **packed)
            sa = T.alloc_shared(shape_of(order, rows, per), factor)
            sb = T.alloc_shared(shape_of(order, columns, per), factor)
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=2):
                T.copy(A[(*z, by * rows, step * depth)], a)
                T.copy(B[(*z, bx * columns, step * depth)], b)
                T.copy(SA[(*z, *at(by, step))], sa)
                T.copy(SB[(*z, *at(bx, step))], sb)
                T.gemm(a, b, c, transpose_B=True, scale_A=sa, scale_B=sb)
            T.copy(c, C[(*z, by * rows, bx * columns)])

    return main


def ordered(order, factors):
    """Factors (..., rows, blocks) as bytes in their order."""
    lead, (rows, blocks) = factors.shape[:-2], factors.shape[-2:]
    if order == "rows":
        return factors
    groups = -(-blocks // 4)
    if order == "words":
        padded = torch.zeros(*lead, rows, groups * 4, dtype=torch.uint8)
        padded[..., :blocks] = factors
        bytes_ = padded.view(*lead, rows, groups, 4).transpose(-3, -2).contiguous()
        return bytes_.view(torch.uint32)[..., 0]
    padded = torch.zeros(*lead, -(-rows // 128) * 128, groups * 4, dtype=torch.uint8)
    padded[..., :rows, :blocks] = factors
    # Byte 16 l + 4 i + j of an atom is of row 32 i + l and block j.
    tiles = padded.view(*lead, -1, 4, 32, groups, 4).transpose(-4, -2)
    return tiles.contiguous().view(*tiles.shape[:-3], 2, 256)


def operands(form, order, rows, k, lead):
    """A matrix, its factors, and both multiplied."""
    dtype, factor, block = FORMATS[form]
    drawn = torch.rand(*lead, rows, k // block)
    powers = factor == "float8_e8m0fnu"
    real = (torch.exp2(12 * drawn - 6) if powers else drawn + 0.25).to(getattr(torch, factor))
    codes, values = real.view(torch.uint8), real.double()
    if dtype == "float8_e4m3fn":
        matrix = torch.randn(*lead, rows, k).to(torch.float8_e4m3fn)
        wide = matrix.double()
    else:
        matrix = torch.randint(0, 256, (*lead, rows, k // 2), dtype=torch.uint8)
        nibbles = torch.stack([matrix & 15, matrix >> 4], -1).flatten(-2).int()
        wide = E2M1[nibbles & 7] * (1 - 2 * (nibbles >> 3))
    bytes_ = ordered(order, codes)
    given = bytes_ if order == "words" else bytes_.view(getattr(torch, factor))
    return matrix, given, wide * values.repeat_interleave(block, -1)


def run(sm_count, m, n, k, form="mxfp8", order="rows", configs=None, batches=0, **options):
    target = with_sm_count(resolve("sm_100a"), sm_count)
    configs = {"tl.verify_synchronization": True} | (configs or {})
    program = scaled(m, n, k, form, order, batches=batches, **options)
    kernel = tilelang.compile(program, target=target, pass_configs=configs)
    torch.manual_seed(0)
    lead = (batches,) if batches else ()
    a, sa, wide_a = operands(form, order, m, k, lead)
    b, sb, wide_b = operands(form, order, n, k, lead)
    c = poisoned((*lead, m, n), "bfloat16", "cpu")
    kernel(a, b, sa, sb, c)
    want = wide_a @ wide_b.mT
    torch.testing.assert_close(c.double(), want, rtol=1e-2, atol=1e-2 * float(want.abs().max()))
    return " ".join(remark.message for remark in kernel.remarks)


PACKS = "packs the scale factors SA and SB"
ORDERS = ["rows", "words", "atoms"]


@pytest.mark.every_schedule
@pytest.mark.parametrize("columns", [128, 256])
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", ["mxfp8", "mxfp4", "nvfp4"])
def test_tiles(form, order, pairs, columns):
    if form == "nvfp4" and order == "words":
        pytest.skip("words hold powers of two")
    configs = {"tl.tile_columns": columns, "tl.tile_pairs": pairs}
    said = run(4, 1000, 648, 1024, form, order, configs)
    assert f"128 x {columns} elements" in said
    assert ("pairs of blocks multiply" in said) == pairs
    assert (PACKS in said) == (order != "atoms")


@pytest.mark.over_field
@pytest.mark.every_schedule
@pytest.mark.parametrize("order", ORDERS)
def test_batches(order):
    said = run(2, 264, 136, 1024, order=order, batches=2)
    assert (PACKS in said) == (order != "atoms")


@pytest.mark.every_schedule
@pytest.mark.parametrize("order", ["rows", "atoms"])
def test_deep_tiles_and_a_short_last_step(order):
    run(4, 520, 264, 1184, order=order, tile=(128, 128, 256))


def test_the_option_keeps_factors_in_the_loop():
    said = run(4, 512, 512, 1024, configs={"tl.disable_factor_packing": True})
    assert PACKS not in said


@pytest.mark.over_field
@pytest.mark.parametrize("form", FORMATS)
def test_few_iterations_pack_in_the_loop(form):
    assert PACKS not in run(1, 128, 128, 512, form)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_other_targets_pack_in_the_loop(target):
    kernel = tilelang.compile(scaled(1024, 1024, 1024), target=target)
    assert not any(PACKS in remark.message for remark in kernel.remarks)
