"""Writes the tiles of a stream to an array."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from ..errors import ArgumentError
from ..math import cdiv
from .device import Device
from .plan import Plan
from .pools import Batch, Pools
from .targets import Target
from .worker import Worker


class Writer(Worker):
    """Writes each batch to an array, and releases its pool.

    Where the host cannot address the pool, the batch is copied, and its pool released before that.

    Attributes:
        target: the array.
        rows: indices of the first axis of the stream that are written.
    """

    def __init__(
        self, name: str, plan: Plan, target: Target, at: int | None, pools: Pools, device: Device
    ) -> None:
        self._plan = plan
        self._growing = plan.order.index(0)
        self._at = _checked(plan, target, at)
        super().__init__(name, pools, device)
        self.target, self.rows = target, 0
        self._host: np.ndarray | None = None
        self._tiles = np.empty(0, np.uint8)

    def take(self, batch: Batch) -> None:
        tiles = self._device.of_host(batch.memory)
        if tiles is not None:
            self._tiles = tiles
            return
        if self._host is None:
            self._host = self._device.allocate_host(self._plan.pool_bytes)
        self._tiles = host = self._host[: len(batch) * self._plan.tile_bytes]
        queue = self._device.caller()
        queue.submit(
            functools.partial(self._device.copy, batch.memory, host),
            reads=[("pool", batch.part.pool)],
            writes=[("host tiles", self.name)],
        )
        copied = queue.record()
        batch.release(copied)
        copied.synchronize("fetched")

    def work(self, batch: Batch) -> None:
        self._device.on_host(functools.partial(self._write, batch), reads=("host tiles", self.name))
        batch.release()

    def _write(self, batch: Batch) -> None:
        geometry, part = self._plan.geometry, batch.part
        tiles = self._tiles.view(self._plan.dtype)
        tiles = tiles.reshape(-1, geometry.live, *self._plan.tile_shape)
        rows = cdiv(part.end, geometry.strides[0])
        room = list(self.target.shape)
        room[self._growing] = max(room[self._growing], self._at + rows)
        for begin, end in self._boxes(part.epoch, part.end_epoch):
            region, data = self._box(begin, tiles[begin - part.epoch : end - part.epoch], rows)
            self.target.write(region, data, room)
        complete = rows if batch.is_last else part.end // geometry.strides[0]
        shape = list(self.target.shape)
        shape[self._growing] = max(shape[self._growing], self._at + complete)
        self.target.grow(shape)
        self.rows = complete

    def _boxes(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields epochs that lie behind each other along one axis, as they do not at its end."""
        geometry = self._plan.geometry
        count = geometry.counts[geometry.lead]
        while begin < end:
            stop = end if count is None else min(end, (begin // count + 1) * count)
            yield begin, stop
            begin = stop

    def _box(
        self, epoch: int, tiles: np.ndarray, rows: int
    ) -> tuple[tuple[slice, ...], np.ndarray]:
        """Returns where epochs from ``epoch`` on lie, and their elements as one array.

        Args:
            epoch: the first one.
            tiles: of all of them, ``(epochs, live, *tile)``.
            rows: indices of the stream's first axis that have come.
        """
        geometry, lead = self._plan.geometry, self._plan.geometry.lead
        counts = [count or 0 for count in geometry.counts[lead + 1 :]]
        split = tiles.reshape(len(tiles), *counts, *self._plan.tile_shape)
        first = geometry.tiles(epoch, epoch + 1)[0]
        shape = (rows, *geometry.inner)
        axes, whole, region = [], [], []
        for stored, axis in enumerate(self._plan.order):
            # Of the axes before lead, an epoch has one tile.
            axes += [axis - lead] if axis >= lead else []
            axes += [1 + len(counts) + stored]
            whole.append((split.shape[axis - lead] if axis >= lead else 1) * geometry.tile[axis])
            begin = int(first[axis]) * geometry.tile[axis]
            region.append(slice(begin, min(begin + whole[-1], shape[axis])))
        data = split.transpose(axes).reshape(whole)
        data = data[tuple(slice(0, part.stop - part.start) for part in region)]
        part = region[self._growing]
        region[self._growing] = slice(part.start + self._at, part.stop + self._at)
        return tuple(region), data


def _checked(plan: Plan, target: Target, at: int | None) -> int:
    """Returns the index along the growing axis at which the stream begins.

    Raises:
        ArgumentError: the array has another shape or type, or holds something already.
    """
    if target.dtype != plan.dtype:
        raise ArgumentError(f"the array has elements of {target.dtype}, the stream {plan.dtype}")
    growing = plan.order.index(0)
    expected = [plan.geometry.shape[axis] for axis in plan.order]
    found = list(target.shape)
    others = [(e, f) for d, (e, f) in enumerate(zip(expected, found, strict=False)) if d != growing]
    if len(found) != len(expected) or any(e != f for e, f in others):
        raise ArgumentError(
            f"the array has the shape {tuple(found)}, the stream {tuple(expected)} as stored"
        )
    length, rows = found[growing], expected[growing]
    if at is None:
        if rows is None and length and target.grows:
            raise ArgumentError(
                f"the array has {length} rows along axis {growing}, which grows with the stream",
                notes=[f"at={length} writes behind them, at=0 over them"],
            )
        at = 0
    if at < 0 or at % plan.geometry.tile[0]:
        raise ArgumentError(f"at={at} is no multiple of the tile's {plan.geometry.tile[0]} rows")
    return at
