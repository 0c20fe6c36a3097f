"""Layouts of tiles in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilelang import _ffi
from tilelang.errors import LayoutError
from tilelang.layout._tabulate import checked_shape
from tilelang.layout.fragment import Fragment
from tilelang.layout.layout import Layout
from tilelang.layout.swizzle_mode import SwizzleMode


def _call(name: str, *args: Any) -> Any:
    return _ffi.get(f"layout.{name}")(*args)


def _tile(tile: Any, element_bits: int | None) -> tuple[tuple[int, ...], int]:
    """Shape and element width of a buffer, or of a shape with ``element_bits``."""
    if element_bits is None:
        dtype = getattr(tile, "dtype", None)
        if dtype is None:
            raise LayoutError("give element_bits with a shape, or pass a buffer")
        element_bits = int(dtype.bits)
    shape = [getattr(extent, "value", extent) for extent in getattr(tile, "shape", tile)]
    return checked_shape(shape), element_bits


def make_swizzled_layout(
    tile: Any,
    k_major: bool = True,
    allow_pad: bool = True,
    *,
    element_bits: int | None = None,
    swizzle_bytes: int | None = None,
    atomicity_bytes: int = 16,
) -> Layout:
    """The layout of a shared-memory tile as TMA, ``wgmma`` and ``tcgen05.mma`` read it.

    Atoms of 8 rows x ``swizzle_bytes``; a wider tile is split into atom columns
    ``[width / atom][rows][atom]``. The last dimension is the contiguous one; K-major and MN-major
    operands are stored alike, except that MN-major elements of 32 bits want chunks of 32 bytes.

    Args:
        tile: a buffer, or a shape (then ``element_bits`` is needed).
        k_major: whether K is the contiguous dimension, not M or N. Matters for elements of 32
            bits only: ``k_major=False`` gives the 128-byte swizzle of 32-byte chunks that
            ``tcgen05.mma`` reads, rows padded to 128 bytes.
        allow_pad: when no atom fits the row width, pad rows by 16 bytes instead of leaving the
            tile plain.
        element_bits: width of an element in bits.
        swizzle_bytes: 128, 64, 32, or 16 (unswizzled core matrices); default: the widest of the
            first three that divides the row width.
        atomicity_bytes: what ``swizzle_bytes`` moves: chunks of 16 bytes or, with 128 bytes, of
            32 bytes (chunk c of row r at c ^ (r % 4)).

    Raises:
        LayoutError: the row width is no multiple of ``swizzle_bytes``, or there is no such
            swizzle.
    """
    shape, bits = _tile(tile, element_bits)
    if swizzle_bytes is not None or atomicity_bytes != 16:
        return _call("Swizzled", shape, bits, swizzle_bytes or 128, atomicity_bytes)
    if not k_major and bits == 32:
        operand = _call("Operand", shape, bits, k_major)
        if operand is not None:
            return operand
    widest = _call("WidestSwizzle", shape, bits)
    if widest > 16:
        return _call("Swizzled", shape, bits, widest, 16)
    return _call("Padded", shape, 128 // bits if allow_pad and len(shape) > 1 else 0)


def _rows_and_columns(tile: Any, columns: int | None) -> Any:
    """The tile of a layout that may be given by its rows and its columns."""
    return tile if columns is None else (tile, columns)


def make_full_bank_swizzled_layout(
    tile: Any, columns: int | None = None, element_bits: int | None = None
) -> Layout:
    """128-byte swizzle: 16-byte chunk c of row r at c ^ (r % 8)."""
    return make_swizzled_layout(
        _rows_and_columns(tile, columns), element_bits=element_bits, swizzle_bytes=128
    )


def make_half_bank_swizzled_layout(
    tile: Any, columns: int | None = None, element_bits: int | None = None
) -> Layout:
    """64-byte swizzle: 16-byte chunk c of row r at c ^ (r // 2 % 4)."""
    return make_swizzled_layout(
        _rows_and_columns(tile, columns), element_bits=element_bits, swizzle_bytes=64
    )


def make_quarter_bank_swizzled_layout(
    tile: Any, columns: int | None = None, element_bits: int | None = None
) -> Layout:
    """32-byte swizzle: 16-byte chunk c of row r at c ^ (r // 4 % 2)."""
    return make_swizzled_layout(
        _rows_and_columns(tile, columns), element_bits=element_bits, swizzle_bytes=32
    )


def make_wgmma_swizzled_layout(
    tile: Any,
    continuity: int | None = None,
    k_major: bool = True,
    *,
    element_bits: int | None = None,
) -> Layout:
    """The layout of an operand of ``wgmma`` in shared memory: the widest swizzle that fits.

    Args:
        tile: a buffer, or a shape (then ``element_bits`` is needed).
        continuity: how many elements of a row the swizzle may span; default: the whole row.
        k_major: as in :func:`make_swizzled_layout`.
        element_bits: width of an element in bits.

    Raises:
        LayoutError: ``continuity`` elements are no multiple of 32 bytes.
    """
    if continuity is None:
        return make_swizzled_layout(tile, k_major, element_bits=element_bits)
    _, bits = _tile(tile, element_bits)
    spans = continuity * bits // 8
    fitting = [width for width in (128, 64, 32) if spans > 0 and spans % width == 0]
    if not fitting:
        raise LayoutError(
            f"continuity={continuity} elements of {bits} bits are {spans} bytes; swizzles span "
            "128, 64 or 32 bytes"
        )
    return make_swizzled_layout(tile, k_major, element_bits=element_bits, swizzle_bytes=fitting[0])


#: An operand of ``tcgen05.mma`` lies as one of ``wgmma``.
make_tcgen05mma_swizzled_layout = make_wgmma_swizzled_layout


def make_fully_replicated_layout_fragment(tile: Any, threads: int) -> Fragment:
    """The fragment layout in which each of ``threads`` threads holds the whole tile.

    ``tile`` is a buffer or a shape.
    """
    shape = [getattr(extent, "value", extent) for extent in getattr(tile, "shape", tile)]
    return Fragment.replicated(checked_shape(shape), threads)


def make_linear_layout(tile: Any) -> Layout:
    """Row-major, without swizzle or padding. ``tile`` is a buffer or a shape."""
    shape = [getattr(extent, "value", extent) for extent in getattr(tile, "shape", tile)]
    return Layout(checked_shape(shape))


def make_cutlass_metadata_layout(buffer: Any, mma_dtype: Any = "float16", **options: Any) -> Layout:
    """The layout of the metadata of ``T.gemm_sp``, row-major: other compilers have others.

    Args:
        buffer: the metadata, or their shape.
        mma_dtype, options: of the matrix, and its target; they do not matter here.
    """
    return make_linear_layout(buffer)


def make_padded_layout(tile: Any, pad: int) -> Layout:
    """Row-major with ``pad`` unused elements after each row. ``tile`` is a buffer or a shape."""
    shape = [getattr(extent, "value", extent) for extent in getattr(tile, "shape", tile)]
    return _call("Padded", checked_shape(shape), pad)


def bank_cycles(addresses: Sequence[int], access_bytes: int) -> int:
    """Shared-memory cycles of one warp access.

    Args:
        addresses: byte address of each thread; negative for inactive ones.
        access_bytes: width of each thread's access, 1 to 16.

    The model: 32 banks of 4 bytes; 8-byte accesses by half-warps, 16-byte ones by quarter-warps;
    threads that touch the same word share it.
    """
    return _call("BankCycles", tuple(addresses), access_bytes)


def shared_access_cost(
    layout: Layout, fragment: Fragment, element_bits: int, vector: int = 1
) -> tuple[int, int]:
    """(cycles, least possible cycles) of moving ``fragment`` to or from shared ``layout``.

    ``vector`` consecutive elements of the last dimension move in one access.
    """
    return tuple(_call("SharedAccessCost", layout, fragment, element_bits, vector))


class MatrixOperand(NamedTuple):
    """Fields of a matrix descriptor, in bytes.

    Attributes:
        swizzle_bytes: 128, 64, 32, or 16 without swizzle.
        leading_bytes: leading dimension byte offset (LBO); 0 where the hardware ignores it.
        stride_bytes: stride dimension byte offset (SBO).
        atomicity_bytes: what the swizzle moves: chunks of 16 bytes, or of 32 in the 128-byte
            swizzle of MN-major 32-bit elements.
    """

    swizzle_bytes: int
    leading_bytes: int
    stride_bytes: int
    atomicity_bytes: int = 16

    @property
    def swizzle_mode(self) -> SwizzleMode:
        """The swizzle by its name."""
        return SwizzleMode.of_bytes(self.swizzle_bytes)


def matrix_operand(layout: Layout, element_bits: int, k_major: bool = True) -> MatrixOperand:
    """The fields of a ``tcgen05.mma`` or ``wgmma`` descriptor of a shared-memory tile.

    Args:
        layout: the tile, (M or N, K) if ``k_major`` else (K, M or N); the last dimension is the
            contiguous one. Slices of tiles are fine.
        element_bits: width of an element.
        k_major: whether K is the contiguous dimension.

    Raises:
        LayoutError: the tile is not stored in a form that descriptors have.
    """
    found = _call("MatrixOperand", layout, element_bits, k_major)
    if isinstance(found, str):
        raise LayoutError(f"layout {layout} is no operand of a tensor-core instruction: {found}")
    return MatrixOperand(*found)


def plain_byte_offset(layout: Layout, element_bits: int, coord: Sequence[int]) -> int:
    """Bytes to add to a descriptor's start address for the element at ``coord``: its offset
    before swizzling, since the hardware swizzles the sum."""
    return _call("PlainByteOffset", layout, element_bits, tuple(coord))
