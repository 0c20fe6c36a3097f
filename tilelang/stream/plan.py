"""The plan of a stream, known before anything is allocated."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError
from ..math import cdiv
from .geometry import Geometry
from .layout import VECTOR_BYTES, Layout, stored_order
from .pools import Part

#: A batch has at least so many tiles, which is what compressors of a GPU want, unless it is larger
#: than its device likes.
_BATCH_TILES = 1024
_STAGE_BYTES = 32 << 20
_TYPES = "?bBhHiIlLqQefdFD"
_LEAST_STAGE_BYTES = 64 << 10


class Memory(NamedTuple):
    """Bytes that a stream allocates.

    Attributes:
        pools: tiles, on the device.
        staging: arrays of the host on their way, on the device.
        host: the same, in pinned memory of the host.
    """

    pools: int
    staging: int
    host: int

    @property
    def device(self) -> int:
        """Bytes of the device."""
        return self.pools + self.staging


@dataclass(eq=False)
class Plan:
    """The numbers of a stream.

    Attributes:
        geometry: how the array is cut.
        order: axes of the stream in the order in which tiles hold them.
        dtype: of an element.
        pad: one element.
        pools: how many batches there are at once.
        batch: epochs of a batch; :meth:`align` may make it larger before anything is allocated.
        unit: epochs after which a batch may end.
        staged: whether arrays of the host are copied to the device on their way.
    """

    geometry: Geometry
    order: tuple[int, ...]
    dtype: np.dtype
    pad: np.ndarray
    pools: int
    batch: int
    staged: bool = True
    unit: int = 1

    @classmethod
    def of(
        cls,
        shape: Sequence[int | None],
        tile: Sequence[int],
        dtype: Any,
        order: str | Sequence[int] | None,
        batch: int | str,
        pools: int,
        pad: Any,
        staged: bool = True,
        batch_bytes: int = 256 << 20,
    ) -> Plan:
        """Returns the plan for the arguments of :class:`~tilelang.stream.TileStream`.

        ``staged`` and ``batch_bytes`` are those of its device.

        Raises:
            ArgumentError: one of them does not fit.
        """
        geometry = Geometry(tuple(shape), tuple(tile))
        found = _dtype(dtype)
        return cls(
            geometry,
            stored_order(order, geometry.rank),
            found,
            _padding(pad, found),
            _positive("pools", pools),
            _epochs(batch, geometry, found, batch_bytes),
            staged,
        )

    def align(self, epochs: int) -> None:
        """Lets batches end after multiples of ``epochs`` only, which makes them longer perhaps."""
        self.unit = math.lcm(self.unit, epochs)
        self.batch = cdiv(self.batch, self.unit) * self.unit
        for name in ("pool_slots", "pool_bytes", "stage_bytes"):
            self.__dict__.pop(name, None)

    @functools.cached_property
    def tile_shape(self) -> tuple[int, ...]:
        """Extents of a tile in the order in which it is stored."""
        return tuple(self.geometry.tile[axis] for axis in self.order)

    @functools.cached_property
    def tile_bytes(self) -> int:
        """Bytes of a tile."""
        return self.geometry.tile_elements * self.dtype.itemsize

    @functools.cached_property
    def pool_slots(self) -> int:
        """Tiles of a pool."""
        return self.batch * self.geometry.live

    @functools.cached_property
    def pool_bytes(self) -> int:
        """Bytes of a pool."""
        return self.pool_slots * self.tile_bytes

    @functools.cached_property
    def stage_bytes(self) -> int:
        """Bytes of a staging buffer: a batch, within limits."""
        wanted = min(max(self.pool_bytes, _LEAST_STAGE_BYTES), _STAGE_BYTES)
        return cdiv(wanted, VECTOR_BYTES) * VECTOR_BYTES + VECTOR_BYTES

    @property
    def memory(self) -> Memory:
        """Returns the memory that the first append allocates."""
        stages = 2 * self.stage_bytes if self.staged else 0
        return Memory(self.pools * self.pool_bytes, stages, stages)

    @functools.cached_property
    def elements(self) -> Layout:
        """Returns the key of kernels for single elements."""
        return self.layout(self.dtype.itemsize)

    @functools.cached_property
    def vectors(self) -> Layout:
        """Returns the key of kernels for the longest vectors."""
        return self.layout(VECTOR_BYTES)

    def layout(self, most: int) -> Layout:
        """Returns what kernels are made for, with vectors of at most ``most`` bytes."""
        return Layout.of(self.geometry, self.order, self.dtype.itemsize, most)

    def part(self, number: int, pool: int, epoch: int) -> Part:
        """Returns the part of the stream from ``epoch`` on that fills a pool."""
        end = epoch + self.batch
        if self.geometry.epochs is not None:
            end = min(end, self.geometry.epochs)
        span = self.geometry.start(epoch), self.geometry.start(end)
        return Part(number, pool, (epoch, end), span)

    def base(self, part: Part) -> tuple[int, int]:
        """Returns the position that kernels count from, and the slot of its epoch's first tile."""
        layout = self.elements
        skipped = part.epoch % layout.epochs_of_period if layout.period else 0
        position = self.geometry.start(part.epoch - skipped)
        return position, part.pool * self.pool_slots - skipped * self.geometry.live

    def is_short(self, part: Part, position: int) -> bool:
        """Whether a part that ends at ``position`` leaves rows of tiles without elements."""
        if position < part.end:
            return True
        of_last = position == self.geometry.total
        return self.geometry.uneven and (self.geometry.lead > 0 or of_last)


def _epochs(batch: int | str, geometry: Geometry, dtype: np.dtype, most_bytes: int) -> int:
    """Returns epochs of a batch."""
    most = geometry.epochs or 2**62
    if batch != "auto":
        return min(_positive("batch", batch), most)
    size = geometry.live * geometry.tile_elements * dtype.itemsize
    wanted = min(cdiv(_BATCH_TILES, geometry.live), max(1, most_bytes // size))
    return min(wanted, most)


def _positive(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        auto = " or 'auto'" if name == "batch" else ""
        raise ArgumentError(f"{name}={value!r} is no positive integer{auto}")
    return number


def _dtype(dtype: Any) -> np.dtype:
    name = str(dtype).removeprefix("torch.") if not isinstance(dtype, type) else dtype
    try:
        found = np.dtype(name)
    except TypeError:
        found = None
    if found is None or found.char not in _TYPES or not found.isnative:
        raise ArgumentError(
            f"dtype={dtype!r} is no type of numbers of NumPy",
            notes=[
                "numbers of 1 to 16 bytes in the order of this machine; elements of other types "
                "go through as integers"
            ],
        )
    return found


def _padding(pad: Any, dtype: np.dtype) -> np.ndarray:
    try:
        found = np.asarray(pad).reshape(()).astype(dtype)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"pad={pad!r} is no element of {dtype}") from None
    same = np.array_equal(found, np.asarray(pad), equal_nan=dtype.kind in "fc")
    if not same and dtype.kind in "biu":
        raise ArgumentError(f"pad={pad!r} is no element of {dtype}")
    return found
