"""Copies element by element: of views that are no boxes of their memory, in parallel loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Load, Region, load, plain, shape_text
from ..ir.expr import Expr, as_expr, condition, const, select
from ..ir.stmt import emit, store
from .allocate import alloc_shared
from .builder import current, in_parallel_loop
from .ignored import remark_choice
from .loops import Parallel, grid
from .region import as_part, as_region, as_tile, corner, corner_extents, significant
from .scalar import AND, logical
from .view import PADDED, Element, Part, View

_if = _ffi.get("ir.If")
VIEWS = (View, Part, Element)
Side = Part | Region


def sides(what: str, src: Any, dst: Any) -> tuple[Side, Side]:
    """The two tiles of a copy; a corner takes its extents from the other side.

    A view that is a box of its memory becomes a region of that.

    Raises:
        ShapeError: their extents differ after dropping extents of 1.
    """
    corners = isinstance(src, (Load, Element)), isinstance(dst, (Load, Element))
    found = [_side(f"src of {what}", src), _side(f"dst of {what}", dst)]
    if corners == (True, False):
        found[0] = _at_corner(src, found[1].shape)
    elif corners == (False, True):
        found[1] = _at_corner(dst, found[0].shape)
    if significant(found[0].shape) != significant(found[1].shape):
        raise errors.ShapeError(
            f"{what}: the source has shape {shape_text(found[0].shape)}, but the destination has "
            f"shape {shape_text(found[1].shape)}",
            span=span.here(),
            notes=["slice both to the same extents"],
        )
    codes = _codes(*found)
    return codes if codes is not None else (boxed(found[0]), boxed(found[1]))


def _codes(src: Side, dst: Side) -> tuple[Region, Region] | None:
    """The bits of two tiles of one narrow type, which a copy need not understand."""
    if not (isinstance(src, Part) and isinstance(dst, Part)) or src.view.dtype != dst.view.dtype:
        return None
    pads = src.view.is_padded != dst.view.is_padded
    unit = PADDED if pads else 1
    first, second = src.view.codes(src, unit), dst.view.codes(dst, unit)
    if first is None or second is None:
        return None
    # Pads come and go between tensors and shared memory.
    of_tensor = {src.view.scope, dst.view.scope} == {"global", "shared.dyn"}
    return (first, second) if of_tensor or not pads else None


def _side(what: str, operand: Any) -> Side:
    return as_part(operand) if isinstance(operand, VIEWS) else as_region(what, operand)


def _at_corner(operand: Any, extents: Sequence[Any]) -> Side:
    if isinstance(operand, Load):
        return corner(operand, extents)
    return Part(operand.view, operand.indices, corner_extents(operand, extents))


def boxed(side: Side) -> Side:
    """The region of memory that a part of a view is; else the part itself."""
    found = side if isinstance(side, Region) else side.view.box(side)
    return side if found is None else found


class _Walk:
    """The elements of a tile, by one variable for each dimension of more than one element."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.extents = [plain(extent) for extent in side.shape]

    def indices(self, variables: Sequence[Any]) -> list[Any]:
        """The place of an element in the tensor."""
        inner = iter(variables)
        return [
            low if isinstance(extent, int) and extent == 1 else low + next(inner)
            for low, extent in zip(map(plain, self.side.mins), self.extents, strict=True)
        ]

    def inside(self, indices: Sequence[Any]) -> Expr | None:
        """Returns whether a place is in the tensor; None where it surely is."""
        holder = self.side.view if isinstance(self.side, Part) else self.side.buffer
        found: Expr | None = None
        for low, extent, index, size in zip(
            map(plain, self.side.mins), self.extents, indices, holder.shape, strict=True
        ):
            if isinstance(low, int) and isinstance(size, int) and low + extent <= size:
                continue
            test = condition(as_expr(index) < size)
            found = test if found is None else logical(AND, found, test)
        return found

    def read(self, indices: Sequence[Any]) -> Expr:
        """The value of an element; 0 outside of the tensor."""
        if isinstance(self.side, Region):
            return load(self.side.buffer, indices)
        value, test = self.side.view.read(indices), self.inside(indices)
        return value if test is None else select(test, value, const(0, value.dtype))

    def write(self, indices: Sequence[Any], values: Sequence[Expr]) -> None:
        """Emits the store of one element, or of those that share one of memory."""
        if isinstance(self.side, Region):
            emit(store(load(self.side.buffer, indices), values[0]))
        elif len(values) > 1:
            self.side.view.write_together(indices, values)
        else:
            self.side.view.write(indices, values[0])

    @property
    def sharing(self) -> int:
        return 1 if isinstance(self.side, Region) else self.side.view.sharing

    @property
    def filled(self) -> int:
        return 1 if isinstance(self.side, Region) else self.side.view.filled


def is_dynamic(region: Any) -> bool:
    """Returns whether the shape of a tile is known only at run time."""
    return isinstance(region, Region) and not all(isinstance(n, int) for n in region.shape)


def element_loop(extents: Sequence[Any], body: Callable[[list[Any]], None]) -> None:
    """Emits a loop over elements; ``body`` emits an iteration, of one variable for each extent.

    The threads share the iterations. Inside of a parallel loop, which the threads share already,
    each of its iterations runs the loop by itself.
    """
    builder, where = current("T.copy"), span.current()
    kind, loop = ("for", grid) if in_parallel_loop(builder) else ("T.Parallel", Parallel)
    opened = loop(*extents).open([], builder)
    block = builder.push(kind)
    body(list(opened.value) if isinstance(opened.value, tuple) else [opened.value])
    builder.emit(opened.close(builder.pop(block), where))


def elementwise(what: str, dst: Side, value: Callable[[list[Any]], Expr]) -> None:
    """Sets the elements of a tile, in parallel, to ``value`` of the variables.

    Raises:
        UnsupportedError: elements that share one of memory are not written together.
    """
    target = _Walk(dst)
    extents = significant(dst.shape) or [1]
    sharing = target.sharing
    if sharing > 1:
        last = target.side.mins[-1]
        if extents[-1] % sharing or (isinstance(plain(last), int) and plain(last) % sharing):
            count = "one" if target.filled == 1 else target.filled
            raise errors.UnsupportedError(
                f"{what} to `{dst}`: {sharing} elements share {count} of memory; the tile starts "
                "and ends between them",
                span=span.here(),
                notes=[f"make its last extent and its start multiples of {sharing}"],
            )
        extents = [*extents[:-1], extents[-1] // sharing]

    def body(variables: list[Any]) -> None:
        places = [
            [*variables[:-1], variables[-1] * sharing + n] if sharing > 1 else variables
            for n in range(sharing)
        ]
        values = [value(place) for place in places]
        indices = target.indices(places[0])
        test = target.inside(indices) if isinstance(dst, Part) else None
        if test is None:
            target.write(indices, values)
            return
        builder, where = current(what), span.current()
        block = builder.push("if")
        target.write(indices, values)
        builder.emit(_if(test, builder.pop(block), None, where))

    element_loop(extents, body)


def reader(side: Side) -> Callable[[Sequence[Any]], Expr]:
    """Returns a function that reads an element of a tile, by one variable for each dimension of
    more than one element.
    """
    walk = _Walk(side)
    return lambda variables: walk.read(walk.indices(variables))


def copy_elements(what: str, src: Side, dst: Side) -> None:
    """Copies a tile element by element, converting the type."""
    elementwise(what, dst, reader(src))


def staged(what: str, operand: Any) -> Any:
    """Copies a view that is no box of its memory to a tile of its own in shared memory.

    Returns:
        the tile; of any other operand the operand itself.
    """
    if not isinstance(operand, (View, Part)):
        return operand
    part = as_part(operand)
    dims = [plain(extent) for extent in part.extents]
    if part.view.codec is not None or not all(isinstance(dim, int) for dim in dims):
        return operand
    try:
        as_tile(what, operand)
    except errors.UnsupportedError:
        remark_choice(
            "copy",
            f"{what} is `{part}`, a view that is no box of {part.view.source.describe()}: threads "
            "copy it to a tile of its own in shared memory",
        )
    else:
        return operand
    tile = alloc_shared(dims, part.view.dtype)
    copy_elements("T.copy", part, as_region(what, tile))
    return tile


__all__ = [
    "VIEWS",
    "boxed",
    "copy_elements",
    "element_loop",
    "elementwise",
    "is_dynamic",
    "reader",
    "sides",
    "staged",
]
