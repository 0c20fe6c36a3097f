"""Shared-memory layouts against the swizzle rules on byte addresses, and bank counting."""

import itertools
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.cuda.intrinsics import get_swizzle_layout
from tilelang.errors import LayoutError
from tilelang.layout import (
    Fragment,
    bank_cycles,
    make_full_bank_swizzled_layout,
    make_fully_replicated_layout_fragment,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_padded_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    make_tcgen05mma_swizzled_layout,
    make_wgmma_swizzled_layout,
    shared_access_cost,
)

#: Width of the atom: (byte bits that move, byte bits XORed into them), lowest first.
RULES = {128: ((4, 7), (5, 8), (6, 9)), 64: ((4, 7), (5, 8)), 32: ((4, 7),), 16: ()}


def byte_address(row, byte, rows, width):
    """Atom columns of ``width`` bytes x ``rows``, swizzled on address bits."""
    address = byte // width * rows * width + row * width + byte % width
    for target, source in RULES[width]:
        address ^= (address >> source & 1) << target
    return address


@pytest.mark.parametrize("width", RULES)
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize(("rows", "atoms"), [(8, 1), (64, 2), (24, 3), (5, 1), (128, 1)])
def test_swizzled(width, bits, rows, atoms):
    columns = atoms * width * 8 // bits
    layout = make_swizzled_layout((rows, columns), element_bits=bits, swizzle_bytes=width)
    for row, column in itertools.product(range(rows), range(columns)):
        byte = byte_address(row, column * bits // 8, rows, width)
        assert layout(row, column) * bits // 8 == byte
    assert layout.is_injective


def test_stages_are_whole_tiles():
    layout = make_full_bank_swizzled_layout((3, 16, 128), element_bits=16)
    for stage, row, column in itertools.product(range(3), range(16), range(0, 128, 8)):
        expected = stage * 16 * 256 + byte_address(row, column * 2, 16, 128)
        assert layout(stage, row, column) * 2 == expected


def test_widest_swizzle_is_chosen():
    for columns, width in ((64, 128), (192, 128), (32, 64), (96, 64), (16, 32), (48, 32)):
        chosen = make_swizzled_layout((16, columns), element_bits=16)
        assert chosen.same_map(
            make_swizzled_layout((16, columns), element_bits=16, swizzle_bytes=width)
        )
    padded = make_swizzled_layout((16, 40), element_bits=16)
    assert padded(1, 0) == 48 and padded(0, 39) == 39
    plain = make_swizzled_layout((16, 40), element_bits=16, allow_pad=False)
    assert plain.same_map(make_linear_layout((16, 40)))


@pytest.mark.parametrize(
    ("make", "width"),
    [
        (make_full_bank_swizzled_layout, 128),
        (make_half_bank_swizzled_layout, 64),
        (make_quarter_bank_swizzled_layout, 32),
    ],
)
def test_names(make, width):
    layout = make((32, 64), element_bits=16)
    assert layout(7, 3) * 2 == byte_address(7, 6, 32, width)
    assert layout(31, 63) * 2 == byte_address(31, 126, 32, width)
    assert layout.same_map(make(32, 64, 16))


@pytest.mark.parametrize("make", [make_wgmma_swizzled_layout, make_tcgen05mma_swizzled_layout])
@pytest.mark.parametrize(("continuity", "width"), [(None, 128), (64, 128), (96, 64), (16, 32)])
def test_names_of_operands(make, continuity, width):
    layout = make((32, 192), continuity, element_bits=16)
    for row, column in itertools.product((0, 5, 31), (0, 8, 63, 100, 191)):
        assert layout(row, column) * 2 == byte_address(row, 2 * column, 32, width)
    with pytest.raises(LayoutError, match="continuity=12 elements of 16 bits are 24 bytes"):
        make((32, 192), 12, element_bits=16)


@pytest.mark.parametrize("threads", [1, 32, 160])
def test_every_thread_holds_all_of_a_replicated_fragment(threads):
    fragment = make_fully_replicated_layout_fragment((3, 5), threads)
    assert fragment.replicas == threads and fragment.regs_per_thread == 15
    held = {
        fragment.forward(i, j, rep=r) for i in range(3) for j in range(5) for r in range(threads)
    }
    assert held == set(itertools.product(range(threads), range(15)))


@pytest.mark.parametrize(("width", "dtype", "bits"), [
    (128, "float16", 16), (64, "float32", 32), (32, "int8", 8), (128, "int8", 8),
])  # fmt: skip
def test_swizzle_of_one_element(width, dtype, bits):
    columns = width * 8 // bits
    for row, column in itertools.product(range(16), range(columns)):
        at, moved = get_swizzle_layout(row, column, columns, dtype)
        address = byte_address(row, column * bits // 8, 16, width)
        assert (at * columns + moved) * bits // 8 == address
        assert get_swizzle_layout(row, column, columns, dtype, width) == (at, moved)


@pytest.mark.parametrize(("columns", "width"), [(12, None), (32, 128), (64, 48)])
def test_swizzles_that_do_not_divide_the_row(columns, width):
    with pytest.raises(LayoutError, match="it is 128, 64 or 32 bytes and divides the row"):
        get_swizzle_layout(0, 0, columns, "float16", width)


def test_buffers_are_accepted():
    class Type:
        bits = 16

    class Buffer:
        shape = (64, 64)
        dtype = Type()

    assert make_swizzled_layout(Buffer()).swizzle == (3, 3, 3)


def brute_cycles(addresses, width):
    group = min(32, 128 // max(width, 4))
    cycles = 0
    for begin in range(0, len(addresses), group):
        banks = defaultdict(set)
        for address in addresses[begin : begin + group]:
            for byte in range(address, address + width):
                if address >= 0:
                    banks[byte // 4 % 32].add(byte // 4)
        cycles += max(map(len, banks.values()), default=0)
    return cycles


@given(st.lists(st.integers(-1, 255), min_size=32, max_size=32), st.sampled_from([1, 2, 4, 8, 16]))
def test_bank_cycles(indices, width):
    addresses = [index * width if index >= 0 else -1 for index in indices]
    assert bank_cycles(addresses, width) == brute_cycles(addresses, width)


def test_known_conflicts():
    assert bank_cycles([4 * t for t in range(32)], 4) == 1
    assert bank_cycles([0] * 32, 4) == 1
    assert bank_cycles([128 * t for t in range(32)], 4) == 32
    assert bank_cycles([8 * t for t in range(32)], 4) == 2
    assert bank_cycles([16 * t for t in range(32)], 16) == 4
    assert bank_cycles([2 * t for t in range(32)], 2) == 1


def test_swizzle_removes_the_conflicts_of_a_column_access():
    """One row per thread, 16 bytes each: 8 threads of a group fall into the same banks, or not."""
    rows = Fragment((32, 64), lambda i, j: (i, j))
    swizzled = make_full_bank_swizzled_layout((32, 64), element_bits=16)
    assert shared_access_cost(swizzled, rows, 16, 8) == (32, 32)
    assert shared_access_cost(make_linear_layout((32, 64)), rows, 16, 8) == (256, 32)
    assert shared_access_cost(make_padded_layout((32, 64), 8), rows, 16, 8) == (32, 32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_full_bank_swizzled_layout((8, 40), element_bits=16), "not a multiple of 128"),
        (
            lambda: make_full_bank_swizzled_layout((12, 128), element_bits=16),
            "rows are not a multiple",
        ),
        (lambda: make_swizzled_layout((8, 64), element_bits=16, swizzle_bytes=48), "48 bytes"),
        (lambda: make_swizzled_layout((8, 64)), "element_bits"),
        (lambda: make_padded_layout((8, 64), -1), "padded by -1"),
    ],
)
def test_errors(make, message):
    with pytest.raises(LayoutError, match=message):
        make()
