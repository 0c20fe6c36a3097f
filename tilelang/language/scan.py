"""Prefix sums and maxima of a tile along one dimension."""

from __future__ import annotations

import math
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import plain, shape_text
from .allocate import alloc_fragment, alloc_scratch
from .builder import in_block
from .copy import copy
from .function import macro
from .loops import Parallel
from .region import as_region
from .scalar import if_then_else
from .scalar import max as maximum
from .ws_schedule import named

#: Of a multiprocessor.
REGISTER_FILE_BITS = 65536 * 32


@named
def cumsum(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False) -> None:
    """Inclusive prefix sum: ``dst[.., k, ..]`` is the sum of ``src[.., 0, ..]`` to ``[.., k, ..]``.

    It takes as many steps as the extent has binary digits (Hillis and Steele, "Data parallel
    algorithms", 1986); the tile passes through shared memory of its own size between them.

    Args:
        src: a tile in fragments, shared or global memory, whole or a slice, of constant shape.
        dst: of the same shape; ``src`` when omitted.
        dim: the dimension; negative ones count from the end.
        reverse: sum from the end: ``[.., k, ..]`` to the last.

    Raises:
        ShapeError: ``dim`` is none of the dimensions, an extent is not constant, or ``dst`` has
            another shape.
        ResourceError: the tile is larger than all registers.
    """
    _scan("T.cumsum", _add_neighbours, src, dst, dim, reverse)


@named
def cummax(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False) -> None:
    """Inclusive prefix maximum; see :func:`cumsum`."""
    _scan("T.cummax", _greatest_neighbours, src, dst, dim, reverse)


def _scan(what: str, combine: Any, src: Any, dst: Any, dim: int, reverse: bool) -> None:
    in_block(what)
    source = as_region(f"src of {what}", src)
    target = source if dst is None else as_region(f"dst of {what}", dst)
    shape = tuple(plain(extent) for extent in source.shape)
    if not all(isinstance(extent, int) for extent in shape) or shape != tuple(
        map(plain, target.shape)
    ):
        raise errors.ShapeError(
            f"{what} of {shape_text(source.shape)} into {shape_text(target.shape)}",
            span=span.here(),
            notes=["both have the same constant shape"],
        )
    if isinstance(dim, bool) or not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        raise errors.ShapeError(
            f"dim={dim} of {what} of a tile of rank {len(shape)}",
            span=span.here(),
            notes=[f"dim is from {-len(shape)} to {len(shape) - 1}"],
        )
    _check_size(what, source)
    sums = alloc_fragment(shape, source.buffer.dtype)
    before = alloc_scratch(shape, source.buffer.dtype)
    copy(source, sums)
    distance = 1
    while distance < shape[dim]:
        copy(sums, before)
        combine(sums, before, dim % len(shape), -distance if not reverse else distance)
        distance *= 2
    copy(sums, target)


def _check_size(what: str, source: Any) -> None:
    """Raises ResourceError for what registers cannot hold: a scan takes its tile at once."""
    bits = math.prod(source.shape) * source.buffer.dtype.bits
    if bits > REGISTER_FILE_BITS:
        raise errors.ResourceError(
            f"{what} of {shape_text(source.shape)} {source.buffer.dtype} takes {bits // 8} bytes "
            f"at once, and all registers are {REGISTER_FILE_BITS // 8}",
            span=span.here(),
            notes=["loop over chunks, and add to each the last element of the one before"],
        )


@macro
def _add_neighbours(sums: Any, before: Any, dim: Any, offset: Any) -> None:
    """Adds to every element the one ``offset`` further along ``dim``, where there is one."""
    for place in Parallel(*sums.shape):
        here = place if isinstance(place, tuple) else (place,)
        there = (*here[:dim], here[dim] + offset, *here[dim + 1 :])
        inside = here[dim] >= -offset if offset < 0 else here[dim] < sums.shape[dim] - offset
        sums[here] = sums[here] + if_then_else(inside, before[there], 0)


@macro
def _greatest_neighbours(sums: Any, before: Any, dim: Any, offset: Any) -> None:
    """Takes the maximum with the element ``offset`` further along ``dim``, where there is one."""
    for place in Parallel(*sums.shape):
        here = place if isinstance(place, tuple) else (place,)
        there = (*here[:dim], here[dim] + offset, *here[dim + 1 :])
        inside = here[dim] >= -offset if offset < 0 else here[dim] < sums.shape[dim] - offset
        sums[here] = if_then_else(inside, maximum(sums[here], before[there]), sums[here])


__all__ = ["cummax", "cumsum"]
