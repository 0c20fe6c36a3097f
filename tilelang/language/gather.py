"""Four rows of a matrix, anywhere in it, to a tile and back: ``T.tma_gather4``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Region, make_region, plain, shape_text
from ..ir.dtype import dtype_of
from ..ir.expr import as_expr
from .copy import copy
from .copy_options import CopyCall, emit_copy
from .gemm import barrier_element
from .ignored import remark_ignored
from .region import as_tile

_ROWS = 4


def _checked(what: str, matrix: Any, tile: Any, rows: Any) -> tuple[Region, Region, list[Any]]:
    """Returns the regions of the matrix and of the tile, and the rows in the tensor.

    Raises:
        ShapeError: they are no matrix, no tile of four rows, or there are not four indices.
        ScopeError: the matrix is not in global memory, or the tile not in shared memory.
    """
    large, small = (
        as_tile(f"the matrix of {what}", matrix),
        as_tile(f"the tile of {what}", tile),
    )
    indices = list(rows) if isinstance(rows, (list, tuple)) else []
    notes = [f"matrix {large.buffer.describe()}", f"tile {small.buffer.describe()}"]
    if len(large.shape) != 2 or len(small.shape) != 2 or plain(small.shape[0]) != _ROWS:
        raise errors.ShapeError(
            f"{what} takes a matrix and a tile of shape (4, columns), not {shape_text(large.shape)}"
            f" and {shape_text(small.shape)}",
            span=span.here(),
            notes=notes,
        )
    if len(indices) != _ROWS:
        raise errors.ShapeError(
            f"{what}: rows must be a list of four row indices, got `{rows}`", span=span.here()
        )
    if large.buffer.scope != "global" or small.buffer.scope not in ("shared", "shared.dyn"):
        raise errors.ScopeError(
            f"{what} copies between global and shared memory", span=span.here(), notes=notes
        )
    return large, small, [as_expr(large.mins[0] + row) for row in indices]


def tma_gather4(
    src: Any,
    dst: Any,
    col: Any,
    rows: Sequence[Any],
    *,
    barrier: Any,
    swizzle: Any = None,
    eviction_policy: Any = None,
) -> None:
    """Issues a load of parts of four rows by the tensor memory accelerator; does not wait for it.

    One instruction loads the rows on sm_100a and later. On sm_90a each row is a load of its own,
    of a multiple of 128 bytes.

    Args:
        src: a matrix in global memory.
        dst: a tile of shape (4, columns) in shared memory, of the same type.
        col: the first column.
        rows: the indices of four rows.
        barrier: the mbarrier on which :func:`tma_gather4_bytes` complete. The program makes its
            phase expect them, arrives and waits.
        swizzle: accepted; the compiler chooses the layout of ``dst``, or ``T.annotate_layout``.
        eviction_policy: as of ``T.copy``.

    Raises:
        ShapeError: not a matrix, a tile of four rows, and four indices.
        ScopeError: other memory.
        TargetError (when compiled): the target has no tensor memory accelerator.
    """
    remark_ignored("T.tma_gather4", swizzle=swizzle)
    element = barrier_element("barrier of T.tma_gather4", barrier)
    large, small, places = _checked("T.tma_gather4", src, dst, rows)
    source = make_region(large.buffer, [0, large.mins[1] + col], small.shape)
    emit_copy(
        source,
        small,
        CopyCall.TMA_GATHER,
        eviction_policy=eviction_policy,
        barrier=element,
        rows=places,
    )


def tma_gather4_bytes(K_box: int, dtype: Any) -> int:
    """Returns the bytes of four rows of ``K_box`` elements."""
    return _ROWS * K_box * dtype_of(dtype).bits // 8


def tma_scatter4(
    src: Any,
    dst: Any,
    col: Any,
    rows: Sequence[Any],
    *,
    swizzle: Any = None,
    eviction_policy: Any = None,
) -> None:
    """Stores the rows of a tile as parts of four rows of a matrix, and waits for it.

    Args:
        src: a tile of shape (4, columns) in shared memory.
        dst: a matrix in global memory.
        col, rows, swizzle, eviction_policy: as of :func:`tma_gather4`; no row twice.

    Raises:
        ShapeError, ScopeError: as of :func:`tma_gather4`.
    """
    remark_ignored("T.tma_scatter4", swizzle=swizzle)
    large, small, places = _checked("T.tma_scatter4", dst, src, rows)
    columns = small.shape[1]
    for i, row in enumerate(places):
        target = make_region(large.buffer, [row, large.mins[1] + col], [1, columns])
        source = make_region(small.buffer, [small.mins[0] + i, small.mins[1]], [1, columns])
        copy(source, target, eviction_policy=eviction_policy)
