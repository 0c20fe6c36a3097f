"""The layout algebra against brute force over every coordinate."""

import itertools

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tilelang.errors import BoundsError, LayoutError
from tilelang.layout import (
    Layout,
    coalesce,
    complement,
    composition,
    concatenate,
    left_inverse,
    logical_divide,
    logical_product,
    right_inverse,
    tiled_divide,
    zipped_divide,
)


def product(values):
    result = 1
    for value in values:
        result *= value
    return result


def leaves(tree):
    return [tree] if isinstance(tree, int) else [x for item in tree for x in leaves(item)]


def tree_value(shape, stride, index):
    """Reference: digits of a row-major index into the leaves, last leaf fastest."""
    value = 0
    for extent, step in zip(reversed(leaves(shape)), reversed(leaves(stride)), strict=True):
        value += index % extent * step
        index //= extent
    return value


def tree_values(shape, stride, offset=0):
    return [offset + tree_value(shape, stride, i) for i in range(product(leaves(shape)))]


def coords(shape):
    return itertools.product(*(range(extent) for extent in shape))


EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 6, 8])


@st.composite
def shapes(draw, depth=2):
    if depth == 0 or draw(st.booleans()):
        return draw(EXTENTS)
    return tuple(draw(st.lists(shapes(depth=depth - 1), min_size=1, max_size=3)))


def like(tree, values):
    """The leaves of ``tree`` replaced by the next items of the iterator ``values``."""
    return next(values) if isinstance(tree, int) else tuple(like(t, values) for t in tree)


@st.composite
def trees(draw):
    shape = draw(shapes())
    if isinstance(shape, int):
        shape = (shape,)
    stride = like(shape, iter(draw(st.lists(st.integers(0, 40), min_size=30, max_size=30))))
    return shape, stride


@st.composite
def compact(draw):
    """A bijection onto range(size): leaves get the strides of a random order."""
    shape = draw(shapes())
    if isinstance(shape, int):
        shape = (shape,)
    flat = leaves(shape)
    order = draw(st.permutations(range(len(flat))))
    strides, step = [0] * len(flat), 1
    for i in order:
        strides[i] = step
        step *= flat[i]
    return shape, like(shape, iter(strides))


@given(trees(), st.integers(0, 5))
def test_values(tree, offset):
    shape, stride = tree
    layout = Layout(shape, stride, offset=offset)
    expected = tree_values(shape, stride, offset)
    assert layout.values() == expected
    extents = [product(leaves(mode)) for mode in shape]
    assert layout.input_shape == tuple(extents)
    assert [layout(*c) for c in coords(extents)] == expected
    assert layout.size == len(expected)
    assert layout.cosize == max(expected) + 1
    assert layout.is_injective == (len(set(expected)) == len(expected))


@given(trees())
def test_coalesce(tree):
    layout = Layout(*tree)
    flat = coalesce(layout)
    assert flat.values() == layout.values()
    assert len(leaves_of(flat)) <= len(leaves(tree[0]))
    extents, strides = leaves_of(flat), leaves_of(flat, "stride")
    assert len(extents) == 1 or 1 not in extents
    pairs = list(zip(extents, strides, strict=True))
    for (_, slow), (extent, fast) in itertools.pairwise(pairs):
        assert slow != extent * fast


def leaves_of(layout, field="shape"):
    def walk(x):
        return [x] if isinstance(x, int) else [y for item in x for y in walk(item)]

    return walk(getattr(layout, field))


@given(trees(), trees())
def test_composition(outer, inner):
    f, g = Layout(*outer), Layout(*inner)
    table, indices = tree_values(*outer), tree_values(*inner)
    try:
        result = composition(f, g)
    except LayoutError as error:
        assert "composition" in str(error)
        assert repr(f) in str(error) and repr(g) in str(error)
        return
    assert max(indices) < len(table)
    assert result.values() == [table[i] for i in indices]
    assert result.input_shape == g.input_shape


@given(compact(), st.data())
def test_composition_exists_where_it_divides(outer, data):
    """Consecutive runs of whole outer leaves always compose."""
    f = Layout(*outer)
    flat = leaves(outer[0])
    cut = data.draw(st.integers(0, len(flat)))
    n = product(flat[cut:])
    g = Layout((f.size // n, n), (n, 1))
    assert composition(f, g).values() == tree_values(*outer)
    assert not composition(f, g).is_table


@example(((2, (3,)), (3, (1,))), (((3, 2),), ((1, 3),)))
@given(compact(), compact())
def test_composition_is_associative(a, b):
    f = Layout(*a)
    rest = Layout(*b)
    if rest.size != f.size:
        return
    try:
        left = composition(composition(f, rest), f)
        right = composition(f, composition(rest, f))
    except LayoutError:
        return
    assert left.same_map(right)
    assert left.input_shape == right.input_shape == f.input_shape


@given(trees(), st.integers(1, 12))
def test_complement(tree, factor):
    layout = Layout(*tree)
    size = layout.cosize * factor
    try:
        rest = complement(layout, size)
    except LayoutError as error:
        assert repr(layout) in str(error)
        return
    reached = sorted(a + b for a in set(layout.values()) for b in rest.values())
    assert reached == list(range(size))


@given(compact())
def test_complement_and_inverses_of_a_bijection(tree):
    layout = Layout(*tree)
    assert complement(layout, layout.size).size == 1
    for inverse in (left_inverse(layout), right_inverse(layout)):
        table = inverse.values()
        assert [table[v] for v in layout.values()] == list(range(layout.size))


@given(trees())
def test_left_inverse(tree):
    layout = Layout(*tree)
    try:
        table = left_inverse(layout).values()
    except LayoutError as error:
        assert repr(layout) in str(error)
        return
    assert [table[v] for v in layout.values()] == list(range(layout.size))


@given(trees())
def test_right_inverse(tree):
    layout = Layout(*tree)
    values, inverse = layout.values(), right_inverse(layout).values()
    assert [values[i] for i in inverse] == list(range(len(inverse)))


def test_right_inverse_is_the_longest():
    assert right_inverse(Layout((2, 3, 4), (1, 100, 2))).size == 8
    assert right_inverse(Layout((4,), (2,))).size == 1


@given(compact(), st.integers(1, 6))
def test_logical_product(tree, n):
    block = Layout(*tree)
    result = logical_product(block, Layout((n,), (1,)))
    assert sorted(result.values()) == list(range(block.size * n))
    assert result.values()[: block.size] == block.values()


@given(compact(), st.data())
def test_divide_by_dims(tree, data):
    layout = Layout(*tree)
    shape = layout.input_shape
    tile = [data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0])) for n in shape]
    try:
        zipped, tiled = zipped_divide(layout, tile), tiled_divide(layout, tile)
        divided = logical_divide(layout, tile)
    except LayoutError as error:
        assert "composition" in str(error)
        return
    assert divided.values() == layout.values()
    rest = [n // t for n, t in zip(shape, tile, strict=True)]
    expected = [
        layout(*(r * t + i for r, t, i in zip(outer, tile, inner, strict=True)))
        for outer in coords(rest)
        for inner in coords(tile)
    ]
    assert zipped.values() == expected
    assert tiled.values() == expected


def test_logical_divide_by_layout():
    layout = Layout((24,), (1,))
    result = logical_divide(layout, Layout((4,), (2,)))
    assert result.input_shape == (6, 4)
    assert [result(0, i) for i in range(4)] == [0, 2, 4, 6]
    assert sorted(result.values()) == list(range(24))


def test_concatenate():
    both = concatenate(Layout((2,), (5,)), Layout(((2, 3),), ((3, 1),)))
    assert both.values() == tree_values((2, (2, 3)), (5, (3, 1)))


@given(trees(), st.data())
def test_slice_and_transpose(tree, data):
    layout = Layout(*tree)
    shape = layout.input_shape
    begin = [data.draw(st.integers(0, n - 1)) for n in shape]
    extents = [data.draw(st.integers(1, n - b)) for n, b in zip(shape, begin, strict=True)]
    part = layout.slice(begin, extents)
    for c in coords(extents):
        assert part(*c) == layout(*(i + b for i, b in zip(c, begin, strict=True)))
    axes = data.draw(st.permutations(range(len(shape))))
    moved = layout.transpose(*axes)
    for c in coords(shape):
        assert moved(*(c[a] for a in axes)) == layout(*c)


@given(trees(), st.integers(0, 9))
def test_recovered_from_values(tree, offset):
    """A tree given as a function is found again, and never kept as a table."""
    layout = Layout(*tree, offset=offset)
    shape = layout.input_shape
    assume(layout.size < 1 << 16)  # larger ones are expressions, which forward does not take
    again = Layout(shape, layout.forward)
    assert not again.is_table
    assert again.same_map(layout)
    assert again.values() == layout.values()


def test_function_with_several_indices():
    layout = Layout((6, 10), lambda i, j: (i // 2, j, i % 2))
    assert layout.values() == [(i // 2 * 10 + j) * 2 + i % 2 for i in range(6) for j in range(10)]


@given(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2), st.booleans())
def test_swizzle(bits, base, more, negative):
    shift = bits + more
    source, target = (base, base + shift) if negative else (base + shift, base)

    def expected(x):
        return x ^ (x >> source & (1 << bits) - 1) << target

    shape = (16, 64)
    swizzled = Layout(shape, (64, 1), swizzle=(bits, base, -shift if negative else shift))
    values = [expected(x) for x in range(1024)]
    assert swizzled.values() == values
    assert swizzled.is_injective
    found = Layout(shape, lambda i, j: expected(i * 64 + j))
    assert not found.is_table
    assert found.same_map(swizzled)


def test_table_for_what_has_no_form():
    layout = Layout((7, 5), lambda i, j: (i * j) % 7 * 35 + i * 5 + j)
    assert layout.is_table
    assert layout(3, 4) == 5 * 35 + 19
    assert layout.slice((1, 1), (3, 2))(2, 1) == layout(3, 2)
    assert layout.transpose()(4, 3) == layout(3, 4)


@given(trees(), trees())
def test_sum(a, b):
    f, g = Layout(*a), Layout(*b)
    if f.input_shape != g.input_shape:
        g = Layout(f.input_shape, lambda *c: sum(3 * i for i in c))
    assert (f + g).values() == [x + y for x, y in zip(f.values(), g.values(), strict=True)]


@given(compact())
def test_reshape(tree):
    layout = Layout(*tree)
    for shape in ((layout.size,), (1, layout.size, 1), (1, *layout.input_shape)):
        assert layout.reshape(*shape).values() == layout.values()
        assert layout.reshape(*shape).input_shape == shape


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Layout((2, 3), (1,)), LayoutError, "nested alike"),
        (lambda: Layout((2, 0), (1, 1)), LayoutError, "at least 1"),
        (lambda: Layout((2,), (-1,)), LayoutError, "not be negative"),
        (lambda: Layout((2, 2.5), (1, 1)), LayoutError, "integers"),
        (lambda: Layout((4,), lambda i: -i), LayoutError, "non-negative"),
        (lambda: Layout((4,), lambda i: 0.5), LayoutError, "must return integers"),
        (lambda: Layout((4, 4))(4, 0), BoundsError, r"\(4, 0\) is outside shape \(4, 4\)"),
        (lambda: Layout((4, 4)).slice((2, 0), (3, 1)), BoundsError, "not inside shape"),
        (lambda: Layout((4, 4)).reshape(3, 5), LayoutError, "size 16 to shape"),
        (
            lambda: composition(Layout((6, 4), (1, 100)), Layout((3,), (3,))),
            LayoutError,
            "the extents do not divide",
        ),
        (lambda: composition(Layout((4,)), Layout((8,))), LayoutError, "reaches index 7"),
        (lambda: complement(Layout((4,), (0,)), 8), LayoutError, "not injective"),
        (lambda: complement(Layout((4,), (3,)), 13), LayoutError, "no multiple"),
        (lambda: left_inverse(Layout((2, 2), (2, 3))), LayoutError, "left_inverse"),
        (lambda: zipped_divide(Layout((6, 4)), (4, 4)), LayoutError, "6 is no multiple of 4"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
