"""Streams on the CPU: compiled loops of libtilelang fill tiles and reduce windows.

The plan is that of a GPU. There are no queues: work is done when it is submitted, by the thread
that submits it and by those of the device, and events have happened when they are recorded.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from .. import _ffi
from .device import Source, host_bytes
from .layout import stored_weights
from .plan import Plan
from .pools import Batch, Part
from .threads import thread_count
from .windows import Windows

#: More threads than this do not fill tiles faster: memory does not deliver more.
_MOST_FILLING = 8
_HUGE_PAGE = 2 << 20
#: A batch stays in the cache until it is compressed, and its memory is touched again soon; it has
#: some tiles for each core that compresses.
_BATCH_BYTES, _BATCH_BYTES_OF_CORE = 8 << 20, 2 << 20


class Happened:
    """A point of a queue without delay."""

    done = True

    def synchronize(self, edge: str = "") -> None:
        """Returns at once."""


_HAPPENED = Happened()


class CpuQueue:
    """Does work when it is submitted."""

    def submit(
        self,
        work: Callable[[], None],
        reads: Sequence[Hashable] = (),
        writes: Sequence[Hashable] = (),
    ) -> None:
        work()

    def record(self) -> Happened:
        return _HAPPENED

    def wait(self, event: Any, edge: str) -> None:
        pass


class CpuDevice:
    """The host."""

    target = "cpu"
    staged = False

    def __init__(self, threads: int | None) -> None:
        self._queue = CpuQueue()
        count = thread_count(threads)
        self.batch_bytes = max(_BATCH_BYTES, count * _BATCH_BYTES_OF_CORE)
        self.threads = _ffi.get("stream.Threads")(min(count, _MOST_FILLING))

    def queue(self, name: str) -> CpuQueue:
        return self._queue

    def caller(self) -> CpuQueue:
        return self._queue

    def own_queue(self, name: str) -> AbstractContextManager[Any]:
        return nullcontext()

    def on_host(
        self, work: Callable[[], None], reads: Hashable = None, writes: Hashable = None
    ) -> None:
        work()

    def allocate(self, size: int) -> np.ndarray:
        if size < _HUGE_PAGE:
            return np.empty(size, np.uint8)
        try:
            memory = mmap.mmap(-1, size)
        except (OSError, OverflowError) as error:
            raise MemoryError(str(error)) from None
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        return np.frombuffer(memory, np.uint8)

    def allocate_host(self, size: int) -> np.ndarray:
        return self.allocate(size)

    def filler(self, plan: Plan, pools: np.ndarray) -> CpuFiller:
        return CpuFiller(plan, self, pools)

    def coarsener(self, plan: Plan, windows: Windows, method: str) -> CpuCoarsener:
        return CpuCoarsener(plan, windows, method, self)

    def of_host(self, memory: np.ndarray) -> np.ndarray:
        return memory

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        np.copyto(target, source)

    def gather(self, target: np.ndarray, source: np.ndarray, writes: Hashable) -> None:
        np.copyto(target, source)

    def upload(
        self,
        queue: CpuQueue,
        source: tuple[Source, int],
        target: tuple[np.ndarray, int],
        size: int,
        reads: Sequence[Hashable] = (),
        writes: Sequence[Hashable] = (),
    ) -> None:
        begin, at = source[1], target[1]
        np.copyto(target[0][at : at + size], source[0].bytes[begin : begin + size])

    def words(self, memory: np.ndarray, dtype: str, count: int) -> np.ndarray:
        return memory.view(dtype).reshape(-1, count)

    def tiles(self, memory: np.ndarray, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
        return memory.view(dtype).reshape(tuple(shape))

    def keep(self, memory: np.ndarray, queue: CpuQueue) -> None:
        pass

    def complete(self, queues: Sequence[CpuQueue]) -> None:
        pass

    def address(self, memory: np.ndarray) -> int:
        return memory.ctypes.data

    def source(self, data: Any, dtype: np.dtype) -> Source:
        found = host_bytes(data, dtype)
        return Source("device", found.size // dtype.itemsize, found, found.ctypes.data)


class CpuFiller:
    """Fills tiles by loops that are made for the layout."""

    def __init__(self, plan: Plan, device: CpuDevice, pools: np.ndarray) -> None:
        self._plan, self._pools = plan, pools
        self._threads = device.threads
        layout = plan.elements
        axes = [int(number) for axis in layout.axes for number in axis]
        numbers = [layout.live, layout.tile, layout.period, plan.dtype.itemsize]
        self._layout = _ffi.get("stream.Layout")(axes, numbers)
        self._scatter, self._pad = _ffi.get("stream.Scatter"), _ffi.get("stream.Pad")
        self._padding = plan.pad.reshape(1).copy()
        self._address = pools.ctypes.data

    def fill(self) -> None:
        """Puts the padding everywhere, if tiles reach beyond the array but at the end of epochs."""
        geometry = self._plan.geometry
        for axis, (extent, tile) in enumerate(zip(geometry.shape, geometry.tile, strict=True)):
            if axis != geometry.lead and extent is not None and extent % tile:
                self._pools.view(self._plan.dtype)[:] = self._plan.pad
                return

    def scatter(self, part: Part, span: Any, address: int, count: int, position: int) -> None:
        """Copies elements at an address of the host."""
        base, slot = self._plan.base(part)
        tiles = self._address + slot * self._plan.tile_bytes
        self._scatter(self._layout, self._threads, address, position - base, count, tiles)

    def pad(self, part: Part, position: int) -> None:
        """Fills cells that elements before ``position`` do not."""
        plan = self._plan
        base, slot = plan.base(part)
        begin = part.pool * plan.pool_slots - slot
        end = begin + (part.end_epoch - part.epoch) * plan.geometry.live
        tiles = self._address + slot * plan.tile_bytes
        padding = self._padding.ctypes.data
        self._pad(self._layout, self._threads, padding, position - base, begin, end, tiles)


class CpuCoarsener:
    """Reduces the windows of a batch by loops that are made for the method and the type."""

    def __init__(self, plan: Plan, windows: Windows, method: str, device: CpuDevice) -> None:
        self._plan, self._windows, self._threads = plan, windows, device.threads
        self._coarsen = _ffi.get("stream.Coarsen")
        self._made = _ffi.get("stream.Windows")(self._axes(), method, plan.dtype.name)

    def _axes(self) -> list[int]:
        """Returns the fields of ``WindowAxis`` (src/stream/coarsen.h) for each axis."""
        plan, geometry = self._plan, self._plan.geometry
        weights = dict(zip(plan.order, stored_weights(geometry, plan.order), strict=True))
        extents = [0, *geometry.inner]
        axes: list[int] = []
        if geometry.rank == 1:
            # Rows are all elements of a batch, of which there are several along another axis.
            axes = [0, 1, 1, 0, 0, 0]
            extents = [(plan.batch + 1) * geometry.tile[0] + self._windows.rows]
        for axis, extent in enumerate(extents):
            tiles = math.prod(count or 1 for count in geometry.counts[axis + 1 :])
            axes += [
                extent,
                self._windows.factors[axis],
                geometry.tile[axis],
                weights[axis],
                tiles * geometry.tile_elements,
                geometry.strides[axis],
            ]
        return axes

    def __call__(self, batch: Batch, coarse: np.ndarray) -> None:
        """Writes the windows of a batch."""
        span = self._windows.span(self._plan, batch.part)
        origin = batch.pools.ctypes.data + span.origin * self._plan.dtype.itemsize
        numbers = [span.first, span.count]
        self._coarsen(self._made, self._threads, origin, numbers, span.end, coarse.ctypes.data)
