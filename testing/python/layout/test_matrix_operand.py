"""Matrix descriptors of shared-memory tiles against the canonical layouts of the PTX ISA."""

import itertools

import pytest

from tilelang.errors import LayoutError
from tilelang.layout import (
    Layout,
    make_linear_layout,
    make_swizzled_layout,
    matrix_operand,
    plain_byte_offset,
)

#: Swizzle width in bytes: (target bit, source bit) pairs of the XOR on byte addresses.
XORS = {128: ((4, 7), (5, 8), (6, 9)), 64: ((4, 7), (5, 8)), 32: ((4, 7),), 16: ()}


def swizzled(address, width):
    flips = sum((address >> source & 1) << target for target, source in XORS[width])
    return address ^ flips


def canonical(operand, row, k, size, k_major):
    """Byte offset of (row, k) from the descriptor's start, before swizzling."""
    width, lbo, sbo = operand
    per_chunk, per_atom = 16 // size, width // size
    byte = k * size
    if k_major and width == 16:
        return row % 8 * 16 + row // 8 * sbo + byte // 16 * lbo + byte % 16
    if k_major:
        return row % 8 * width + row // 8 * sbo + byte
    if width == 16:
        inside = row % per_chunk * size + k % 8 * 16
        return inside + row // per_chunk * sbo + k // 8 * lbo
    return row % per_atom * size + row // per_atom * lbo + k % 8 * width + k // 8 * sbo


def check(layout, bits, k_major, rows, depth):
    """Every instruction (32 bytes of K) reads exactly the tile's elements."""
    size = bits // 8
    operand = matrix_operand(layout, bits, k_major)
    step = 32 // size
    for first in range(0, depth, step):
        origin = (0, first) if k_major else (first, 0)
        start = plain_byte_offset(layout, bits, origin)
        for row, k in itertools.product(range(rows), range(step)):
            coord = (row, first + k) if k_major else (first + k, row)
            address = swizzled(
                start + canonical(operand, row, k, size, k_major), operand.swizzle_bytes
            )
            assert address == layout(*coord) * size, (coord, operand)


@pytest.mark.parametrize("width", XORS)
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("rows", [8, 64, 128])
def test_k_major(width, bits, rows):
    depth = 2 * max(width, 32) * 8 // bits
    layout = make_swizzled_layout((rows, depth), element_bits=bits, swizzle_bytes=width)
    operand = matrix_operand(layout, bits)
    assert (operand.swizzle_bytes, operand.stride_bytes) == (width, 8 * width)
    check(layout, bits, True, rows, depth)


@pytest.mark.parametrize("width", XORS)
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("atoms", [1, 2, 4])
def test_mn_major(width, bits, atoms):
    rows, depth = max(16, atoms * width * 8 // bits), 64
    layout = make_swizzled_layout((depth, rows), element_bits=bits, swizzle_bytes=width)
    check(layout, bits, False, rows, depth)


@pytest.mark.parametrize("k_major", [True, False])
def test_slices_and_stages(k_major):
    staged = make_swizzled_layout((3, 64, 128), element_bits=16)
    tile = staged.slice((2, 0, 0), (1, 64, 128)).reshape(64, 128)
    part = tile.slice((32, 64), (32, 64))
    check(part, 16, k_major, *((32, 64) if k_major else (64, 32)))


@pytest.mark.parametrize(
    ("layout", "bits", "k_major", "message"),
    [
        (make_linear_layout((64, 64)), 16, True, "not 16 bytes apart"),
        (make_swizzled_layout((32, 32), element_bits=32), 32, False, "must be K-major"),
        (Layout((64, 64), (64, 1), swizzle=(2, 3, 4)), 16, True, "no swizzle of 16-byte chunks"),
        (Layout((64, 64), (64, 1), swizzle=(2, 3, 3)), 16, True, "not 64 bytes apart"),
        (make_linear_layout((2, 64, 64)), 16, True, "two-dimensional"),
        (Layout((64, 128), (64, 1), swizzle=(3, 3, 3)), 16, True, "atoms of 128 bytes"),
        (Layout((5, 5), lambda i, j: (i * j) % 5 * 25 + i * 5 + j), 16, True, "two-dimensional"),
    ],
)
def test_refusals(layout, bits, k_major, message):
    with pytest.raises(LayoutError, match=message):
        matrix_operand(layout, bits, k_major)
