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
#: The 128-byte swizzle with an atomicity of 32 bytes.
XOR_OF_32_BYTES = ((5, 7), (6, 8))


def swizzled(address, operand):
    bits = XOR_OF_32_BYTES if operand.atomicity_bytes == 32 else XORS[operand.swizzle_bytes]
    return address ^ sum((address >> source & 1) << target for target, source in bits)


def canonical(operand, row, k, size, k_major):
    """Byte offset of (row, k) from the descriptor's start, before swizzling."""
    width, lbo, sbo, atomicity = operand
    per_chunk, per_atom = 16 // size, width // size
    byte = k * size
    if k_major and width == 16:
        return row % 8 * 16 + row // 8 * sbo + byte // 16 * lbo + byte % 16
    if k_major:
        return row % 8 * width + row // 8 * sbo + byte
    if width == 16:
        inside = row % per_chunk * size + k % 8 * 16
        return inside + row // per_chunk * sbo + k // 8 * lbo
    lines = 4 if atomicity == 32 else 8  # ((T, 8, m), (4, k)) instead of ((T, 8, m), (8, k))
    return row % per_atom * size + row // per_atom * lbo + k % lines * width + k // lines * sbo


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
            address = swizzled(start + canonical(operand, row, k, size, k_major), operand)
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


@pytest.mark.parametrize("rows", [8, 16, 24, 32, 40, 64, 96, 104, 256])
@pytest.mark.parametrize("depth", [8, 24, 32])
def test_mn_major_of_32_bits(rows, depth):
    layout = make_swizzled_layout((depth, rows), k_major=False, element_bits=32)
    operand = matrix_operand(layout, 32, False)
    several = rows > 32
    assert operand == (128, several * depth * 128, 512, 32)
    check(layout, 32, False, rows, depth)
    values = [layout(k, row) for k in range(depth) for row in range(rows)]
    assert len(set(values)) == depth * rows
    assert max(values) < -(-rows // 32) * depth * 32


def test_mn_major_stages_of_32_bits():
    staged = make_swizzled_layout((3, 16, 72), k_major=False, element_bits=32)
    tile = staged.slice((2, 0, 0), (1, 16, 72)).reshape(16, 72)
    assert plain_byte_offset(staged, 32, (2, 0, 0)) % 1024 == 0
    part = tile.slice((8, 32), (8, 40))
    check(part, 32, False, 40, 8)


def test_full_rows_are_what_the_tensor_map_writes():
    layout = make_swizzled_layout((16, 32), k_major=False, element_bits=32)
    assert layout.same_map(
        make_swizzled_layout((16, 32), element_bits=32, swizzle_bytes=128, atomicity_bytes=32)
    )
    for row, byte in itertools.product(range(16), range(0, 128, 4)):
        address = row * 128 + byte
        assert 4 * layout(row, byte // 4) == address ^ ((address >> 7 & 3) << 5)


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
        (make_swizzled_layout((32, 32), element_bits=32), 32, False, "need the 128-byte swizzle"),
        (make_swizzled_layout((32, 32), False, element_bits=32), 32, True, "is for 32-bit"),
        (
            make_swizzled_layout((32, 64), element_bits=16, swizzle_bytes=128, atomicity_bytes=32),
            16,
            False,
            "is for 32-bit",
        ),
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


@pytest.mark.parametrize(("swizzle", "atomicity"), [(64, 32), (32, 32), (16, 32), (128, 64)])
def test_no_such_atomicity(swizzle, atomicity):
    with pytest.raises(LayoutError, match="swizzles move chunks of 16 bytes"):
        make_swizzled_layout(
            (32, 64), element_bits=32, swizzle_bytes=swizzle, atomicity_bytes=atomicity
        )
