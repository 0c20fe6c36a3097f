"""The consumer that feeds a coarser stream."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError
from .device import Device, Source
from .plan import Plan
from .pools import Batch, Pools
from .windows import Windows
from .worker import Worker

if TYPE_CHECKING:
    from .stream import TileStream

METHODS = ("mean", "min", "max", "median")
#: Elements of a window of a median on a GPU: a thread compares each with each.
_LARGEST_MEDIAN = 64


class Level(Worker):
    """Reduces the windows of each batch on the device, releases its pool, and feeds a stream.

    Attributes:
        stream: the coarser one.
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
        self._plan, self._windows, self._method = plan, windows, method
        self._coarsen: Any = None
        self._coarse: Any = None

    @property
    def coarse_bytes(self) -> int:
        """Bytes of the device, for the windows of a batch."""
        return self._windows.most(self._plan.batch) * self._plan.dtype.itemsize

    def take(self, batch: Batch) -> None:
        if self._coarse is None:
            self._coarse = self._device.allocate(self.coarse_bytes)
            self._coarsen = self._device.coarsener(self._plan, self._windows, self._method)
        begin, end = (self._windows.begun(p) for p in (batch.part.begin, batch.part.end))
        coarse = self._coarse[: (end - begin) * self._plan.dtype.itemsize]
        queue = self._device.caller()
        queue.submit(
            functools.partial(self._coarsen, batch, coarse),
            reads=[("pool", batch.part.pool)],
            writes=[("coarse", self.name)],
        )
        batch.release(queue.record())

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

    def publish(self) -> None:
        self.stream.publish(None)

    def retry(self) -> None:
        self.stream.retry()
        super().retry()


def check_method(method: str, dtype: np.dtype, windows: Windows, is_native: bool) -> None:
    """Raises an ArgumentError unless windows of elements of this type can be reduced so."""
    if method not in METHODS:
        raise ArgumentError(f"method={method!r} is none of {', '.join(METHODS)}")
    if dtype.kind not in "iuf":
        raise ArgumentError(f"a pyramid of {dtype}: only integers and real numbers have one")
    if method == "mean" and dtype.kind in "iu" and dtype.itemsize == 8:
        raise ArgumentError(
            f"a mean of {dtype}, whose sums have more than 64 bits",
            notes=["'min' and 'max' do; or open the stream with a type of 32 bits"],
        )
    if method == "median" and windows.size > _LARGEST_MEDIAN and not is_native:
        raise ArgumentError(
            f"a median of windows of {windows.size} elements, more than {_LARGEST_MEDIAN}",
            notes=["make a pyramid of the pyramid, or open the stream with device='cpu'"],
        )
