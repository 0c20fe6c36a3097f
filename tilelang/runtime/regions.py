"""Host memory that the tensors of a launch take: those that overlap lie in one region.

The emulator gives every array an address space of its own, and follows accesses by these addresses.
Tensors that share bytes must be views of one array, or an access through one of them would not be
seen to conflict with an access through another.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

# What a region of several tensors begins at a multiple of: none of them is less aligned in the
# emulator than on the host.
_ALIGNMENT = 256


class Span(NamedTuple):
    """Elements in host memory.

    Attributes:
        address: of the first element.
        shape: in elements.
        strides: in bytes, none negative.
        itemsize: of an element in bytes.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def end(self) -> int:
        """The address behind the last byte; ``address`` where there is no element."""
        if not all(self.shape):
            return self.address
        steps = zip(self.shape, self.strides, strict=True)
        return self.address + sum((extent - 1) * stride for extent, stride in steps) + self.itemsize


class Regions:
    """The memory of the tensors of one launch.

    Args:
        spans: all that the launch may reach through its tensors.
    """

    def __init__(self, spans: Iterable[Span]) -> None:
        self._memory: list[np.ndarray] = []
        self._starts: list[int] = []
        for start, end, count in _unions((span.address, span.end) for span in spans):
            begin = start if count == 1 else start - start % _ALIGNMENT
            self._starts.append(begin)
            self._memory.append(_bytes(begin, end))

    def array(self, span: Span) -> np.ndarray:
        """Returns a span, one of those given before, as a view of its region.

        Elements are unsigned integers: NumPy lacks the narrow types of floating point.
        """
        dtype = f"u{span.itemsize}"
        if span.end == span.address:
            return np.ndarray(span.shape, dtype, _bytes(span.address, span.address))
        at = bisect.bisect_right(self._starts, span.address) - 1
        offset = span.address - self._starts[at]
        return np.ndarray(span.shape, dtype, self._memory[at], offset, span.strides)


def _unions(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Joins ranges that overlap; returns begin, end and number of different ranges of each."""
    unions: list[tuple[int, int, int]] = []
    for start, end in sorted({each for each in ranges if each[0] < each[1]}):
        if unions and start < unions[-1][1]:
            low, high, count = unions[-1]
            unions[-1] = low, max(high, end), count + 1
        else:
            unions.append((start, end, 1))
    return unions


def _bytes(start: int, end: int) -> np.ndarray:
    buffer = (ctypes.c_uint8 * (end - start)).from_address(start)
    return np.frombuffer(memoryview(buffer), np.uint8)
