"""Writes tiles as chunks of a Zarr array: threads compress them, and make shards of them."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..math import cdiv
from .encoding import Encoding
from .storing import Files, Keys

#: Bytes of tiles that a thread takes at a time: less cost more to hand over than to compress.
_TASK_BYTES = 256 << 10
_ABSENT = 2**64 - 1


class Chunks:
    """The chunks of an array, each of which is a tile; used by one thread at a time.

    Attributes:
        shard_rows: of the growing axis, that are written together; those of a chunk without shards.
    """

    def __init__(
        self, array: Any, encoding: Encoding, storage: Files | Keys, threads: int, growing: int
    ) -> None:
        self._array, self._encoding, self._storage = array, encoding, storage
        self._threads = threads
        self._workers: ThreadPoolExecutor | None = None
        self._fill = np.asarray(array.metadata.fill_value, array.dtype)
        settings = getattr(array, "config", None) or array._async_array._config
        self._keeps_empty = settings.write_empty_chunks
        self._shards: _Shards | None = None
        self.shard_rows = array.chunks[growing]
        if array.shards is not None:
            self._shards = _Shards(array, encoding, storage, growing)
            self.shard_rows = array.shards[growing]

    def write(self, places: np.ndarray, tiles: np.ndarray) -> None:
        """Compresses and writes tiles; returns when all of them are written, or in a shard.

        Args:
            places: of each tile among the chunks of the array.
            tiles: contiguous.
        """
        size = max(1, _TASK_BYTES // (tiles[0].nbytes))
        if self._workers is None:
            self._workers = ThreadPoolExecutor(self._threads, "stream chunks")
        tasks = [
            self._workers.submit(self._write, places[first : first + size], tiles[first:][:size])
            for first in range(0, len(tiles), size)
        ]
        wait(tasks)
        for task in tasks:
            task.result()

    def _write(self, places: np.ndarray, tiles: np.ndarray) -> None:
        for place, tile in zip(places.tolist(), tiles, strict=True):
            data = None if self._is_empty(tile) else self._encoding.encode(tile)
            if self._shards is not None:
                self._shards.add(place, data)
                continue
            key = self._array.metadata.encode_chunk_key(tuple(place))
            if data is None:
                self._storage.remove(key)
            else:
                self._storage.put(key, data)

    def _is_empty(self, tile: np.ndarray) -> bool:
        """Whether a tile is not written, as all of its elements are the array's fill value."""
        fill = self._fill
        if self._keeps_empty or (tile.flat[0] != fill and fill == fill):
            return False
        return np.array_equal(tile, np.broadcast_to(fill, tile.shape), fill.dtype.kind in "fc")

    def publish(self) -> None:
        """Writes shards that are not complete, so that readers see what they have."""
        if self._shards is not None:
            self._shards.publish()

    def force(self) -> None:
        """Forces what was written onto the disk."""
        self._storage.force()

    def close(self) -> None:
        """Ends the threads."""
        if self._workers is not None:
            self._workers.shutdown()
            self._workers = None


@dataclass
class _Shard:
    """Compressed chunks of a shard by their places in it, None for an empty one.

    Attributes:
        left: how many chunks come before it is complete.
        added: those that came, not those that the store had.
    """

    chunks: dict[tuple[int, ...], bytes | None]
    left: int
    added: set[tuple[int, ...]]


class _Shards:
    """Shards that are not complete; any thread may add chunks."""

    def __init__(self, array: Any, encoding: Encoding, storage: Files | Keys, growing: int) -> None:
        assert encoding.index is not None
        self._metadata, self._storage = array.metadata, storage
        self._encode_index, self._at_end = encoding.index, encoding.index_at_end
        self._grid = tuple(s // c for s, c in zip(array.shards, array.chunks, strict=True))
        self._counts = [cdiv(s, c) for s, c in zip(array.shape, array.chunks, strict=True)]
        self._growing = growing
        self._lock = threading.Lock()
        self._open: dict[tuple[int, ...], _Shard] = {}
        self._changed: set[tuple[int, ...]] = set()

    def add(self, place: Sequence[int], data: Any) -> None:
        """Adds a chunk; None: an empty one. Writes its shard if it is the last one of it."""
        number = tuple(p // g for p, g in zip(place, self._grid, strict=True))
        inner = tuple(p % g for p, g in zip(place, self._grid, strict=True))
        kept = None if data is None else bytes(data)
        with self._lock:
            shard = self._open.get(number)
            if shard is None:
                shard = self._open[number] = self._begin(number, inner[self._growing])
            shard.chunks[inner] = kept
            shard.added.add(inner)
            self._changed.add(number)
            if len(shard.added) < shard.left:
                return
        self._put(number, shard.chunks)
        with self._lock:
            del self._open[number]
            self._changed.discard(number)

    def _begin(self, number: tuple[int, ...], first: int) -> _Shard:
        """Returns a shard whose chunks come from the ``first`` along the growing axis on."""
        left = 1
        for axis, (place, grid) in enumerate(zip(number, self._grid, strict=True)):
            # The array ends along other axes, and grows along this one.
            inside = min(grid, self._counts[axis] - place * grid)
            left *= grid - first if axis == self._growing else inside
        return _Shard(self._read(number), left, set())

    def publish(self) -> None:
        """Writes the shards that have changed."""
        with self._lock:
            changed = [(number, self._open[number].chunks) for number in sorted(self._changed)]
        for number, chunks in changed:
            self._put(number, chunks)
            with self._lock:
                self._changed.discard(number)

    def _put(self, number: tuple[int, ...], chunks: dict[tuple[int, ...], bytes | None]) -> None:
        index = np.full((*self._grid, 2), _ABSENT, "<u8")
        at = 0 if self._at_end else len(self._encode_index(index))
        parts = []
        for inner, data in sorted(chunks.items()):
            if data is not None:
                index[inner] = at, len(data)
                at += len(data)
                parts.append(data)
        key = self._metadata.encode_chunk_key(number)
        if not parts:
            self._storage.remove(key)
            return
        parts.insert(len(parts) if self._at_end else 0, bytes(self._encode_index(index)))
        self._storage.put(key, b"".join(parts))

    def _read(self, number: tuple[int, ...]) -> dict[tuple[int, ...], bytes | None]:
        """Returns the chunks of a shard that was written before."""
        data = self._storage.get(self._metadata.encode_chunk_key(number))
        if data is None:
            return {}
        size = len(self._encode_index(np.zeros((*self._grid, 2), "<u8")))
        raw = data[-size:] if self._at_end else data[:size]
        index = np.frombuffer(raw, "<u8", 2 * math.prod(self._grid)).reshape(*self._grid, 2)
        return {
            inner: data[int(index[inner][0]) :][: int(index[inner][1])]
            for inner in np.ndindex(*self._grid)
            if index[inner][0] != _ABSENT
        }
