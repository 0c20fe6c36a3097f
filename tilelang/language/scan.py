"""Prefix sums and maxima along one dimension, of tiles and of memory of any extent."""

from __future__ import annotations

import math
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Region, plain, shape_text
from .builder import in_block, in_kernel
from .copy import copy
from .region import as_region, axis_in, shape_of
from .scan_grid import scan_over_grid
from .scan_turns import emit_scan, fits_at_once, scan_in_turns, turns_of
from .view import all_equal
from .ws_schedule import named

#: Of a multiprocessor.
REGISTER_FILE_BITS = 65536 * 32


@named
def cumsum(
    src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, *, scope: str = "block"
) -> None:
    """Inclusive prefix sum: ``dst[.., k, ..]`` is the sum of ``src[.., 0, ..]`` to ``[.., k, ..]``.

    Threads sum up neighbours in registers, lanes exchange sums by shuffles, and warps one sum each
    through shared memory. A tensor that does not fit registers is gone through tile by tile, what
    comes next loaded ahead, with the last sum of each row carried along; a remark says in which
    tiles. Sums of floats of 16 bits and less are kept in float32.

    With ``scope="grid"`` all blocks of the grid scan a tensor together, in one launch that reads
    and writes each element once, however many blocks there are: each takes the next tile that
    nobody has, and adds what blocks have left that had the tiles before. Results are the same bit
    by bit in every run and with any number of blocks and multiprocessors.

    Args:
        src: a tile in fragments or shared memory, whole or a slice, of constant shape; or a tensor
            or a region of one, of any extent, also one that is known at run time.
        dst: of the same shape; ``src`` when omitted.
        dim: the dimension; negative ones count from the end.
        reverse: sum from the end: ``[.., k, ..]`` to the last.
        scope: "block", or "grid" for tensors that all blocks scan together; each block calls it
            once, in the body of ``T.Kernel`` itself.

    Raises:
        ShapeError: ``dim`` is none of the dimensions, ``dst`` has another shape, or the extent of a
            tile is not constant.
        ScopeError: with ``scope="grid"``, a tile, or a call in a loop or under a condition.
        SemanticsError: there is no such scope, with "grid" the regions depend on the block, or
            ``src`` and ``dst`` overlap without being the same.
        ResourceError: a tile is larger than all registers.
    """
    _scan("T.cumsum", "cumsum", src, dst, dim, reverse, scope)


@named
def cummax(
    src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, *, scope: str = "block"
) -> None:
    """Inclusive prefix maximum; see :func:`cumsum`. NaN is not greater than any number."""
    _scan("T.cummax", "cummax", src, dst, dim, reverse, scope)


def _scan(what: str, op: str, src: Any, dst: Any, dim: int, reverse: bool, scope: str) -> None:
    in_block(what)
    if scope not in ("block", "grid"):
        raise errors.SemanticsError(
            f"scope={scope!r} of {what} is neither 'block' nor 'grid'", span=span.here()
        )
    source = as_region(f"src of {what}", src)
    target = source if dst is None else as_region(f"dst of {what}", dst)
    shape = shape_of(f"src of {what}", src)
    into = shape if dst is None else shape_of(f"dst of {what}", dst)
    if not all_equal(shape, into):
        texts = shape_text(shape), shape_text(into)
        namesakes = "; each T.dynamic makes an extent of its own: call it once for both"
        raise errors.ShapeError(
            f"{what}: the source has shape {texts[0]}, but the destination has shape {texts[1]}",
            span=span.here(),
            notes=["both must have the same shape" + (namesakes if texts[0] == texts[1] else "")],
        )
    if isinstance(dim, bool) or not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        raise errors.ShapeError(
            f"{what}: dim={dim} is out of range for a tile of rank {len(shape)}",
            span=span.here(),
            notes=[f"dim must be from {-len(shape)} to {len(shape) - 1}"],
        )
    axis = _axis(what, source, target, shape, dim % len(shape))
    if scope == "grid":
        _check_tensors(what, source, target)
        scan_over_grid(what, turns_of(what, op, source, target, axis, reverse))
        return
    threads = math.prod(in_kernel(what).kernel.threads)
    if _in_tensors(source, target) and not fits_at_once(source, threads):
        scan_in_turns(what, turns_of(what, op, source, target, axis, reverse))
        return
    _check_tile(what, source)
    if source.shape[axis] == 1:
        copy(source, target)
        return
    emit_scan(op, source, target, axis, reverse)


def _axis(what: str, source: Region, target: Region, shape: tuple[Any, ...], dim: int) -> int:
    """The dimension of both regions that is ``dim`` of tiles of ``shape``.

    Raises:
        UnsupportedError: views whose memory has no such dimension, or that differ in it.
    """
    axis = axis_in(source, shape, dim)
    if axis is not None and all_equal(source.shape, target.shape):
        return axis
    raise errors.UnsupportedError(
        f"{what} of a tile of {shape_text(shape)} along dimension {dim}: in memory it is `{source}`"
        f" of shape {shape_text(source.shape)} and goes to `{target}` of shape "
        f"{shape_text(target.shape)}",
        span=span.here(),
        notes=["T.copy a view to a tile of its own"],
    )


def _in_tensors(source: Region, target: Region) -> bool:
    return source.buffer.scope == "global" and target.buffer.scope == "global"


def _check_tensors(what: str, source: Region, target: Region) -> None:
    """Raises for what only one block can reach."""
    for region in (source, target):
        if region.buffer.scope != "global":
            raise errors.ScopeError(
                f'{what} with scope="grid" needs tensors, but each block has its own '
                f"{region.buffer.describe()}",
                span=span.here(),
                notes=["all blocks together scan from tensor to tensor"],
            )


def _check_tile(what: str, source: Region) -> None:
    """Raises for what registers cannot hold: a scan takes its tile at once."""
    if not all(isinstance(plain(extent), int) for extent in source.shape):
        raise errors.ShapeError(
            f"{what} needs constant extents, got shape {shape_text(source.shape)}",
            span=span.here(),
            notes=["a scan from tensor to tensor may have dynamic extents"],
        )
    bits = math.prod(map(plain, source.shape)) * source.buffer.dtype.bits
    if bits > REGISTER_FILE_BITS:
        raise errors.ResourceError(
            f"{what} of {shape_text(source.shape)} {source.buffer.dtype} needs {bits // 8} bytes "
            f"of registers, but an SM has {REGISTER_FILE_BITS // 8}",
            span=span.here(),
            notes=["scan from tensor to tensor instead: it works tile by tile"],
        )


__all__ = ["cummax", "cumsum"]
