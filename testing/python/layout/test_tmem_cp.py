"""Plans of tcgen05.cp against the PTX ISA: what they copy is what the tensor core reads.

Shared memory holds random bytes at the addresses of a layout; the instructions are executed by a
model of the ISA's formulas, and tensor memory compared with the tables of where operands lie.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tmem_model import COLUMNS, LANES, accumulator_place, operand_places

from tilelang.errors import LayoutError
from tilelang.layout import (
    Layout,
    TmemLayout,
    make_linear_layout,
    make_padded_layout,
    make_swizzled_layout,
    matrix_operand,
    plan_tmem_cp,
)

#: Rows, 16-byte units of a row, lanes of source row r (PTX ISA, tcgen05.cp).
SHAPES = {
    "128x256b": (128, 2, lambda r: [r]),
    "128x128b": (128, 1, lambda r: [r]),
    "64x128b_02_13": (64, 1, lambda r: [r, r + 64]),
    "64x128b_01_23": (64, 1, lambda r: [64 * (r // 32) + r % 32 + d for d in (0, 32)]),
    "32x128b": (32, 1, lambda r: [r, r + 32, r + 64, r + 96]),
}
#: Swizzle width: XOR of the byte address.
XORS = {
    16: lambda a: a,
    32: lambda a: a ^ (a >> 7 & 1) << 4,
    64: lambda a: a ^ (a >> 7 & 3) << 4,
    128: lambda a: a ^ (a >> 7 & 7) << 4,
}


def execute(plan, operand, image):
    """Tensor memory as bytes [lane, column, byte] after a plan, and which cells it wrote."""
    memory = np.zeros((LANES, COLUMNS, 4), np.uint8)
    written = np.zeros((LANES, COLUMNS), int)
    width, lbo, sbo = operand[:3]
    for shape, column, start in plan:
        rows, units, lanes = SHAPES[shape]
        for row, unit in itertools.product(range(rows), range(units)):
            step = lbo if width == 16 else 16
            at = XORS[width](start + row % 8 * width + row // 8 * sbo + unit * step)
            for lane in lanes(row):
                columns = slice(column + 4 * unit, column + 4 * unit + 4)
                memory[lane, columns] = image[at : at + 16].reshape(4, 4)
                written[lane, columns] += 1
    return memory, written


def check(tmem, shared, bits, begin, extents, places):
    """The plan writes every place of every element, each cell once, and nothing else."""
    size = bits // 8
    rng = np.random.default_rng([bits, *extents])
    image = rng.integers(0, 256, 2 * shared.cosize * size, dtype=np.uint8)
    plan = plan_tmem_cp(tmem, shared, begin)
    memory, written = execute(plan, matrix_operand(shared, bits), image)
    used = set()
    for m, n in itertools.product(*map(range, extents)):
        at = shared(begin[0] + m, begin[1] + n) * size
        for lane, column, bit in places(m, n):
            found = memory[lane, column, bit // 8 : bit // 8 + size]
            assert (found == image[at : at + size]).all(), (m, n)
            used.add((lane, column))
    assert written.sum() == len(used) and written.max() == 1
    return plan


def operand(m_size, bits, **form):
    return lambda m, k: [place[1:] for place in operand_places(m_size, bits, m, k, **form)]


@pytest.mark.parametrize("width", XORS)
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_operands_of_128_rows(bits, width):
    for row_bytes in {width, 2 * width, 3 * width}:
        extents = (128, row_bytes * 8 // bits)
        shared = make_swizzled_layout(extents, element_bits=bits, swizzle_bytes=width)
        tmem = TmemLayout.operand_a(*extents, bits)
        plan = check(tmem, shared, bits, (0, 0), extents, operand(128, bits))
        wide = [step for step in plan if step.shape == "128x256b"]
        assert len(wide) == row_bytes // 32 and len(plan) - len(wide) == row_bytes // 16 % 2


@pytest.mark.parametrize("width", XORS)
def test_accumulators_of_32_bits(width):
    extents = (128, width // 2)
    shared = make_swizzled_layout(extents, element_bits=32, swizzle_bytes=width)
    tmem = TmemLayout.accumulator(*extents, 32)
    check(
        tmem,
        shared,
        32,
        (0, 0),
        extents,
        lambda m, n: [(*accumulator_place(*extents, m, n)[1:], 0)],
    )


@pytest.mark.parametrize(
    ("m", "form", "shape"),
    [
        (64, {"ws": True}, "64x128b_02_13"),
        (32, {"ws": True}, "32x128b"),
    ],
)
@pytest.mark.parametrize("width", XORS)
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_operands_that_lie_twice_or_more(bits, width, m, form, shape):
    extents = (m, 2 * width * 8 // bits)
    shared = make_swizzled_layout(extents, element_bits=bits, swizzle_bytes=width)
    tmem = TmemLayout.operand_a(*extents, bits, weight_stationary=True)
    plan = check(tmem, shared, bits, (0, 0), extents, operand(m, bits, **form))
    assert {step.shape for step in plan} == {shape}


@pytest.mark.parametrize("width", XORS)
def test_pairs_of_neighbouring_quarters(width):
    extents = (64, width // 2)
    shared = make_swizzled_layout(extents, element_bits=16, swizzle_bytes=width)
    lane = Layout(((2, 32), extents[1]), ((64, 1), 0))
    bit = Layout(extents, (0, 16))
    tmem = TmemLayout(lane, bit, 16, Layout(2, 32))
    plan = check(
        tmem,
        shared,
        16,
        (0, 0),
        extents,
        lambda m, k: [(64 * (m // 32) + m % 32 + d, k // 2, k % 2 * 16) for d in (0, 32)],
    )
    assert {step.shape for step in plan} == {"64x128b_01_23"}


@pytest.mark.parametrize("width", XORS)
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_slices(bits, width):
    """Of rows and of columns, also those that begin in the middle of a swizzle atom."""
    row_bytes = 256
    per = 16 * 8 // bits
    shared = make_swizzled_layout(
        (256, row_bytes * 8 // bits), element_bits=bits, swizzle_bytes=width
    )
    for row, unit, units in [
        (0, 0, 1),
        (128, 2, 2),
        (64, 1, 3),
        (8, 3, 13),
        (40, 0, 16),
        (16, 7, 2),
    ]:
        extents = (128, units * per)
        tmem = TmemLayout.operand_a(*extents, bits)
        check(tmem, shared, bits, (row, unit * per), extents, operand(128, bits))


def test_blocks_of_rows_lie_side_by_side():
    extents = (256, 64)
    shared = make_swizzled_layout(extents, element_bits=16, swizzle_bytes=128)
    tmem = TmemLayout.operand_a(128, 64, 16).staged(2).reshape(*extents)
    plan = check(
        tmem,
        shared,
        16,
        (0, 0),
        extents,
        lambda m, k: [(m % 128, m // 128 * 32 + k // 2, k % 2 * 16)],
    )
    assert len(plan) == 8


def test_slices_of_the_destination():
    whole = TmemLayout.operand_a(128, 96, 16)
    shared = make_swizzled_layout((128, 32), element_bits=16, swizzle_bytes=64)
    part = whole.slice((0, 48), (128, 32))
    check(part, shared, 16, (0, 0), (128, 32), lambda m, k: [(m, 24 + k // 2, k % 2 * 16)])


@pytest.mark.parametrize(
    ("tmem", "shared", "reason"),
    [
        (TmemLayout.operand_a(64, 64, 16), (64, 64), "the tile has 64 of them"),
        (TmemLayout.accumulator(64, 32, 32), (64, 32), "the tile has 64 of them"),
        (
            TmemLayout.operand_a(128, 64, 16).slice((0, 0), (64, 64)),
            (64, 64),
            "the tile has 64 of them",
        ),
        (
            TmemLayout.operand_a(128, 64, 16).slice((32, 0), (96, 64)),
            (96, 64),
            "the tile has 96 of them",
        ),
        (TmemLayout.accumulator(128, 64, 16), (128, 64), "a 32-bit cell each"),
        (
            TmemLayout.operand_a(128, 64, 16).slice((0, 1), (128, 8)),
            (128, 8),
            "begins inside a 32-bit cell",
        ),
        (TmemLayout.operand_a(256, 64, 16, cta_group=2), (256, 64), "two CTAs"),
    ],
)
def test_what_it_cannot_write(tmem, shared, reason):
    bits = tmem.element_bits
    layout = make_swizzled_layout(shared, element_bits=bits, swizzle_bytes=16)
    with pytest.raises(LayoutError, match=reason):
        plan_tmem_cp(tmem, layout)


@pytest.mark.parametrize(
    ("shared", "begin", "reason"),
    [
        (make_linear_layout((128, 64)), (0, 0), "no matrix descriptor"),
        (make_padded_layout((128, 64), 8), (0, 0), "no matrix descriptor"),
        (make_swizzled_layout((128, 64), element_bits=32), (0, 0), "no matrix descriptor"),
        (make_swizzled_layout((128, 128), element_bits=16), (0, 4), "not aligned"),
    ],
)
def test_what_it_cannot_read(shared, begin, reason):
    with pytest.raises(LayoutError, match=reason):
        plan_tmem_cp(TmemLayout.operand_a(128, 64, 16), shared, begin)


def test_rows_that_end_inside_a_unit():
    shared = make_swizzled_layout((128, 64), element_bits=16)
    with pytest.raises(LayoutError, match="units of 16 bytes"):
        plan_tmem_cp(TmemLayout.operand_a(128, 12, 16), shared)
