"""The kernels of a stream, made for its layout."""

# Types of parameters of kernels are values.
# mypy: disable-error-code="valid-type"

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import tilelang
import tilelang.language as T

from ..math import cdiv
from .layout import Layout

#: Of a block. On an H200 512 are up to 7 % slower, 11 % where vectors of 4 bytes are exchanged.
THREADS = 256
#: Where vectors of other sizes are exchanged: 256 are 1 to 10 % slower.
_EXCHANGING_THREADS = 512
#: Bytes side by side in a tile from which on the order of the stream is that of the tiles, too.
_LONG_RUN = 512
#: Bytes side by side in a tile below which shared memory puts elements in order.
_SHORT_RUN = 64


class Words(NamedTuple):
    """The integers that carry a vector of elements: their type, and how many there are."""

    dtype: str
    lanes: int

    @classmethod
    def of(cls, size: int) -> Words:
        """Returns the widest words of a vector of ``size`` bytes."""
        width = min(size & -size, 8)
        return cls(f"uint{8 * width}", size // width)


class Patch(NamedTuple):
    """The part of a stream that a block copies: rows along the last axis, and a part of each.

    Blocks that took the stream as it comes would write a few bytes to many tiles each. A block with
    several rows writes all of them behind each other, where it can.

    Attributes:
        row: vectors of a row of the stream.
        rows, columns: extents of the patch, in rows and vectors.
        run: vectors that lie side by side in a tile; 0: neighbours along the rows' axis do.
        shared: whether threads exchange vectors, so that neighbours write to neighbouring places.
    """

    row: int
    rows: int
    columns: int
    run: int
    shared: bool

    @classmethod
    def of(cls, layout: Layout, size: int) -> Patch | None:
        """Returns the patch for vectors of ``size`` bytes; None: blocks take what comes."""
        if len(layout.axes) < 2:
            return None
        slower, inner = layout.axes[-2:]
        run = inner.tile if inner.weight == 1 else 0
        if run * size >= _LONG_RUN:
            return None
        if run * size >= _SHORT_RUN:
            # Measured on an H200: shorter pieces of rows where vectors have 16 bytes.
            return cls(inner.extent, 16, (256 if size == 16 else 512) // size, run, False)
        if run:
            return cls(inner.extent, 32, 512 // size // run * run, run, True)
        return cls(inner.extent, 64, 128 // size, 0 if slower.weight == 1 else 1, True)

    def stored(self, place: Any) -> tuple[Any, Any]:
        """Returns row and column of the vector that is stored as the ``place``-th of the patch."""
        if not self.run:
            return place % self.rows, place // self.rows
        column = place // (self.rows * self.run) * self.run + place % self.run
        return place // self.run % self.rows, column


@functools.lru_cache(maxsize=256)
def scatter(layout: Layout, itemsize: int, vectors: int, target: str) -> Any:
    """Returns the kernel that puts elements of a stream into the tiles of a pool.

    It is called with the elements, ``(n, words)``; the pools, ``(vectors, words)``; the position of
    the first element relative to the base of its batch, in vectors; the slot of the pools that the
    first tile of the base's epoch would have.

    Args:
        layout: of the stream.
        itemsize: of an element.
        vectors: of all pools.
        target: what to compile for.
    """
    size = layout.lanes * itemsize
    patch = Patch.of(layout, size)
    if patch is None:
        kernel = _scatter_run(layout, size, vectors)
    elif patch.shared and size <= 8:
        kernel = _scatter_exchanged(layout, patch, size, vectors)
    else:
        kernel = _scatter_patch(layout, patch, size, vectors)
    return tilelang.compile(kernel, target=target)


def _scatter_run(layout: Layout, size: int, vectors: int) -> Any:
    dtype, words = Words.of(size)
    index = index_dtype(layout, vectors)
    # More than one vector a thread makes blocks of wide ones take turns less evenly.
    block = THREADS if size == 16 else 2 * THREADS
    n = T.dynamic("n", "int32")

    @T.prim_func
    def scatter_elements(
        elements: T.Tensor((n, words), dtype),
        pools: T.Tensor((vectors, words), dtype),
        first: index,
        slot: index,
    ):
        with T.Kernel(T.ceildiv(n, block), threads=THREADS) as b:
            for i, w in T.Parallel(block, words):
                if b * block + i < n:
                    pools[place(layout, first + b * block + i, slot), w] = elements[
                        b * block + i, w
                    ]

    return scatter_elements


def _scatter_patch(layout: Layout, patch: Patch, size: int, vectors: int) -> Any:
    dtype, words = Words.of(size)
    index = index_dtype(layout, vectors)
    row, rows, columns, _, _ = patch
    across = cdiv(row, columns)
    n = T.dynamic("n", "int32")

    @T.prim_func
    def scatter_elements(
        elements: T.Tensor((n, words), dtype),
        pools: T.Tensor((vectors, words), dtype),
        first: index,
        slot: index,
    ):
        with T.Kernel(
            T.cast(T.ceildiv(first % row + n, row * rows), "int32") * across, threads=THREADS
        ) as b:
            for i, w in T.Parallel(rows * columns, words):
                column = b % across * columns + i % columns
                # Relative to the first element of its row: what is before it is not given.
                at = (b // across * rows + i // columns) * row + column - first % row
                if T.And(column < row, T.And(at >= 0, at < n)):
                    pools[place(layout, first + at, slot), w] = elements[at, w]

    return scatter_elements


def _scatter_exchanged(layout: Layout, patch: Patch, size: int, vectors: int) -> Any:
    dtype, _ = Words.of(size)
    index = index_dtype(layout, vectors)
    row, rows, columns, _, _ = patch
    across = cdiv(row, columns)
    n = T.dynamic("n", "int32")

    @T.prim_func
    def scatter_elements(
        elements: T.Tensor((n, 1), dtype),
        pools: T.Tensor((vectors, 1), dtype),
        first: index,
        slot: index,
    ):
        with T.Kernel(
            T.cast(T.ceildiv(first % row + n, row * rows), "int32") * across,
            threads=THREADS if size == 4 else _EXCHANGING_THREADS,
        ) as b:
            # A row has one vector more: those of a column lie in different banks.
            held = T.alloc_shared((rows, columns + 1), dtype)
            for i in T.Parallel(rows * columns):
                column = b % across * columns + i % columns
                at = (b // across * rows + i // columns) * row + column - first % row
                if T.And(column < row, T.And(at >= 0, at < n)):
                    held[i // columns, i % columns] = elements[at, 0]
            for i in T.Parallel(rows * columns):
                r, c = patch.stored(i)
                column = b % across * columns + c
                at = (b // across * rows + r) * row + column - first % row
                if T.And(column < row, T.And(at >= 0, at < n)):
                    pools[place(layout, first + at, slot), 0] = held[r, c]

    return scatter_elements


def place(layout: Layout, position: Any, slot: Any) -> Any:
    """Returns the vector of the pools that a position's vector goes to, as an expression."""
    offset, tile, stride = 0, 0, 1
    for axis, count in zip(reversed(layout.axes[1:]), reversed(layout.counts), strict=True):
        index, position = position % axis.extent, position // axis.extent
        tile = tile + index // axis.tile * stride
        offset = offset + index % axis.tile * axis.weight
        stride *= count
    lead, epoch = layout.axes[0], 0
    if layout.period:
        epoch = position // layout.period * layout.epochs_of_period
        position = position % layout.period
    epoch = epoch + position // lead.tile
    offset = offset + position % lead.tile * lead.weight
    return (slot + epoch * layout.live + tile) * layout.tile + offset


@functools.lru_cache(maxsize=64)
def pad(layout: Layout, itemsize: int, vectors: int, target: str) -> Any:
    """Returns the kernel that puts the padding into tiles that elements do not fill.

    It is called with the pools, ``(vectors, words)``; the padding, ``(words,)``; the slot of the
    first tile; the number of the first epoch in its period; the position, relative to the base of
    the batch, at which the stream ends; how many vectors there are, from the first tile on.

    Args:
        layout: of the stream, with one element a vector.
        itemsize, vectors, target: as of :func:`scatter`.
    """
    dtype, words = Words.of(itemsize)
    block = 4 * THREADS

    @T.prim_func
    def pad_tiles(
        pools: T.Tensor((vectors, words), dtype),
        padding: T.Tensor((words,), dtype),
        slot: T.int64,
        epoch: T.int64,
        end: T.int64,
        count: T.int64,
    ):
        with T.Kernel(T.ceildiv(count, block), threads=THREADS) as b:
            for i, w in T.Parallel(block, words):
                cell = T.cast(b, "int64") * block + i
                if cell < count and not_of_stream(layout, cell, epoch, end):
                    pools[slot * layout.tile + cell, w] = padding[w]

    return tilelang.compile(pad_tiles, target=target)


def not_of_stream(layout: Layout, cell: Any, epoch: Any, end: Any) -> Any:
    """Returns whether an element of the tiles from ``epoch`` on is none of the stream's first."""
    offset, tile = cell % layout.tile, cell // layout.tile
    position, outside, stride = 0, T.bool(False), 1
    for axis, count in zip(reversed(layout.axes[1:]), reversed(layout.counts), strict=True):
        index = tile % count * axis.tile + offset // axis.weight % axis.tile
        tile = tile // count
        outside = T.Or(outside, index >= axis.extent)
        position = position + index * stride
        stride *= axis.extent
    lead = layout.axes[0]
    tile = tile + epoch
    row = offset // lead.weight % lead.tile
    if layout.period:
        row = row + tile % layout.epochs_of_period * lead.tile
        outside = T.Or(outside, row >= layout.period)
        row = row + tile // layout.epochs_of_period * layout.period
    else:
        row = row + tile * lead.tile
    return T.Or(outside, position + row * stride >= end)


def index_dtype(layout: Layout, vectors: int) -> Any:
    """Returns the type for positions and places: 32 bits where they do."""
    row = math.prod(axis.extent for axis in layout.axes[1:])
    rows = 2 * layout.period + vectors // (layout.live * layout.tile) * layout.axes[0].tile
    beyond = 128 * layout.axes[-1].extent  # of a patch, behind the last row
    return T.int32 if max(vectors, rows * row + beyond) < 2**31 else T.int64
