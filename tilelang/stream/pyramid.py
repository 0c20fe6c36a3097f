"""The consumer that feeds a coarser stream."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError
from .coarsen import METHODS, Windows, coarsen
from .device import Device, Source
from .kernels import index_dtype
from .plan import Plan
from .pools import Batch, Pools
from .worker import Worker

if TYPE_CHECKING:
    from .stream import TileStream


class Level(Worker):
    """Reduces the windows of each batch on the device, releases its pool, and feeds a stream.

    Attributes:
        stream: the coarser one.
        coarse_bytes: of the device, for the windows of a batch.
    """

    def __init__(
        self,
        name: str,
        plan: Plan,
        windows: Windows,
        method: str,
        stream: TileStream,
        pools: Pools,
        device: Device,
    ) -> None:
        super().__init__(name, pools, device)
        self.stream = stream
        self._consumer.feeds = stream.pools
        self._plan, self._windows = plan, windows
        self._method = method
        self.coarse_bytes = plan.batch * windows.of_epoch * plan.dtype.itemsize
        self._coarse: Any = None

    def take(self, batch: Batch) -> None:
        if self._coarse is None:
            self._coarse = self._device.allocate(self.coarse_bytes)
        queue = self._device.caller()
        queue.submit(
            functools.partial(self._reduce, batch),
            reads=[("pool", batch.part.pool)],
            writes=[("coarse", self.name)],
        )
        batch.release(queue.record())

    def _reduce(self, batch: Batch) -> None:
        plan, part = self._plan, batch.part
        base, slot = plan.base(part)
        begin, end = self._windows.begun(part.begin), self._windows.begun(part.end)
        elements = plan.pools * plan.pool_slots * plan.geometry.tile_elements
        kernel = coarsen(
            self._windows,
            plan.order,
            self._method,
            plan.dtype.name,
            elements,
            index_dtype(plan.elements, elements),
            self._device.target,
        )
        coarse = self._coarse[: (end - begin) * plan.dtype.itemsize]
        kernel.run(
            self._device.tiles(batch.pools, plan.dtype, (elements,)),
            self._device.tiles(coarse, plan.dtype, (end - begin,)),
            begin - self._windows.begun(base),
            slot * plan.geometry.tile_elements,
            part.end - base,
        )

    def work(self, batch: Batch) -> None:
        begin, end = (self._windows.begun(p) for p in (batch.part.begin, batch.part.end))
        # What is done again after a failure goes on where the stream is.
        done, size = self.stream.position - begin, self._plan.dtype.itemsize
        left = self._coarse[done * size : (end - begin) * size]
        address = self._device.address(left)
        self.stream.extend(Source("device", end - begin - done, left, address), None)
        if batch.is_last:
            self.stream.flush()

    def finish(self) -> None:
        self.stream.close()

    def retry(self) -> None:
        self.stream.retry()
        super().retry()


def check_method(method: str, dtype: np.dtype) -> None:
    """Raises an ArgumentError unless elements of this type can be reduced so."""
    if method not in METHODS:
        raise ArgumentError(f"method={method!r} is none of {', '.join(METHODS)}")
    if dtype.kind not in "iuf":
        raise ArgumentError(f"a pyramid of {dtype}: only integers and real numbers have one")
    if method == "mean" and dtype.kind in "iu" and dtype.itemsize == 8:
        raise ArgumentError(
            f"a mean of {dtype}, whose sums have more than 64 bits",
            notes=["'min' and 'max' do; or open the stream with a type of 32 bits"],
        )
