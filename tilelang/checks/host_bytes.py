"""The bytes of a program's memory, by their addresses in its process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

#: Changes of memory are told in pieces of so many bytes.
_PIECE = 256


def at(address: int, size: int) -> np.ndarray:
    """Returns memory of this process, in place."""
    if size == 0:
        return np.zeros(0, np.uint8)
    buffer = (ctypes.c_uint8 * size).from_address(address)
    return np.frombuffer(memoryview(buffer).cast("B"), np.uint8)


class HostBytes:
    """Copies of parts of a memory. Parts that overlap are joined, so all see the same bytes."""

    def __init__(
        self, fresh: Callable[[int, int], np.ndarray] | None = None,
        copied: Callable[[np.ndarray, np.ndarray], None] | None = None,
    ) -> None:  # fmt: skip
        """Makes it empty.

        Args:
            fresh: returns the content of a part that is new; by default it is 0.
            copied: called with both places of bytes that have been copied to another one.
        """
        self._fresh = fresh or (lambda begin, end: np.zeros(end - begin, np.uint8))
        self._copied = copied
        self._parts: list[tuple[int, int, np.ndarray]] = []

    def view(self, begin: int, end: int) -> np.ndarray:
        """Returns the bytes from ``begin`` to ``end``, in place until the next call."""
        touched = [part for part in self._parts if part[0] < end and begin < part[1]]
        if len(touched) == 1 and touched[0][0] <= begin and end <= touched[0][1]:
            first, _, data = touched[0]
            return data[begin - first : end - first]
        low = min([begin, *(part[0] for part in touched)])
        high = max([end, *(part[1] for part in touched)])
        data = self._fresh(low, high)
        for first, last, known in touched:
            data[first - low : last - low] = known
            if self._copied is not None:
                self._copied(data[first - low : last - low], known)
        self._parts = [each for each in self._parts if not (each[0] < end and begin < each[1])]
        self._parts.append((low, high, data))
        return data[begin - low : end - low]


def changes(before: np.ndarray, now: np.ndarray) -> list[tuple[int, int]]:
    """Returns where two arrays of bytes differ: pairs of begin and end, in pieces."""
    count = -(-before.size // _PIECE)
    different = np.zeros(count * _PIECE, bool)
    np.not_equal(before, now, out=different[: before.size])
    pieces = np.flatnonzero(different.reshape(count, _PIECE).any(1))
    if not pieces.size:
        return []
    breaks = np.flatnonzero(np.diff(pieces) > 1)
    first = pieces[np.concatenate([[0], breaks + 1])]
    last = pieces[np.concatenate([breaks, [pieces.size - 1]])]
    return [
        (int(a) * _PIECE, min(int(b + 1) * _PIECE, before.size))
        for a, b in zip(first, last, strict=True)
    ]
