"""Copies between a tile and a slice whose extent is known at run time: ``T.copy(A[i:j], tile)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Region, difference, load, make_region, plain
from ..ir.expr import Expr, as_expr, cast, condition, const, select
from ..ir.stmt import emit, store
from .builder import current
from .region import place_in, significant
from .scalar import AND, logical
from .view_copy import element_loop

_if = _ffi.get("ir.If")


def _zero(distance: Any) -> bool:
    return isinstance(distance, int) and distance == 0


def _common(source: Region, target: Region) -> list[Any]:
    """The extents of the loop: where one side has a constant and the other none, the constant.

    Raises:
        ShapeError: two extents of the run that may differ.
    """
    extents = []
    for a, b in zip(significant(source.shape), significant(target.shape), strict=True):
        if not isinstance(a, int) and not isinstance(b, int) and not _zero(difference(a, b)):
            raise errors.ShapeError(
                f"T.copy of `{source}` to `{target}`: the extents {a} and {b} are not known to be "
                "the same",
                span=span.here(),
                notes=["write both slices with the same bounds: A[i : i + n], B[j : j + n]"],
            )
        extents.append(a if isinstance(a, int) else b)
    return extents


def _to_the_end(region: Region, extents: Sequence[Any]) -> Region:
    """The region with these extents in dimensions where its slice ends where the tensor does.

    What lies beyond the tensor reads as zero, and is not stored.
    """
    wanted, found = iter(extents), []
    for low, extent, size in zip(region.mins, region.shape, region.buffer.shape, strict=True):
        extent = plain(extent)
        if isinstance(extent, int) and extent == 1:
            found.append(extent)
            continue
        other = next(wanted)
        ends = region.buffer.scope == "global" and _zero(difference(low + extent, plain(size)))
        found.append(other if isinstance(other, int) and ends else extent)
    return make_region(region.buffer, region.mins, found)


def with_known_extents(source: Region, target: Region) -> tuple[Region, Region]:
    """The sides of a copy, with constant extents in place of those that end with their tensor.

    Raises:
        ShapeError: two extents of the run that may differ.
    """
    extents = _common(source, target)
    return _to_the_end(source, extents), _to_the_end(target, extents)


def _inside(region: Region, variables: Sequence[Any], extents: Sequence[Any]) -> Expr | None:
    """Returns whether an element of the loop is in a slice; None: it surely is."""
    found: Expr | None = None
    dims = significant(region.shape)
    for variable, extent, looped in zip(variables, dims, extents, strict=False):
        if _zero(difference(extent, looped)):
            continue
        test = condition(as_expr(variable) < extent)
        found = test if found is None else logical(AND, found, test)
    return found


def copy_ragged(source: Region, target: Region) -> None:
    """Copies a tile, as far as both sides go: what a slice lacks is zero, and is not stored."""
    extents = _common(source, target)

    def body(variables: list[Any]) -> None:
        here = variables[: len(extents)]
        value = cast(load(source.buffer, place_in(source, here)), target.dtype)
        test = _inside(source, here, extents)
        if test is not None:
            value = select(test, value, const(0, value.dtype))
        element = load(target.buffer, place_in(target, here))
        test = _inside(target, here, extents)
        if test is None:
            emit(store(element, value))
            return
        builder, where = current("T.copy"), span.current()
        block = builder.push("if")
        emit(store(element, value))
        builder.emit(_if(test, builder.pop(block), None, where))

    element_loop(extents or [1], body)
