"""Writes the tiles of a stream to an array."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator

import numpy as np

from ..errors import ArgumentError
from ..math import cdiv
from .device import Device
from .errors import StreamError
from .plan import Plan
from .pools import Batch, Part, Pools
from .targets import Target
from .worker import Worker


class Writer(Worker):
    """Writes each batch to an array, and releases its pool.

    Where the host cannot address the pool, the batch is copied, and its pool released before that.

    Attributes:
        target: the array.
        first_row: the index of the array's growing axis at which the stream begins.
        rows: indices of the first axis of the stream that readers see.
        safe: of them, those that were forced onto the disk.
    """

    def __init__(
        self,
        name: str,
        plan: Plan,
        target: Target,
        at: int | str | None,
        policy: str,
        threads: int,
        pools: Pools,
        device: Device,
    ) -> None:
        self._plan, self._policy = plan, policy
        self._growing = plan.order.index(0)
        self.first_row = _checked(plan, target, at)
        super().__init__(name, pools, device)
        self.target, self.rows, self.safe = target, 0, 0
        self._chunks = target.chunks(plan, threads)
        self._complete = 0
        self._busy = threading.Lock()
        self._host: np.ndarray | None = None
        self._tiles = np.empty(0, np.uint8)

    @property
    def rows_together(self) -> int:
        """Rows that become visible together: those of a tile, or of a shard."""
        return self._chunks.shard_rows if self._chunks else self._plan.geometry.tile[0]

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

    def finish(self) -> None:
        self._publish()
        if self._chunks is not None:
            self._chunks.close()

    def publish(self) -> None:
        """Lets readers see all rows that are complete, and forces them onto the disk if asked to.

        Raises:
            StreamError: the array cannot be written.
        """
        try:
            self._publish()
        except Exception as error:
            raise StreamError(
                f"{self.name} failed at a flush: {type(error).__name__}: {error}",
                cause=error,
                notes=["nothing is lost: put the cause right and flush again"],
            ) from None

    def _publish(self) -> None:
        with self._busy:
            if self._chunks is not None:
                self._chunks.publish()
            if self._policy != "never" or self.rows < self._complete:
                self._show(self._complete, self._policy != "never")

    def _write(self, batch: Batch) -> None:
        geometry, part = self._plan.geometry, batch.part
        tiles = self._tiles.view(self._plan.dtype).reshape(-1, *self._plan.tile_shape)
        rows = cdiv(part.end, geometry.strides[0])
        complete = rows if batch.is_last else part.end // geometry.strides[0]
        begun = rows % geometry.tile[0] and self.first_row + rows < self.target.shape[self._growing]
        with self._busy:
            chunks = self._chunks
            if chunks is not None and not begun:
                places = batch.index.copy()
                places[:, self._growing] += self.first_row // geometry.tile[0]
                chunks.write(places, tiles[: len(batch)])
                visible = self.first_row + complete
                if not batch.is_last:
                    visible = visible // chunks.shard_rows * chunks.shard_rows
                else:
                    chunks.publish()
            else:
                # The array has rows behind those of a tile: its library puts both together.
                if chunks is not None:
                    chunks.publish()
                self._write_regions(part, tiles, rows)
                visible = self.first_row + complete
            self._complete = complete
            self._show(max(visible - self.first_row, self.rows), self._policy == "batch")

    def _show(self, rows: int, forced: bool) -> None:
        """Lets readers see the stream's first ``rows`` indices."""
        if forced:
            self.target.force()
        shape = list(self.target.shape)
        shape[self._growing] = max(shape[self._growing], self.first_row + rows)
        self.target.grow(shape)
        self.rows = rows
        if forced:
            self.target.force_shape()
            self.safe = rows

    def _write_regions(self, part: Part, tiles: np.ndarray, rows: int) -> None:
        """Writes tiles as regions of the array."""
        room = list(self.target.shape)
        room[self._growing] = max(room[self._growing], self.first_row + rows)
        tiles = tiles.reshape(-1, self._plan.geometry.live, *self._plan.tile_shape)
        for begin, end in self._boxes(part.epoch, part.end_epoch):
            region, data = self._box(begin, tiles[begin - part.epoch : end - part.epoch], rows)
            self.target.write(region, data, room)

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
        region[self._growing] = slice(part.start + self.first_row, part.stop + self.first_row)
        return tuple(region), data


def _checked(plan: Plan, target: Target, at: int | str | None) -> int:
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
                notes=["at='end' writes behind them, at=0 over them"],
            )
        at = 0
    if at == "end":
        return length // plan.geometry.tile[0] * plan.geometry.tile[0]
    if not isinstance(at, int):
        raise ArgumentError(f"at={at!r} is neither a row nor 'end'")
    if at < 0 or at % plan.geometry.tile[0]:
        raise ArgumentError(f"at={at} is no multiple of the tile's {plan.geometry.tile[0]} rows")
    return at
