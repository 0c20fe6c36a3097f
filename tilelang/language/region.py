"""Operands of tile operators: buffers, slices, and corners of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer, Load, Region, make_region, plain, shape_text, whole
from .variable import Poison, Ref
from .view import Element, Part, View, all_equal

Extents = Sequence[Any]
AS_PARAMETER = "a tensor of torch or NumPy is passed to the kernel: A: T.Tensor(shape, dtype)"


def is_foreign(operand: Any) -> bool:
    """Returns whether ``operand`` is a tensor of torch or NumPy."""
    return type(operand).__module__.partition(".")[0] in ("torch", "numpy")


def as_region(what: str, operand: Any) -> Region:
    """Returns the tile that ``operand`` names; a single element is a tile of one element.

    Raises:
        SemanticsError: it is neither a buffer nor a part of one.
    """
    if isinstance(operand, Region):
        return operand
    if isinstance(operand, Buffer):
        return whole(operand)
    if isinstance(operand, Load):
        return make_region(operand.buffer, operand.indices, [1] * len(operand.indices))
    if isinstance(operand, Ref):
        return whole(operand.buffer)
    tile = getattr(operand, "__tl_tile__", None)
    if tile is not None:
        return as_region(what, tile())
    if isinstance(operand, (View, Part, Element)):
        return _box(what, operand)
    if isinstance(operand, Poison):
        operand._raise()
    raise errors.SemanticsError(
        f"{what} is {errors.described(operand)}; expected a buffer, a slice of one, or "
        "the corner of a tile A[i, j]",
        span=span.here(),
        notes=[AS_PARAMETER] if is_foreign(operand) else [],
    )


def as_part(operand: View | Part | Element) -> Part:
    """Returns the part of a view that an operand names: all of it, a box, or one element."""
    if isinstance(operand, View):
        return operand.whole()
    if isinstance(operand, Element):
        return Part(operand.view, operand.indices, [1] * len(operand.indices))
    return operand


def _box(what: str, operand: View | Part | Element) -> Region:
    part = as_part(operand)
    found = part.view.box(part)
    if found is None:
        raise errors.UnsupportedError(
            f"{what} is `{part}` of shape {shape_text(part.extents)}, a view that is no box of "
            f"{part.view.source.describe()}",
            span=span.here(),
            notes=["T.copy it to a tile of its own"],
        )
    return found


def shape_of(what: str, operand: Any) -> tuple[Any, ...]:
    """The shape of the tile that ``operand`` names: of a view its own, not that of the memory.

    Raises:
        SemanticsError: it is neither a buffer nor a part of one.
    """
    if isinstance(operand, (View, Part, Element)):
        return tuple(map(plain, as_part(operand).extents))
    return as_region(what, operand).shape


def as_tile(what: str, operand: Any) -> Region:
    """As :func:`as_region`, where dimensions have a meaning by their place from the end.

    Raises:
        UnsupportedError: a view of a box of another shape, but for extents of 1 before the others.
    """
    region = as_region(what, operand)
    shape = shape_of(what, operand)
    if all_equal(_from_first(shape), _from_first(region.shape)):
        return region
    raise errors.UnsupportedError(
        f"{what} is a view of shape {shape_text(shape)}, and in {region.buffer.describe()} it is "
        f"`{region}` of shape {shape_text(region.shape)}",
        span=span.here(),
        notes=["T.copy it to a tile of its own"],
    )


def _is_one(extent: Any) -> bool:
    return isinstance(extent, int) and extent == 1


def _from_first(shape: Extents) -> list[Any]:
    """The extents from the first on that is not 1."""
    return list(dropwhile(_is_one, map(plain, shape)))


def axis_in(region: Region, shape: Extents, axis: int) -> int | None:
    """The dimension of a region that is dimension ``axis`` of a tile, a view of that region.

    They have the same extents in the same order, but those of 1. None where it is one of these, and
    the region has other dimensions than the tile.
    """
    if all_equal(region.shape, shape):
        return axis
    if _is_one(shape[axis]):
        return None
    before = len(significant(shape[:axis]))
    return [d for d, extent in enumerate(region.shape) if not _is_one(extent)][before]


def place_in(region: Region, here: Sequence[Any]) -> tuple[Any, ...]:
    """The indices of element ``here`` of a region: of its dimensions with extents other than 1."""
    moving = iter(here)
    return tuple(
        low if _is_one(extent) else low + next(moving)
        for low, extent in zip(region.mins, region.shape, strict=True)
    )


def significant(shape: Extents) -> list[Any]:
    """The extents other than 1."""
    return [dim for dim in map(plain, shape) if not _is_one(dim)]


def _without_ones(extents: Extents, rank: int) -> list[Any]:
    """Extents with as many of 1 left out, from the left, as ``rank`` dimensions are too few for.

    The place of the others matters: (1, 16, 1) is 16 rows of one column in a matrix.
    """
    dims = list(map(plain, extents))
    while len(dims) > rank and any(map(_is_one, dims)):
        dims.remove(next(filter(_is_one, dims)))
    return dims


def corner_extents(element: Element, extents: Extents) -> list[Any]:
    """The extents of a tile at an element of a view, one for each dimension.

    Raises:
        ShapeError: more extents than the view has dimensions.
    """
    view = element.view
    dims = _without_ones(extents, view.ndim)
    if len(dims) > view.ndim:
        raise errors.ShapeError(
            f"a tile of shape {shape_text(extents)} at `{element}`: {view.describe()} has only "
            f"{view.ndim} dimensions",
            span=span.here(),
        )
    return [1] * (view.ndim - len(dims)) + dims


def corner(load: Load, extents: Extents) -> Region:
    """The tile of the given extents that starts at ``load``.

    The extents belong to the last dimensions; those of extent 1 may be missing in the buffer.

    Raises:
        ShapeError: more extents than the buffer has dimensions.
        BoundsError: the tile is larger than a dimension of constant extent.
    """
    buffer, rank = load.buffer, load.buffer.ndim
    dims = _without_ones(extents, rank)
    if len(dims) > rank:
        raise errors.ShapeError(
            f"a tile of shape {shape_text(extents)} at `{load}`: {buffer.describe()} has only "
            f"{rank} dimensions",
            span=span.here(),
        )
    dims = [1] * (rank - len(dims)) + dims
    for low, dim, extent in zip(map(plain, load.indices), dims, buffer.shape, strict=True):
        constant = isinstance(low, int) and isinstance(dim, int) and isinstance(extent, int)
        if constant and buffer.scope != "global" and low + dim > extent:
            raise errors.BoundsError(
                f"a tile of shape {shape_text(extents)} at `{load}` ends outside "
                f"{buffer.describe()}",
                span=span.here(),
            )
    return make_region(buffer, load.indices, dims)
