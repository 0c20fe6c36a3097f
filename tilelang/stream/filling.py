"""Fills tiles by kernels: on a GPU and on the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import kernels
from .device import Device
from .layout import VECTOR_BYTES
from .plan import Plan
from .pools import Part


class KernelFiller:
    """Launches the kernels of a stream; see :class:`~tilelang.stream.device.Filler`."""

    def __init__(self, plan: Plan, device: Device, pools: Any) -> None:
        self._plan, self._device, self._pools = plan, device, pools
        self._padding: Any = None
        self._kernels: dict[int, tuple[Any, Any, kernels.Words]] = {}

    def fill(self) -> None:
        """Puts the padding everywhere."""
        plan = self._plan
        words = kernels.Words.of(plan.dtype.itemsize)
        padding = self._device.allocate(VECTOR_BYTES)[: plan.dtype.itemsize]
        signed = words.dtype.removeprefix("u")
        self._device.copy(plan.pad.reshape(1).view(np.uint8), padding)
        everything = self._device.words(self._pools, signed, words.lanes)
        everything[:] = self._device.words(padding, signed, words.lanes)
        self._padding = self._device.words(padding, words.dtype, words.lanes)[0]

    def scatter(self, part: Part, span: Any, address: int, count: int, position: int) -> None:
        """Launches kernels: of whole vectors for what is aligned, of elements for the rest."""
        size = self._plan.dtype.itemsize
        base, slot = self._plan.base(part)
        lanes = self._plan.vectors.lanes
        head = (base - position) % lanes
        while (address + head * size) % (lanes * size):
            lanes //= 2
            head = (base - position) % lanes
        head = min(head, count)
        body = (count - head) // lanes * lanes
        first = 0
        for length, width in ((head, 1), (body, lanes), (count - head - body, 1)):
            if length:
                kernel, pools, words = self._kernel(width)
                # A slice of a tensor takes some microseconds.
                elements = span
                if length < count:
                    elements = span[first * size : (first + length) * size]
                kernel.run(
                    self._device.words(elements, words.dtype, words.lanes),
                    pools,
                    (position + first - base) // width,
                    slot,
                )
                first += length

    def pad(self, part: Part, position: int) -> None:
        """Launches the kernel that fills cells which elements before ``position`` do not."""
        plan = self._plan
        layout = plan.elements
        words = kernels.Words.of(plan.dtype.itemsize)
        pools = self._device.words(self._pools, words.dtype, words.lanes)
        kernel = kernels.pad(layout, plan.dtype.itemsize, len(pools), self._device.target)
        base, _ = plan.base(part)
        before = part.epoch - plan.geometry.epoch_of(base)
        slots = (part.end_epoch - part.epoch) * layout.live
        kernel.run(
            pools,
            self._padding,
            part.pool * plan.pool_slots,
            before,
            position - base,
            slots * layout.tile,
        )

    def _kernel(self, lanes: int) -> tuple[Any, Any, kernels.Words]:
        if lanes not in self._kernels:
            size = self._plan.dtype.itemsize
            layout = self._plan.layout(lanes * size)
            words = kernels.Words.of(lanes * size)
            pools = self._device.words(self._pools, words.dtype, words.lanes)
            kernel = kernels.scatter(layout, size, len(pools), self._device.target)
            self._kernels[lanes] = kernel, pools, words
        return self._kernels[lanes]
