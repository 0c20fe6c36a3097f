"""Cuts appended arrays into tiles: staging, and the order of copies and kernels."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING

from .device import Device, Event, Queue, Source
from .layout import VECTOR_BYTES
from .reading import Reading, Readings

if TYPE_CHECKING:
    from .plan import Plan
    from .pools import Part

#: Elements of one launch at most: their number has 32 bits.
_LARGEST_LAUNCH = 1 << 30


class _Stage:
    """A buffer of the host, one of the device beside it, and the last uses of both."""

    def __init__(self, device: Device, size: int) -> None:
        memory = device.allocate_host(size)
        self.host = Source("pinned", size, memory, memory.ctypes.data)
        self.device = device.allocate(size)
        self.arrived: Event | None = None
        self.drained: Event | None = None


class Ingest:
    """Puts elements into the pools.

    Arrays of the host are gathered in a buffer of the device, which goes into tiles when it is full
    or ends a batch: pinned ones are copied to it from where they lie, and others by way of a buffer
    of the host, so that a small append costs a copy of its bytes. Arrays of the device are read by
    the kernel itself, in the caller's queue; so are all arrays of a device without staging buffers.
    """

    def __init__(self, plan: Plan, device: Device) -> None:
        self._plan, self._device = plan, device
        self._copies, self._scatters = device.queue("copy"), device.queue("scatter")
        # Those who own the memory of both do not know of work in these queues.
        dropped = weakref.finalize(self, device.complete, (self._copies, self._scatters))
        dropped.atexit = False
        self.pools = device.allocate(plan.pools * plan.pool_bytes)
        stages = 2 if device.staged else 0
        self._stages = [_Stage(device, plan.stage_bytes) for _ in range(stages)]
        self._turn = 0
        # Positions that the buffers of this turn hold: those from _pending on only in the host's.
        self._begin = self._pending = self._end = 0
        self._readings = Readings(self._copies)
        self._joining: list[Queue] = []
        self.filler = device.filler(plan, self.pools)
        buffers = [("pool", pool) for pool in range(plan.pools)]
        self._scatters.submit(self.filler.fill, writes=buffers)

    def open(self, part: Part) -> None:
        """Lets a pool be filled once nobody reads it."""
        for event in part.idle:
            self._scatters.wait(event, "released")
        self._joining = []

    def put(self, part: Part, source: Source, first: int, count: int, position: int) -> None:
        """Takes ``count`` elements of ``source`` from ``first`` on, for a position."""
        if source.kind == "device" or (source.kind == "pinned" and self._pending < self._end):
            self.send(part)
        staged = None if source.kind == "device" else self._gather
        if source.kind == "pinned":
            staged = self._upload
        while count:
            room = self._room(position) if staged else _LARGEST_LAUNCH
            taken = min(count, room)
            if staged:
                staged(source, first, taken)
            else:
                self._read(part, source, first, taken, position)
            first, position, count = first + taken, position + taken, count - taken
            if staged and taken == room:
                self.send(part)

    def send(self, part: Part) -> None:
        """Lets what was gathered go into tiles."""
        count = self._end - self._begin
        if not count:
            return
        self._upload_pending()
        turn, stage, begin = self._turn, self._stages[self._turn], self._begin
        offset = self._offset(begin)
        span = stage.device[offset : offset + count * self._plan.dtype.itemsize]
        stage.arrived = self._copies.record()
        self._scatters.wait(stage.arrived, "arrived")
        self._scatters.submit(
            functools.partial(self.filler.scatter, part, span, offset, count, begin),
            reads=[("stage", turn)],
            writes=[("pool", part.pool)],
        )
        stage.drained = self._scatters.record()
        self._turn = 1 - turn
        self._begin = self._pending = self._end

    def finish(self, part: Part, position: int) -> Event:
        """Ends a part at a position; returns the point at which its tiles are complete."""
        self.send(part)
        for queue in self._joining:
            self._scatters.wait(queue.record(), "joined")
        if self._plan.is_short(part, position):
            self._scatters.submit(
                functools.partial(self.filler.pad, part, position), writes=[("pool", part.pool)]
            )
        return self._scatters.record()

    def last_copy(self, source: Source) -> Reading:
        """Returns the point after which ``source`` is not read; it is kept until then."""
        return self._readings.add(source, source.elements * self._plan.dtype.itemsize)

    def _offset(self, position: int) -> int:
        """The byte of a stage for a position: vectors of the stream are vectors in memory."""
        return position * self._plan.dtype.itemsize % VECTOR_BYTES

    def _room(self, position: int) -> int:
        """Returns how many elements the stage of this turn takes from ``position`` on."""
        if self._begin == self._end:
            self._begin = self._pending = self._end = position
            drained = self._stages[self._turn].drained
            if drained is not None:
                self._copies.wait(drained, "drained")
        room = (self._plan.stage_bytes - VECTOR_BYTES) // self._plan.dtype.itemsize
        return room - (self._end - self._begin)

    def _gather(self, source: Source, first: int, count: int) -> None:
        """Copies elements of the host behind those in the stage of this turn."""
        size, stage = self._plan.dtype.itemsize, self._stages[self._turn]
        if self._pending == self._end and stage.arrived is not None:
            stage.arrived.synchronize("refill")
            stage.arrived = None
        at = self._offset(self._begin) + (self._end - self._begin) * size
        self._device.gather(
            stage.host.bytes[at : at + count * size],
            source.bytes[first * size : (first + count) * size],
            writes=("host stage", self._turn),
        )
        self._end += count

    def _upload_pending(self) -> None:
        """Lets what only the host's buffer holds go to the device."""
        count, turn = self._end - self._pending, self._turn
        if count:
            size = self._plan.dtype.itemsize
            at = self._offset(self._begin) + (self._pending - self._begin) * size
            self._device.upload(
                self._copies,
                (self._stages[turn].host, at),
                (self._stages[turn].device, at),
                count * size,
                reads=[("host stage", turn)],
                writes=[("stage", turn)],
            )
            self._pending = self._end

    def _upload(self, source: Source, first: int, count: int) -> None:
        """Lets elements of pinned memory go to the device, behind those in the stage."""
        size, turn = self._plan.dtype.itemsize, self._turn
        at = self._offset(self._begin) + (self._end - self._begin) * size
        self._device.upload(
            self._copies,
            (source, first * size),
            (self._stages[turn].device, at),
            count * size,
            writes=[("stage", turn)],
        )
        self._end = self._pending = self._end + count

    def _read(self, part: Part, source: Source, first: int, count: int, position: int) -> None:
        """Scatters an array of the device in the queue of those who made it."""
        size = self._plan.dtype.itemsize
        span, address = source.bytes, source.address + first * size
        if first or count < source.elements:
            span = span[first * size : (first + count) * size]
        queue = self._device.caller()
        if queue not in self._joining:
            queue.wait(self._scatters.record(), "reopened")
            self._joining.append(queue)
        queue.submit(
            functools.partial(self.filler.scatter, part, span, address, count, position),
            writes=[("pool", part.pool)],
        )
