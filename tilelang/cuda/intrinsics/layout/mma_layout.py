"""The layout of an operand of ``mma.sync`` in shared memory."""

from __future__ import annotations

from typing import Any

from ....layout import Layout, make_swizzled_layout


def make_mma_swizzle_layout(shared_buf: Any, is_smooth: bool = False) -> Layout:
    """Returns the layout of a tile that ``ldmatrix`` reads without bank conflicts.

    Args:
        shared_buf: a tile in shared memory.
        is_smooth: rows as they are, without a swizzle.
    """
    if is_smooth:
        return Layout(shared_buf.shape, lambda *index: list(index))
    return make_swizzled_layout(shared_buf)


__all__ = ["make_mma_swizzle_layout"]
