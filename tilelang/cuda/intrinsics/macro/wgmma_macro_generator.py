"""Matrix descriptors of tiles in shared memory, as ``wgmma`` reads them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....layout import Layout, SwizzleMode, matrix_operand

#: Bytes that offsets of a descriptor count.
_UNIT = 16
#: The leading offset of swizzled tiles whose contiguous dimension is K: the hardware ignores it.
_IGNORED = 1


class WgmmaDescriptor(NamedTuple):
    """Fields of a matrix descriptor, but for the address.

    Attributes:
        swizzle_mode: the permutation of chunks.
        leading_byte_offset: from one atom to the next along the contiguous dimension, in units of
            16 bytes; of swizzled tiles with contiguous K, 1, which is ignored.
        stride_byte_offset: from eight rows to the next eight, in units of 16 bytes.
    """

    swizzle_mode: SwizzleMode
    leading_byte_offset: int
    stride_byte_offset: int


def compute_gmma_descriptor(
    tl_layout: Layout, buffer: Any, transposed: bool = False
) -> WgmmaDescriptor:
    """Returns the descriptor of a tile in shared memory.

    Args:
        tl_layout: of the tile.
        buffer: the tile, for the width of its elements.
        transposed: whether its contiguous dimension is M or N, not K.

    Raises:
        LayoutError: the tile is not stored in a form that descriptors have.
    """
    found = matrix_operand(tl_layout, int(buffer.dtype.bits), k_major=not transposed)
    ignored = not transposed and found.swizzle_mode is not SwizzleMode.NONE
    leading = _IGNORED if ignored else found.leading_bytes // _UNIT
    return WgmmaDescriptor(found.swizzle_mode, leading, found.stride_bytes // _UNIT)


__all__ = ["WgmmaDescriptor", "compute_gmma_descriptor"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise ImportError(
        f"{__name__} has no {name}: instructions of the tensor core, and the layouts that they "
        "need, are chosen by T.gemm",
        name=name,
    )
