"""Until when arrays of pinned memory that were appended are read."""

from __future__ import annotations

import threading
from collections import deque

from .device import Event, Queue, Source

#: Bytes from which on what was copied gets a point of its own: 20 us of a link of 55 GB/s.
_BYTES_OF_A_POINT = 1 << 20


class Reading:
    """The point of a queue after which arrays are not read.

    Small arrays that are appended one after the other share one, recorded when somebody asks for it
    or when they are a megabyte: to record an event takes as long as to submit a copy of 64 KiB.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._event: Event | None = None
        self._bytes = 0

    def add(self, size: int) -> bool:
        """Takes an array whose copy is in the queue; False if the point lies before that."""
        with self._lock:
            if self._event is not None:
                return False
            self._bytes += size
            if self._bytes >= _BYTES_OF_A_POINT:
                self._event = self._queue.record()
            return True

    @property
    def done(self) -> bool:
        """Whether the arrays may be changed."""
        return self._recorded().done

    def synchronize(self, edge: str = "") -> None:
        """Lets the host wait until they may."""
        self._recorded().synchronize(edge)

    def _recorded(self) -> Event:
        with self._lock:
            if self._event is None:
                self._event = self._queue.record()
            return self._event


class Readings:
    """Keeps arrays for as long as a queue reads them; used by one thread at a time."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._kept: deque[tuple[Reading, list[Source]]] = deque()

    def add(self, source: Source, size: int) -> Reading:
        """Keeps an array of ``size`` bytes whose copy is in the queue; returns until when."""
        if self._kept:
            reading, sources = self._kept[-1]
            if reading.add(size):
                sources.append(source)
                return reading
        # All points are recorded now, so that to ask for them moves none.
        while self._kept and self._kept[0][0].done:
            self._kept.popleft()
        reading = Reading(self._queue)
        reading.add(size)
        self._kept.append((reading, [source]))
        return reading
