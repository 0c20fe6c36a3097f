"""Inverses, complements, products, divisions and slices of layouts in CuTe's order of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _ffi
from ...errors import LayoutError
from ...ir.dtype import INT32
from ...ir.expr import as_expr, var
from . import int_tuple as ints
from .int_tuple import add, ceil_div, is_int, mul, product
from .layout import Layout, coalesce, composition, cosize, make_layout, of_modes, rank


def _leaves(layout: Layout) -> list[tuple[Any, Any]]:
    return list(zip(layout.extents, ints.leaves(layout.stride), strict=True))


def filter(layout: Layout) -> Layout:
    """Returns the layout without leaves of extent 1 or stride 0, coalesced."""
    return coalesce(of_modes([each for each in _leaves(layout) if not _is_trivial(*each)]))


def _is_trivial(extent: Any, stride: Any) -> bool:
    return any(is_int(each) and each == known for each, known in ((extent, 1), (stride, 0)))


def _by_stride(what: str, layout: Layout) -> list[tuple[int, int, int]]:
    """Stride, extent, and the product of the extents before, of each leaf; by stride."""
    found, before = [], 1
    for extent, stride in _leaves(coalesce(layout)):
        if not (is_int(extent) and is_int(stride) and stride >= 0):
            raise LayoutError(f"{what} of {layout} needs constant extents and strides from 0 on")
        if not _is_trivial(extent, stride):
            found.append((stride, extent, before))
        before *= extent
    return sorted(found)


def right_inverse(layout: Layout) -> Layout:
    """Returns the longest ``R`` with ``layout(R(i)) == i``.

    Raises:
        LayoutError: an extent or a stride is not known.
    """
    modes: list[tuple[Any, Any]] = []
    end = 1
    for stride, extent, before in _by_stride("the right inverse", layout):
        if stride != end:
            break
        modes.append((extent, before))
        end *= extent
    return coalesce(of_modes(modes))


def left_inverse(layout: Layout) -> Layout:
    """Returns ``L`` with ``L(layout(i)) == i``.

    Values that ``layout`` skips lead to those before them.

    Raises:
        LayoutError: an extent or a stride is not known, or two numbers have one value.
    """
    found = _by_stride("the left inverse", layout)
    modes: list[tuple[Any, Any]] = [(found[0][0], 0)] if found and found[0][0] > 1 else []
    for index, (stride, extent, before) in enumerate(found):
        following = found[index + 1][0] if index + 1 < len(found) else stride * extent
        if following % stride or following < stride * extent:
            raise LayoutError(f"{layout} has no left inverse: two numbers have one value")
        modes.append((following // stride, before))
    return coalesce(of_modes(modes))


def complement(layout: Layout, cotarget: Any) -> Layout:
    """Returns the layout of the copies of ``layout`` that fit below ``cotarget`` beside each other.

    Its values, added to those of ``layout``, are all different, and are all numbers below
    ``cotarget`` if the strides divide each other.

    Raises:
        LayoutError: a stride is not known, in a layout of more than one axis; or the values of
            ``layout`` overlap.
    """
    kept = filter(layout)
    leaves = [each for each in _leaves(kept) if not _is_trivial(*each)]
    if not all(is_int(each) for leaf in leaves for each in leaf):
        if len(leaves) > 1:
            raise LayoutError(
                f"the complement of {layout}: with a stride that is not known, a layout must be "
                "rank-1"
            )
    else:
        leaves.sort(key=lambda leaf: leaf[1])
    modes: list[tuple[Any, Any]] = []
    end: Any = 1
    for extent, stride in leaves:
        if is_int(stride) and is_int(end) and stride < end:
            raise LayoutError(f"{layout} has no complement: its values overlap")
        modes.append((stride if is_int(end) and end == 1 else stride // end, end))
        end = mul(extent, stride)
    modes.append((ceil_div(ints.to_python(cotarget), end), end))
    return coalesce(of_modes(modes))


def logical_divide(layout: Layout, tiler: Layout) -> Layout:
    """Returns ``(tile, rest)``: the first axis runs through what ``tiler`` takes of the layout."""
    rest = complement(tiler, product(coalesce(layout).shape))
    return composition(layout, make_layout([tiler, rest]))


def logical_product(block: Layout, tiler: Layout) -> Layout:
    """Returns ``(block, copies)``: copies of the block that lie beside it, as ``tiler`` says."""
    size = mul(product(block.shape), cosize(tiler))
    return make_layout([block, composition(complement(block, size), tiler)])


def tiled_product(block: Layout, tiler: Layout) -> Layout:
    """Returns the logical product with an axis for each axis of the copies."""
    whole = logical_product(block, tiler)
    copies = whole[1].modes
    return whole if len(copies) < 2 else make_layout([whole[0], *copies])


def blocked_product(block: Layout, tiler: Layout) -> Layout:
    """Returns the logical product with axes ``(block, copies)``: one for each of both layouts.

    The layout with fewer axes gets axes of extent 1.
    """
    axes = max(rank(block), rank(tiler))
    whole = logical_product(_padded(block, axes), _padded(tiler, axes))
    pairs = zip(whole[0].modes, whole[1].modes, strict=True)
    return make_layout([make_layout(list(pair)) for pair in pairs])


def _padded(layout: Layout, axes: int) -> Layout:
    if rank(layout) == axes:
        return layout
    return make_layout([*layout.modes, *[Layout(1, 0)] * (axes - rank(layout))])


def restrict(layout: Layout, region: Sequence[Any]) -> tuple[Any, Layout]:
    """Returns the value at the corner of a box, and the layout of the box from there on.

    Args:
        layout: of the whole.
        region: a slice of each axis, or a range with ``min`` and ``extent``.

    Raises:
        LayoutError: there are more or fewer ranges than axes, or the box is no layout: it does not
            begin or end where digits of the coordinates do.
    """
    if len(region) != rank(layout):
        raise LayoutError(
            f"{len(region)} ranges cannot restrict {layout}, which has {rank(layout)} axes"
        )
    corner: Any = 0
    parts = []
    for mode, each in zip(layout.modes, region, strict=True):
        start, extent = _range_of(each)
        begin = ints.simplified(mode(start))
        part = composition(mode, make_layout(extent))
        if not _continues(mode, start, extent, begin, part):
            raise LayoutError(
                f"{extent} elements of {mode} from {start} on are no layout: take a box that "
                "begins where a digit of the coordinates does"
            )
        corner = add(corner, begin)
        parts.append(part)
    return corner, make_layout(parts)


def _range_of(given: Any) -> tuple[Any, Any]:
    """The first index and the number of indices."""
    if isinstance(given, slice):
        start = ints.to_python(given.start or 0)
        return start, ints.simplified(ints.to_python(given.stop) - start)
    return ints.to_python(given.min), ints.to_python(given.extent)


def _continues(mode: Layout, start: Any, extent: Any, begin: Any, part: Layout) -> bool:
    """Returns whether ``mode(start + i) == begin + part(i)`` for all i below the extent."""
    if is_int(start) and is_int(extent):
        inside = range(extent)
        return all(ints.identical(mode(start + i), add(begin, part(i))) for i in inside)
    analyzer = _ffi.get("arith.Analyzer")()
    index = var("i", INT32)
    _ffi.get("arith.BindRange")(analyzer, index, as_expr(0), as_expr(extent))
    whole, parts = mode(start + index), add(begin, part(index))
    prove = _ffi.get("arith.CanProveEqual")
    pairs = zip(ints.leaves(whole), ints.leaves(parts), strict=True)
    return all(prove(analyzer, as_expr(a), as_expr(b)) for a, b in pairs)


__all__ = [
    "blocked_product",
    "complement",
    "filter",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "restrict",
    "right_inverse",
    "tiled_product",
]
