"""CuTe's algebra of layouts, against brute force over all coordinates."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors, tvm
from tilelang.layout import Layout as MemoryLayout
from tilelang.layout import cute, make_swizzled_layout
from tilelang.tvm.ir import Range


def values(layout: Any) -> list[Any]:
    return [layout(number) for number in range(cute.size(layout))]


def compact(rng: random.Random, extents: tuple[int, ...] = (1, 2, 3, 4)) -> cute.Layout:
    """A random layout without gaps whose leaves are in any order."""
    shape = [rng.choice(extents) for _ in range(rng.randint(1, 4))]
    stride, end = [0] * len(shape), 1
    for axis in rng.sample(range(len(shape)), len(shape)):
        stride[axis], end = end, end * shape[axis]
    if len(shape) > 2:  # nest the first two leaves
        return cute.make_layout(
            ((shape[0], shape[1]), *shape[2:]), ((stride[0], stride[1]), *stride[2:])
        )
    return cute.make_layout(shape, stride)


def strided(rng: random.Random) -> cute.Layout:
    """A random layout, with gaps, repetitions and overlaps."""
    shape = [rng.choice((1, 2, 4, 6)) for _ in range(rng.randint(1, 3))]
    return cute.make_layout(shape, [rng.choice((0, 1, 2, 3, 8, 24)) for _ in shape])


@pytest.mark.parametrize("seed", range(40))
def test_coalescing_keeps_the_values(seed: int) -> None:
    layout = (strided if seed % 2 else compact)(random.Random(seed))
    short = cute.coalesce(layout)
    assert values(short) == values(layout)
    assert cute.rank(short) <= len(cute.flatten_to_tuple(layout.shape))


@pytest.mark.parametrize("seed", range(40))
def test_inverses_of_permutations(seed: int) -> None:
    layout = compact(random.Random(seed))
    for inverse in (cute.left_inverse(layout), cute.right_inverse(layout)):
        assert [inverse(value) for value in values(layout)] == list(range(cute.size(layout)))


@pytest.mark.parametrize("seed", range(60))
def test_compositions(seed: int) -> None:
    """Each composition that there is has the values of the two layouts one after the other."""
    rng = random.Random(seed)
    outer, inner = (strided if seed % 3 else compact)(rng), compact(rng, (1, 2, 4))
    try:
        found = cute.composition(outer, inner)
    except errors.LayoutError as error:
        assert "the composition of" in str(error)
        return
    assert cute.compatible(inner.shape, found.shape)
    inside = [n for n in range(cute.size(inner)) if inner(n) < cute.size(outer)]
    assert [found(n) for n in inside] == [outer(inner(n)) for n in inside]


@pytest.mark.parametrize("seed", range(40))
def test_complements_fill_the_gaps(seed: int) -> None:
    rng = random.Random(seed)
    shape, stride, end = [], [], 1
    for _ in range(rng.randint(1, 3)):  # gaps between the leaves
        end *= rng.choice((1, 2, 3))
        shape.append(rng.choice((2, 3, 4)))
        stride.append(end)
        end *= shape[-1]
    order = rng.sample(range(len(shape)), len(shape))
    layout = cute.make_layout([shape[i] for i in order], [stride[i] for i in order])
    total = end * rng.choice((1, 2))
    rest = cute.complement(layout, total)
    sums = sorted(a + b for a in values(layout) for b in values(rest))
    assert sums == list(range(total))


def test_a_complement_where_strides_do_not_divide_has_no_value_twice() -> None:
    layout = cute.make_layout((4, 6), (1, 6))
    rest = cute.complement(layout, 144)
    sums = [a + b for a in values(layout) for b in values(rest)]
    assert len(set(sums)) == len(sums) and max(sums) < 144


@pytest.mark.parametrize("seed", range(20))
def test_products_repeat_the_block(seed: int) -> None:
    rng = random.Random(seed)
    block, tiler = compact(rng, (2, 3)), compact(rng, (2, 4))
    whole = cute.logical_product(block, tiler)
    assert whole[0] == block and cute.compatible(tiler.shape, whole[1].shape)
    assert sorted(values(whole)) == list(range(cute.size(whole)))
    for number, copy in enumerate(values(tiler)):
        first = whole[1](number)
        assert first == copy * cute.size(block)
    tiled = cute.tiled_product(block, tiler)
    assert values(tiled) == values(whole)
    blocked = cute.blocked_product(block, tiler)
    assert sorted(values(blocked)) == sorted(values(whole))
    assert cute.rank(blocked) == max(cute.rank(block), cute.rank(tiler))


def test_a_blocked_product_has_axes_of_both() -> None:
    found = cute.blocked_product(cute.make_layout((2, 3)), cute.make_layout((4, 5)))
    for i, j in itertools.product(range(8), range(15)):
        assert found((i, j)) == i % 2 + j % 3 * 2 + (i // 2 + j // 3 * 4) * 6


def test_divisions_put_tiles_first() -> None:
    layout = cute.make_layout((8, 6), (6, 1))
    tiles = cute.logical_divide(layout, cute.make_layout(4, 2))
    assert cute.rank(tiles) == 2
    assert [tiles((n, 0)) for n in range(4)] == [layout(2 * n) for n in range(4)]
    assert sorted(values(tiles)) == list(range(48))


def test_filtered_layouts_have_no_repetitions() -> None:
    assert cute.filter(cute.make_layout((4, 1, 3, 2), (2, 9, 0, 1))) == cute.make_layout(
        (4, 2), (2, 1)
    )
    assert cute.filter(cute.make_layout(7, 0)) == cute.make_layout(1, 0)


# Coordinates as values ------------------------------------------------------------------------


def test_strides_that_are_axes_lead_to_coordinates() -> None:
    assert values(cute.make_identity_layout((2, 3))) == [(i, j) for j in range(3) for i in range(2)]
    nested = cute.make_identity_layout((2, (2, 3)))
    assert nested((1, (1, 2))) == (1, (1, 2)) and nested(11) == (1, (1, 2))
    turned = cute.make_layout((2, 3), (cute.E(1), 5 * cute.E(0)))
    assert (
        turned((1, 2)) == (10, 1) and cute.coshape(turned) == (11, 2) and cute.cosize(turned) == 22
    )


def test_axes_route_compositions() -> None:
    memory = cute.make_layout((8, 4), (10, 100))
    swapped = cute.make_layout((4, 8), (cute.E(1), cute.E(0)))
    assert cute.composition(memory, swapped) == cute.make_layout((4, 8), (100, 10))


def test_tuples_add_as_coordinates() -> None:
    first = cute.from_python([2, 3]) + cute.from_python([10])
    assert cute.to_python(first) == (12, 3)
    assert cute.to_python(0 + 2 * cute.from_python(6)) == 12
    assert cute.to_python(cute.from_python(cute.E(0)) + cute.from_python(3 * cute.E((1, 0)))) == (
        1,
        (3,),
    )
    with pytest.raises(errors.LayoutError, match="have no sum"):
        cute.from_python(3) + cute.from_python([1, 2])
    with pytest.raises(errors.LayoutError, match="have no product"):
        cute.from_python([1, 2]) * 3


@pytest.mark.parametrize(
    "text", ["8:1", "(4):(2)", "(((2,8),4),2):(((8@0,1@1),32@0),2@0@1)", "(128,64):(1@0,1@1)"]
)
def test_text_and_back(text: str) -> None:
    layout = cute.Layout.parse(text)
    assert str(layout) == text and cute.Layout.parse(str(layout)) == layout
    assert tvm.ir.structural_equal(layout, cute.Layout.parse(f" {text}"))
    assert str(cute.Swizzle.parse("Sw<2, 4, 3>")) == "Sw<2,4,3>"


@pytest.mark.parametrize("text", ["8", "(4,2:(1,4)", "(4,x):(1,4)", "4:1)"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(errors.LayoutError, match="is no"):
        cute.Layout.parse(text)
    with pytest.raises(errors.LayoutError, match="is no swizzle"):
        cute.Swizzle.parse(text)


# Values that only a call knows ----------------------------------------------------------------


def test_strides_of_the_call() -> None:
    n, s = tvm.tir.Var("n", "int32"), tvm.tir.Var("s", "int32")
    equal = tvm.arith.Analyzer().can_prove_equal
    assert equal(cute.make_layout((4,), (s,))(2), 2 * s)
    assert equal(cute.product((n, (2, 2))), n * 4)
    assert equal(cute.make_layout((n, 4))((2, 3)), 2 + 3 * n)
    divided = cute.logical_divide(cute.make_layout(8, s), cute.make_layout(2))
    assert divided.shape == (2, 4) and equal(divided((1, 3)), 7 * s)
    assert cute.compatible((n + n, 4), ((n, 2), (2, 2))) and not cute.compatible(
        (n, 4), ((n, 2), 4)
    )
    largest = cute.cosize(cute.make_layout((4, 8), (s, 1)))
    for value in (5, -5):
        known = tvm.tir.stmt_functor.substitute(largest, {s: value})
        assert int(tvm.arith.Analyzer().simplify(known)) == 23
    rest = cute.complement(cute.make_layout(4, s), 1024)
    assert equal(rest.stride[1], 4 * s)
    with pytest.raises(errors.LayoutError, match="must be rank-1"):
        cute.complement(cute.make_layout((4, 8), (s, 1)), 1024)
    with pytest.raises(errors.LayoutError, match="needs constant extents"):
        cute.right_inverse(cute.make_layout(4, s))


# Boxes ----------------------------------------------------------------------------------------


def test_boxes_of_layouts() -> None:
    layout = cute.make_layout((64, (64, 4)), (64, (1, 4096)))
    corner, box = cute.restrict(layout, [slice(8, 24), Range.from_min_extent(128, 64)])
    assert corner == 8 * 64 + 2 * 4096 and cute.size(box) == 16 * 64
    for i, j in itertools.product(range(16), range(64)):
        assert corner + box((i, j)) == layout((8 + i, 128 + j))
    coordinates = cute.make_identity_layout((16, 8))
    corner, box = cute.restrict(coordinates, [Range(4, 8), Range(8)])
    assert corner == (4, 0) and box((3, 7)) == (3, 7)


def test_boxes_at_indices_of_the_kernel() -> None:
    j = tvm.tir.Var("j", "int32")
    layout = cute.make_layout((64, (64, 4)), (64, (1, 4096)))
    corner, box = cute.restrict(layout, [Range(0, 64), Range.from_min_extent(j * 64, 64)])
    assert tvm.arith.Analyzer().can_prove_equal(corner, j * 4096)
    assert box == cute.make_layout((64, 64), (64, 1))
    with pytest.raises(errors.LayoutError, match="begins where a digit"):
        cute.restrict(layout, [Range(0, 64), Range.from_min_extent(j * 32, 64)])


def test_boxes_that_are_no_layouts() -> None:
    layout = cute.make_layout((64, (64, 4)), (64, (1, 4096)))
    with pytest.raises(errors.LayoutError, match="begins where a digit"):
        cute.restrict(layout, [slice(0, 64), slice(32, 96)])
    with pytest.raises(errors.LayoutError, match="1 ranges cannot restrict"):
        cute.restrict(layout, [slice(0, 64)])


# Layouts of tiles -----------------------------------------------------------------------------


def test_strides_of_a_tile() -> None:
    tile = MemoryLayout((8, 16), lambda i, j: i * 4 + j // 4 * 32 + j % 4)
    found = cute.Layout.from_tilelang(tile)
    assert str(found) == "(8,(4,4)):(4,(1,32))"
    assert [found((i, j)) for i in range(8) for j in range(16)] == tile.values()
    assert found.to_tilelang().same_map(tile)
    assert cute.Layout.from_tilelang(MemoryLayout((8, 8), lambda i, j: i * j)) is None
    assert cute.Layout.from_tilelang(MemoryLayout((8, 8), lambda i, j: 5 + i * 8 + j)) is None
    assert str(cute.Layout.from_tilelang(MemoryLayout((6, 2), lambda i, j: j))) == "(6,2):(0,1)"


def test_indices_of_a_tile() -> None:
    tile = MemoryLayout((2, 8), lambda i, j: [j % 4, i * 2 + j // 4])
    found = cute.Layout.from_tilelang_hierarchical(tile)
    assert str(found) == "(2,(4,2)):(2@1,(1@0,1@1))"
    assert found.to_tilelang().same_map(tile)
    both = MemoryLayout((4, 4), lambda i, j: [i + j, j])
    assert cute.Layout.from_tilelang_hierarchical(both) is None


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("width", [32, 64, 128])
def test_swizzles_of_tiles(width: int, bits: int) -> None:
    columns = width * 8 // bits * 3
    tile = make_swizzled_layout((16, columns), element_bits=bits, swizzle_bytes=width)
    found = cute.ComposedLayout.from_tilelang(tile)
    assert found is not None and found.swizzle.is_swizzled
    assert [found((i, j)) for i in range(16) for j in range(columns)] == tile.values()
    swizzle = found.recast(bits, 8).swizzle
    assert str(swizzle) == f"Sw<{ {32: 1, 64: 2, 128: 3}[width] },4,3>"
    assert [swizzle(swizzle(value)) for value in range(4096)] == list(range(4096))


def test_bytes_of_a_swizzled_tile() -> None:
    tile = make_swizzled_layout((8, 128), element_bits=16)
    found = cute.ComposedLayout.from_tilelang(tile)
    in_bytes = found.recast(16, 8)
    assert [in_bytes((i, 2 * j)) for i in range(8) for j in range(128)] == [
        2 * v for v in tile.values()
    ]
    back = in_bytes.recast(8, 16)
    assert str(back) == str(found)
    with pytest.raises(errors.LayoutError, match="elements would be divided"):
        cute.ComposedLayout(cute.Swizzle(0, 0, 0), 0, cute.make_layout((3, 2), (1, 3))).recast(
            8, 16
        )


def test_an_offset_above_the_swizzle() -> None:
    swizzle = cute.Swizzle(2, 1, 3)
    tile = MemoryLayout((4, 16), lambda i, j: 192 + swizzle(i * 16 + j))
    found = cute.ComposedLayout.from_tilelang(tile)
    assert found is not None and found.swizzle == swizzle and found.offset == 192
    assert [found((i, j)) for i in range(4) for j in range(16)] == tile.values()
    assert cute.ComposedLayout.from_tilelang(MemoryLayout((8, 8), lambda i, j: i * j)) is None


@pytest.mark.parametrize("form", [(3, 4, 2), (1, -1, 3)])
def test_forms_that_are_no_swizzles(form: tuple[int, int, int]) -> None:
    with pytest.raises(errors.LayoutError, match="is no swizzle"):
        cute.Swizzle(*form)


def test_forms_that_are_no_layouts() -> None:
    with pytest.raises(errors.LayoutError, match="differ in form"):
        cute.make_layout((4, 2), (1, (2, 4)))
    with pytest.raises(errors.LayoutError, match="at least 1"):
        cute.make_layout((4, 0))
    with pytest.raises(errors.LayoutError, match="has 3 axes, but the layout"):
        cute.make_layout((4, 2))((1, 1, 1))
    with pytest.raises(errors.LayoutError, match="deeper than the shape"):
        cute.make_layout((4, 2))((1, (1, 0)))
    with pytest.raises(errors.LayoutError, match="two numbers have one value"):
        cute.left_inverse(cute.make_layout((4, 4), (1, 2)))
    with pytest.raises(errors.LayoutError, match="its values overlap"):
        cute.complement(cute.make_layout((4, 4), (1, 2)), 64)


@pytest.mark.parametrize("target", ["sm_100a", "sm_80"])
def test_a_tile_is_stored_as_a_layout_says(target: str) -> None:
    """Blocks of 4 x 4 elements: columns inside of a block, and blocks along the rows."""
    blocks = cute.blocked_product(cute.make_layout((4, 4)), cute.make_layout((4, 8), (8, 1)))

    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((512,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((16, 32), "float32")
            T.annotate_layout({tile: blocks.to_tilelang()})
            T.copy(A, tile)
            for i, j in T.Parallel(16, 32):
                B[i * 32 + j] = tile[i, j] * 2

    kernel = tilelang.compile(main, target=target)
    a, b = torch.randn(16, 32), torch.zeros(512)
    kernel(a, b)
    assert torch.equal(b.view(16, 32), a * 2)
