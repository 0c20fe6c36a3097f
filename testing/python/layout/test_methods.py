"""Methods of layouts that programs call by their upstream names."""

from __future__ import annotations

import itertools
import random

import pytest

from tilelang.errors import LayoutError
from tilelang.layout import Fragment, Layout, TmemLayout, make_swizzled_layout


def random_layout(seed: int) -> Layout:
    rng = random.Random(seed)
    rows, columns = rng.randint(1, 7), rng.randint(1, 9)
    places = rng.sample(range(rows * columns * 2), rows * columns)
    return Layout((rows, columns), lambda i, j: places[i * columns + j])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("leading", [3, (2, 3), [1]])
def test_expanded_layouts_repeat_under_new_dimensions(seed, leading):
    base = random_layout(seed)
    outer = (leading,) if isinstance(leading, int) else tuple(leading)
    expanded = base.expand(leading)
    assert expanded.input_shape == (*outer, *base.input_shape)
    assert expanded.get_output_shape() == (*outer, base.cosize)
    copies = itertools.product(*map(range, outer))
    for number, copy in enumerate(copies):
        for coord in itertools.product(*map(range, base.input_shape)):
            assert expanded(*copy, *coord) == number * base.cosize + base(*coord)


def test_several_outputs():
    layout = Layout((6, 5), lambda i, j: [j, i // 2, i % 2])
    assert layout.get_input_shape() == (6, 5)
    assert layout.output_shape == (5, 3, 2)
    assert layout.expand(4).output_shape == (4, 5, 3, 2)
    assert layout.expand(4).is_equal(Layout((4, 6, 5), lambda c, i, j: [c, j, i // 2, i % 2]))


def test_layouts_of_the_library():
    swizzled = make_swizzled_layout((8, 64), element_bits=16)
    assert swizzled.output_shape == (512,)
    assert swizzled.expand(2).is_equal(Layout((2, 8, 64), lambda c, i, j: [c, swizzled(i, j)]))


def test_nothing_to_expand():
    layout = Layout((4, 8))
    assert layout.expand(()) is layout


@pytest.mark.parametrize("leading", [0, [-1], (2, 0)])
def test_extents_below_one_are_refused(leading):
    with pytest.raises(LayoutError, match="at least 1"):
        Layout((4, 8)).expand(leading)


@pytest.mark.parametrize("leading", ["4", 1.5])
def test_what_is_no_integer_is_refused(leading):
    with pytest.raises(TypeError):
        Layout((4, 8)).expand(leading)


def test_equality():
    layout = Layout((32, 4), lambda i, j: i * 4 + j)
    assert layout.is_equal(Layout((32, 4)))
    assert not layout.is_equal(Layout((32, 4), lambda i, j: j * 32 + i))
    rows = Fragment((32, 4), lambda i, j: (i, j))
    assert rows.is_equal(Fragment((32, 4), forward_thread_fn=lambda i, j: i))
    assert not rows.is_equal(Fragment((32, 4), lambda i, j: (31 - i, j)))


def test_index_expressions_share_their_variables():
    pairs = Layout((64,), lambda i: [i // 32, i % 32]).get_linearized_forward_index()
    assert str(Layout((2, 32), lambda i, j: i * 32 + j).get_linearized_forward_index()) == str(
        Layout((2, 32)).get_linearized_forward_index()
    )
    assert "i0" in str(pairs)


def test_tensor_memory_by_lanes_and_columns():
    cells = Layout((128, 16), lambda i, j: [i, 2 * j + 4])
    tile = TmemLayout.from_cells(cells, 16)
    assert tile.forward(5, 3) == (5, 5, 0)
    assert tile.element_bits == 16
