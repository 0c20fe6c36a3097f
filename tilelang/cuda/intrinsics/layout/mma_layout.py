"""The layout of an operand of ``mma.sync`` in shared memory."""

from __future__ import annotations

from typing import Any

from ....errors import LayoutError
from ....ir.dtype import dtype_of
from ....layout import Layout, make_swizzled_layout

_CHUNK = 16  # bytes that a swizzle moves together


def make_mma_swizzle_layout(shared_buf: Any, is_smooth: bool = False) -> Layout:
    """Returns the layout of a tile that ``ldmatrix`` reads without bank conflicts.

    Args:
        shared_buf: a tile in shared memory.
        is_smooth: rows as they are, without a swizzle.
    """
    if is_smooth:
        return Layout(shared_buf.shape, lambda *index: list(index))
    return make_swizzled_layout(shared_buf)


def get_swizzle_layout(
    row_idx: Any, col_idx: Any, row_size: int, dtype: Any, swizzle_bytes: int | None = None
) -> tuple[Any, Any]:
    """Returns the row and column where a swizzle puts an element, for a ``T.Layout``.

    Chunk c (16 bytes) of row r lies at c ^ (r * w / 128 % w / 16) of its w bytes, w the width of
    the swizzle (PTX ISA, "Swizzling modes").

    Args:
        row_idx, col_idx: numbers or expressions.
        row_size: elements of a row.
        dtype: their type.
        swizzle_bytes: 128, 64 or 32; default: the widest that divides a row.

    Raises:
        LayoutError: no swizzle of that width divides the row.
    """
    bits = dtype_of(dtype).bits
    widths = [w for w in (128, 64, 32) if row_size * bits % (8 * w) == 0]
    width = swizzle_bytes or next(iter(widths), 0)
    if width not in widths:
        raise LayoutError(
            f"rows of {row_size} elements of {bits} bits in a swizzle of {width or 32} bytes; it "
            "is 128, 64 or 32 bytes and divides the row"
        )
    chunk = 8 * _CHUNK // bits
    turn = row_idx // (128 // width) % (width // _CHUNK)
    return row_idx, (col_idx // chunk ^ turn) * chunk + col_idx % chunk


__all__ = ["get_swizzle_layout", "make_mma_swizzle_layout"]
