"""Fragments against brute force over every element, thread and register."""

import itertools

import pytest
from expressions import evaluate, variable
from hypothesis import assume, given
from hypothesis import strategies as st

from tilelang.errors import BoundsError, LayoutError, UnsupportedError
from tilelang.layout import (
    Conversion,
    Fragment,
    Layout,
    conversion,
    make_gemm_fragment_8x8,
    make_gemm_fragment_8x8_transposed,
)


def coords(shape):
    return itertools.product(*(range(extent) for extent in shape))


def slots(fragment):
    """(thread, reg) -> (coordinate, replica), from the forward map alone."""
    return {
        fragment.forward(*c, rep=rep): (c, rep)
        for c in coords(fragment.input_shape)
        for rep in range(fragment.replicas)
    }


@st.composite
def fragments(draw):
    """Digits of each dimension sent to threads or registers in a random order of strides."""
    shape, digits = [], []
    for dim in range(draw(st.integers(1, 3))):
        extents = draw(st.lists(st.sampled_from([2, 3, 4, 5]), min_size=1, max_size=2))
        place = 1
        for extent in extents:
            digits.append((dim, place, extent))
            place *= extent
        shape.append(place)
    replicate = draw(st.sampled_from([1, 1, 2, 3]))
    digits.append((-1, 1, replicate))
    on_thread = [d[0] < 0 or draw(st.booleans()) for d in digits]
    strides, steps = {}, {True: 1, False: 1}
    for i in draw(st.permutations(range(len(digits)))):
        strides[i] = steps[on_thread[i]]
        steps[on_thread[i]] *= digits[i][2]

    def value(source):
        def at(*coord):
            total = 0
            for i, (dim, place, extent) in enumerate(digits):
                if on_thread[i] == source and dim < len(coord):
                    index = coord[dim] if dim >= 0 else coord[len(shape)] if replicate > 1 else 0
                    total += index // place % extent * strides[i]
            return total

        return at

    register = lambda *c: value(False)(*c, 0)  # noqa: E731
    return Fragment(
        tuple(shape),
        forward_thread_fn=value(True),
        replicate=replicate,
        forward_index_fn=register,
    )


@given(fragments())
def test_inverse_undoes_forward(fragment):
    held = slots(fragment)
    size = fragment.replicas
    for extent in fragment.input_shape:
        size *= extent
    assert len(held) == size, "two elements share a slot"
    threads = 1 + max(t for t, _ in held)
    regs = 1 + max(r for _, r in held)
    assert (fragment.num_threads, fragment.regs_per_thread) == (threads, regs)
    for slot in itertools.product(range(threads), range(regs)):
        assert fragment.inverse(*slot) == held.get(slot)
    assert fragment.is_bijective == (len(held) == threads * regs)


def check_expressions(fragment, num_threads):
    i = [variable(f"i{d}") for d in range(len(fragment.input_shape))]
    thread, reg = fragment.forward_exprs(*i)
    for c in coords(fragment.input_shape):
        values = {f"i{d}": x for d, x in enumerate(c)}
        assert (evaluate(thread, **values), evaluate(reg, **values)) == fragment.forward(*c)
    held = slots(fragment)
    coord, rep, valid = fragment.inverse_exprs(variable("t"), variable("r"), num_threads)
    for t, r in itertools.product(range(num_threads), range(fragment.regs_per_thread)):
        assert bool(evaluate(valid, t=t, r=r)) == ((t, r) in held), (t, r)
        if (t, r) in held:
            content = tuple(evaluate(e, t=t, r=r) for e in coord), evaluate(rep, t=t, r=r)
            assert content == held[t, r]


@given(fragments(), st.sampled_from([0, 0, 1, 7]), st.sampled_from([0, 0, 4]))
def test_expressions(fragment, extra, begin):
    assume(fragment.has_closed_inverse)
    moved = fragment.bind_threads(begin)
    check_expressions(moved, moved.num_threads + extra)


@pytest.mark.parametrize(
    ("shape", "threads", "vector"),
    [
        ((16, 64), 128, 4),
        ((128, 128), 128, 8),
        ((3, 100), 128, 4),
        ((5, 7), 32, 1),
        ((7, 13, 3), 96, 2),
        ((1000,), 256, 4),
        ((6, 10), 4, 5),
        ((9,), 32, 2),
    ],
)
def test_partition(shape, threads, vector):
    fragment = Fragment.partition(shape, threads, vector)
    for index, c in enumerate(coords(shape)):
        block = index // (threads * vector)
        expected = (index // vector % threads, block * vector + index % vector)
        assert fragment.forward(*c) == expected
    assert fragment.has_closed_inverse
    check_expressions(fragment, threads)


def test_vector_width():
    assert Fragment.partition((16, 64), 128, 4).vector_width() == 4
    assert Fragment.partition((16, 64), 128, 4).vector_width(0) == 1
    assert Fragment.partition((3, 100), 128, 4).vector_width() == 4
    assert Fragment.partition((3, 99), 128, 4).vector_width() == 1
    assert Fragment.partition((5, 6), 32, 2).vector_width() == 2
    strided = Fragment(
        (8, 8), forward_thread_fn=lambda i, j: i, forward_index_fn=lambda i, j: 2 * j
    )
    assert strided.vector_width() == 1
    assert Fragment.partition((16, 64), 128, 4).transpose().vector_width(0) == 4


@given(fragments(), st.data())
def test_vector_width_by_brute_force(fragment, data):
    dim = data.draw(st.integers(0, len(fragment.input_shape) - 1))
    width = fragment.vector_width(dim)
    assert fragment.input_shape[dim] % width == 0
    for c in coords(fragment.input_shape):
        first = list(c)
        first[dim] -= c[dim] % width
        thread, reg = fragment.forward(*first)
        assert reg % width == 0
        assert fragment.forward(*c) == (thread, reg + c[dim] % width)


@pytest.mark.parametrize("lower_dim_first", [True, False])
def test_repeat_along_all_dimensions(lower_dim_first):
    """Blocks are numbered along the last dimension first, or along the first one."""
    base = Fragment((2, 3), lambda i, j: (2 * j + i, 0))
    repeated = base.repeat([4, 5], lower_dim_first=lower_dim_first)
    for i, j in coords((8, 15)):
        row, column = i // 2, j // 3
        block = row * 5 + column if lower_dim_first else column * 4 + row
        assert repeated.forward(i, j) == (2 * (j % 3) + i % 2, block)


def test_fragments_of_ldmatrix():
    """Lane l holds the elements (l / 4, 2 (l % 4)) and the next one of the row; .trans turns it."""
    plain, turned = make_gemm_fragment_8x8(), make_gemm_fragment_8x8_transposed()
    for lane, register in itertools.product(range(32), range(2)):
        row, column = lane // 4, 2 * (lane % 4) + register
        assert plain.forward(row, column) == turned.forward(column, row) == (lane, register)


@given(fragments(), st.data())
def test_repeat_and_replicate(fragment, data):
    dim = data.draw(st.integers(0, len(fragment.input_shape) - 1))
    n = data.draw(st.integers(1, 3))
    on = data.draw(st.sampled_from(["threads", "registers"]))
    repeated = fragment.repeat(dim, n, on)
    extent = fragment.input_shape[dim]
    for c in coords(repeated.input_shape):
        inner = list(c)
        inner[dim] %= extent
        thread, reg = fragment.forward(*inner)
        block = c[dim] // extent
        if on == "threads":
            thread += block * fragment.num_threads
        else:
            reg += block * fragment.regs_per_thread
        assert repeated.forward(*c) == (thread, reg)
    counts = [n if axis == dim else 1 for axis in range(len(fragment.input_shape))]
    assert fragment.repeat(counts, repeat_on_thread=on == "threads").same_map(repeated)
    copies = fragment.replicate(n)
    origin = (0,) * len(fragment.input_shape)
    holders = {copies.forward(*origin, rep=rep)[0] for rep in range(copies.replicas)}
    expected = {
        fragment.forward(*origin, rep=rep)[0] + k * fragment.num_threads
        for rep in range(fragment.replicas)
        for k in range(n)
    }
    assert holders == expected


@given(fragments(), st.data())
def test_reduce_dim(fragment, data):
    shape = fragment.input_shape
    dim = data.draw(st.integers(0, len(shape) - 1))
    keep = data.draw(st.booleans())
    reduced = fragment.reduce_dim(dim, keep)
    expected = [1 if d == dim else n for d, n in enumerate(shape) if d != dim or keep]
    assert reduced.input_shape == tuple(expected or [1])
    used = set()
    for c in coords(reduced.input_shape):
        rest = list(c) if keep or len(shape) > 1 else []
        if keep:
            del rest[dim]
        holders = set()
        for i in range(shape[dim]):
            full = (*rest[:dim], i, *rest[dim:])
            holders |= {fragment.forward(*full, rep=r)[0] for r in range(fragment.replicas)}
        placed = [reduced.forward(*c, rep=rep) for rep in range(reduced.replicas)]
        assert {thread for thread, _ in placed} == holders
        assert len(placed) == len(holders)
        used |= {reg for _, reg in placed}
    assert used == set(range(reduced.regs_per_thread)), "registers are not dense"


def test_reduce_of_the_mma_accumulator():
    """m16n8: row 8 * (r / 2) + t / 4, column 2 * (t % 4) + r % 2."""
    accumulator = Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, i // 8 * 2 + j % 2))
    rows = accumulator.reduce_dim(1)
    assert rows.input_shape == (16,) and rows.replicas == 4 and rows.regs_per_thread == 2
    assert {rows.forward(9, rep=k) for k in range(4)} == {(4, 1), (5, 1), (6, 1), (7, 1)}


@given(fragments(), st.data())
def test_slice_transpose_reshape(fragment, data):
    shape = fragment.input_shape
    begin = [data.draw(st.integers(0, n - 1)) for n in shape]
    extents = [data.draw(st.integers(1, n - b)) for n, b in zip(shape, begin, strict=True)]
    part = fragment.slice(begin, extents)
    for c in coords(extents):
        assert part.forward(*c) == fragment.forward(*map(sum, zip(c, begin, strict=True)))
    axes = data.draw(st.permutations(range(len(shape))))
    for c in coords(shape):
        moved = tuple(c[a] for a in axes)
        assert fragment.transpose(*axes).forward(*moved) == fragment.forward(*c)
    flat = fragment.reshape(len(list(coords(shape))))
    for index, c in enumerate(coords(shape)):
        assert flat.forward(index) == fragment.forward(*c)


def brute_conversion(a, b):
    """The cheapest class of moves, from the definition."""
    worst = Conversion.IDENTICAL
    for c in coords(a.input_shape):
        sources = [a.forward(*c, rep=r) for r in range(a.replicas)]
        for rep in range(b.replicas):
            target = b.forward(*c, rep=rep)
            if target in sources:
                needed = Conversion.IDENTICAL
            elif any(t == target[0] for t, _ in sources):
                needed = Conversion.REGISTERS
            elif any(t // 32 == target[0] // 32 for t, _ in sources):
                needed = Conversion.SHUFFLE
            else:
                needed = Conversion.SHARED
            worst = max(worst, needed)
    return worst


@given(fragments(), st.data())
def test_conversion(fragment, data):
    shape = fragment.input_shape
    others = [
        fragment,
        fragment.replicate(2),
        Fragment(shape, forward_thread_fn=fragment.thread.forward),
        Fragment.partition(shape, data.draw(st.sampled_from([4, 32, 64]))),
        Fragment.replicated(shape, 8),
    ]
    other = data.draw(st.sampled_from(others))
    assert conversion(fragment, other) == brute_conversion(fragment, other)
    assert conversion(other, fragment) == brute_conversion(other, fragment)


@given(fragments())
def test_same_map(fragment):
    again = Fragment.from_layouts(fragment.thread, fragment.reg, fragment.replica)
    assert fragment.same_map(again)
    assert not fragment.same_map(fragment.replicate(2))
    assert not fragment.same_map(fragment.bind_threads(1))


def test_function_of_thread_alone_numbers_registers():
    fragment = Fragment((4, 6), forward_thread_fn=lambda i, j: j % 3 + i % 2 * 3)
    assert fragment.forward(0, 0) == (0, 0)
    assert fragment.forward(0, 3) == (0, 1)
    assert fragment.forward(2, 0) == (0, 2)
    assert fragment.regs_per_thread == 4


def test_table_fragment():
    """A map without closed form still inverts, and refuses to become an expression."""
    table = Fragment((5, 5), lambda i, j: (i * i % 5 + 5 * (j * j % 7), i * 5 + j))
    for c in coords((5, 5)):
        assert table.inverse(*table.forward(*c)) == (c, 0)
    assert not table.has_closed_inverse
    with pytest.raises(UnsupportedError, match="no closed form"):
        table.inverse_exprs(variable("t"), variable("r"), 64)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Fragment((4, 4), lambda i, j: (i, 0)), LayoutError, "into the same register"),
        (lambda: Fragment((4,)), LayoutError, "forward_thread_fn"),
        (lambda: Fragment((4096, 512), lambda i, j: (j, i)), LayoutError, "divide the tile"),
        (
            lambda: Fragment((4,), forward_thread_fn=lambda i, rep: i ^ rep, replicate=2),
            LayoutError,
            "fixed distance",
        ),
        (lambda: Fragment.partition((4, 4), 0), LayoutError, "0 threads"),
        (lambda: Fragment.partition((4,), 4).forward(4), BoundsError, "outside shape"),
        (lambda: Fragment.partition((4,), 4).inverse(4, 0), BoundsError, "slot"),
        (lambda: Fragment.partition((4,), 4).repeat(0, 2, on="warps"), LayoutError, "warps"),
        (lambda: Fragment.partition((4,), 4).repeat(0), LayoutError, "number of blocks"),
        (lambda: Fragment.partition((4,), 4).repeat([2, 2]), LayoutError, "1 numbers"),
        (
            lambda: conversion(Fragment.partition((4,), 4), Fragment.partition((8,), 4)),
            LayoutError,
            "different shapes",
        ),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_layout_expression_of_a_swizzle():
    layout = Layout((8, 64), (64, 1), swizzle=(3, 3, 3), offset=512)
    expression = layout.forward_expr(variable("i"), variable("j"))
    for i, j in coords((8, 64)):
        assert evaluate(expression, i=i, j=j) == layout(i, j) == 512 + (i * 64 + j ^ i << 3)


def test_layout_expression_of_a_table_is_refused():
    layout = Layout((7, 5), lambda i, j: [3, 1, 4, 0, 5, 2, 6][i] * 5 + j)
    with pytest.raises(UnsupportedError, match="no index expression"):
        layout.forward_expr(variable("i"), variable("j"))


def test_layout_expression_of_a_function():
    """Also of what is made from it: transposed, sliced, reshaped."""
    layout = Layout((6, 10), lambda i, j: (i, (3 * j + i) % 10))
    assert layout.is_table
    assert repr(layout) == "(i0, i1) -> i0 * 10 + (3 * i1 + i0) % 10 on (6, 10)"
    made = [layout, layout.transpose(), layout.slice((1, 2), (4, 7)), layout.reshape(4, 15)]
    for other in made:
        expression = other.forward_expr(variable("i"), variable("j"))
        for i, j in coords(other.input_shape):
            assert evaluate(expression, i=i, j=j) == other(i, j)
    cube = layout.reshape(3, 5, 4)
    expression = cube.forward_expr(variable("i"), variable("j"), variable("k"))
    for i, j, k in coords((3, 5, 4)):
        assert evaluate(expression, i=i, j=j, k=k) == cube(i, j, k)
