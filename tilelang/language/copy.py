"""``T.copy``, ``T.fill``, ``T.clear``: moving and setting tiles."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Load, Region, load, shape_text
from ..ir.dtype import INT32
from ..ir.expr import as_element, as_expr, var
from ..ir.stmt import emit, store
from .builder import in_block, in_kernel, in_parallel_loop
from .copy_options import emit_copy
from .ignored import remark_ignored
from .ragged_copy import copy_ragged, with_known_extents
from .region import as_part, as_region, corner, place_in, shape_of, significant
from .view import all_equal
from .view_copy import VIEWS, boxed, copy_elements, elementwise, is_dynamic, sides
from .ws_schedule import named

_fill = _ffi.get("ir.Fill")
_parallel = _ffi.get("ir.ParallelFor")


def copy_regions(what: str, src: Any, dst: Any) -> tuple[Region, Region]:
    """Returns the two regions of a copy; a corner takes its extents from the other side.

    Raises:
        ShapeError: their extents differ after dropping extents of 1.
    """
    src_corner, dst_corner = isinstance(src, Load), isinstance(dst, Load)
    source, target = as_region(f"src of {what}", src), as_region(f"dst of {what}", dst)
    if src_corner and not dst_corner:
        source = corner(src, shape_of(what, dst))
    elif dst_corner and not src_corner:
        target = corner(dst, shape_of(what, src))
    a, b = significant(source.shape), significant(target.shape)
    differ = len(a) != len(b) or any(
        isinstance(x, int) and isinstance(y, int) and x != y for x, y in zip(a, b, strict=True)
    )
    if differ:
        raise errors.ShapeError(
            f"{what}: the source has shape {shape_text(source.shape)}, but the destination has "
            f"shape {shape_text(target.shape)}",
            span=span.here(),
            notes=[
                f"source {source.buffer.describe()}",
                f"destination {target.buffer.describe()}",
                "slice both to the same extents, or give one side as a corner A[i, j]: a corner "
                "has the extents of the other side",
            ],
        )
    return source, target


@named
def copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: str | None = None,
    prefer_instruction: str | None = None,
    loop_layout: Any = None,
) -> None:
    """Copies a tile between any two memories, converting the element type.

    In a parallel loop, each iteration copies its own elements, one after the other.

    Args:
        src, dst: a buffer, a slice ``A[i:i + m, j:j + n]``, or a corner ``A[i, j]``, which takes
            its extents from the other side. A slice may have an extent that is known at run time:
            where it is shorter than the other side, what it lacks is zero, or is not stored.
        coalesced_width: elements that one thread accesses together.
        disable_tma: do not use the tensor memory accelerator.
        eviction_policy: "evict_normal", "evict_first" or "evict_last", for the L2 cache.
        prefer_instruction: the instruction to use where it is legal.
        loop_layout: a Fragment that maps the elements to threads.

    Raises:
        ShapeError: the tiles differ in shape.
    """
    by_elements = in_parallel_loop(in_kernel("T.copy"))
    remark_ignored("T.copy", prefer_instruction=prefer_instruction)
    if isinstance(src, VIEWS) or isinstance(dst, VIEWS):
        first, second = sides("T.copy", src, dst)
        if not (isinstance(first, Region) and isinstance(second, Region)):
            copy_elements("T.copy", first, second)
            return
        source, target = first, second
    else:
        source, target = copy_regions("T.copy", src, dst)
        if is_dynamic(source) or is_dynamic(target):
            source, target = with_known_extents(source, target)
        if is_dynamic(source) or is_dynamic(target):
            copy_ragged(source, target)
            return
    if by_elements:
        copy_elements("T.copy", source, target)
        return
    emit_copy(
        source,
        target,
        disable_tma=disable_tma,
        prefer_tma=prefer_instruction == "tma",
        eviction_policy=eviction_policy,
        coalesced_width=coalesced_width,
        loop_layout=loop_layout,
    )


@named
def fill(buffer: Any, value: Any) -> None:
    """Sets every element of a tile to ``value``, a scalar converted to the element type.

    In a parallel loop, each iteration sets its own elements.
    """
    by_elements = in_parallel_loop(in_kernel("T.fill"))
    if isinstance(buffer, VIEWS):
        dst = boxed(as_part(buffer))
        if not isinstance(dst, Region) or getattr(buffer, "codec", None):
            elementwise("T.fill", dst, lambda _: as_expr(value))
            return
        buffer = dst
    target = as_region("buffer of T.fill", buffer)
    dtype = target.dtype
    if by_elements or is_dynamic(target):
        elementwise("T.fill", target, lambda _: as_expr(value, dtype))
        return
    emit(_fill(target, as_element(value, dtype), span.current()))


@named
def clear(buffer: Any) -> None:
    """Sets every element of a tile to zero."""
    fill(buffer, 0)


@named
def transpose(src: Any, dst: Any) -> None:
    """Copies a matrix with rows and columns swapped, converting the element type.

    Raises:
        ShapeError: not (M, N) to (N, M).
    """
    in_block("T.transpose")
    source, target = as_region("src of T.transpose", src), as_region("dst of T.transpose", dst)
    shape, turned = shape_of("src of T.transpose", src), shape_of("dst of T.transpose", dst)
    if len(shape) != 2 or not all_equal(turned, shape[::-1]):
        raise errors.ShapeError(
            f"T.transpose: the source has shape {shape_text(shape)} and the destination "
            f"{shape_text(turned)}",
            span=span.here(),
            notes=["both must be matrices, (M, N) and (N, M)"],
        )
    i, j = var("i", INT32), var("j", INT32)
    here = [index for index, extent in zip((i, j), shape, strict=True) if significant([extent])]
    value = load(source.buffer, place_in(source, here))
    body = store(load(target.buffer, place_in(target, here[::-1])), value)
    emit(_parallel([i, j], [*map(as_expr, shape)], body, {}, span.current()))
