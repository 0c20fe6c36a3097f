"""The kernels of a stream, made for its layout."""

# Types of parameters of kernels are values.
# mypy: disable-error-code="valid-type"

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import tilelang
import tilelang.language as T

from .layout import Layout

#: One vector a thread: on an H100, 3 % above four, whose blocks take turns less evenly.
THREADS = 512


class Words(NamedTuple):
    """The integers that carry a vector of elements: their type, and how many there are."""

    dtype: str
    lanes: int

    @classmethod
    def of(cls, size: int) -> Words:
        """Returns the widest words of a vector of ``size`` bytes."""
        width = min(size & -size, 8)
        return cls(f"uint{8 * width}", size // width)


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
    dtype, words = Words.of(layout.lanes * itemsize)
    index = index_dtype(layout, vectors)
    block = THREADS
    n = T.dynamic("n", "int32")

    @T.prim_func
    def scatter_elements(
        elements: T.Tensor((n, words), dtype),
        pools: T.Tensor((vectors, words), dtype),
        first: index,
        slot: index,
    ):
        with T.Kernel(T.ceildiv(n, block), threads=block) as b:
            for i, w in T.Parallel(block, words):
                if b * block + i < n:
                    pools[place(layout, first + b * block + i, slot), w] = elements[
                        b * block + i, w
                    ]

    return tilelang.compile(scatter_elements, target=target)


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
    return T.int32 if max(vectors, rows * row) < 2**31 else T.int64
