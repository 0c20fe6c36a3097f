"""Where the chunks of an array are kept: files, or the keys of another store of zarr."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

from ..errors import ArgumentError

#: When files are forced onto the disk: by the system; by ``flush``; before readers see their rows.
POLICIES = ("never", "flush", "batch")
#: Files that wait for a flush at most; more of them are forced onto the disk at once.
_MOST_WAITING = 4096


class Files:
    """Chunks in files of a folder, each of which is replaced in one step.

    Any thread may call the methods.
    """

    def __init__(self, root: Path, policy: str) -> None:
        self._root, self._policy = root, policy
        self._lock = threading.Lock()
        self._folders: set[Path] = set()
        self._files: set[Path] = set()
        self._changed: set[Path] = set()

    def get(self, key: str) -> bytes | None:
        """Returns the bytes of a chunk, or None if there is none."""
        with contextlib.suppress(FileNotFoundError):
            return (self._root / key).read_bytes()
        return None

    def put(self, key: str, data: Any) -> None:
        """Writes a chunk."""
        path = self._root / key
        self._make(path.parent)
        partial = path.with_name(path.name + ".partial")
        try:
            file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            try:
                left = memoryview(data).cast("B")
                while left:
                    left = left[os.write(file, left) :]
                if self._policy == "batch":
                    os.fsync(file)
            finally:
                os.close(file)
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        self._remember(path)

    def remove(self, key: str) -> None:
        """Removes a chunk, if there is one."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (self._root / key).unlink()

    def _make(self, folder: Path) -> None:
        with self._lock:
            if folder in self._folders:
                return
            missing = folder
            while not missing.exists():
                self._changed.add(missing.parent)
                missing = missing.parent
            folder.mkdir(parents=True, exist_ok=True)
            self._folders.add(folder)

    def _remember(self, path: Path) -> None:
        if self._policy == "never":
            return
        with self._lock:
            self._changed.add(path.parent)
            if self._policy == "flush":
                self._files.add(path)
            full = len(self._files) >= _MOST_WAITING
        if full:
            self.force()

    def force(self) -> None:
        """Forces what was written onto the disk, and the folders that it is in."""
        with self._lock:
            files, self._files = self._files, set()
            folders, self._changed = self._changed, set()
        for path in [*sorted(files), *sorted(folders)]:
            _force(path)

    def force_metadata(self) -> None:
        """Forces the shape of the array onto the disk."""
        for name in ("zarr.json", ".zarray"):
            _force(self._root / name)
        _force(self._root)


class Keys:
    """Chunks in a store of zarr, which has its own ways to keep them."""

    def __init__(self, store: Any, path: str) -> None:
        self._store, self._prefix = store, f"{path}/" if path else ""

    def get(self, key: str) -> bytes | None:
        """Returns the bytes of a chunk, or None if there is none."""
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        found = sync(self._store.get(self._prefix + key, default_buffer_prototype()))
        return None if found is None else found.to_bytes()

    def put(self, key: str, data: Any) -> None:
        """Writes a chunk."""
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        # A store of the memory keeps what it gets, and the tile is overwritten.
        buffer = default_buffer_prototype().buffer.from_bytes(bytes(data))
        sync(self._store.set(self._prefix + key, buffer))

    def remove(self, key: str) -> None:
        """Removes a chunk, if there is one."""
        from zarr.core.sync import sync

        if self._store.supports_deletes:
            sync(self._store.delete(self._prefix + key))

    def force(self) -> None:
        """Does nothing: the store decides."""

    def force_metadata(self) -> None:
        """Does nothing, too."""


def storage(array: Any, policy: str) -> Files | Keys:
    """Returns where an array of zarr keeps its chunks.

    Raises:
        ArgumentError: there is no such policy, or the store knows none.
    """
    from zarr.storage import LocalStore

    check_policy(policy)
    if type(array.store) is LocalStore:
        return Files(Path(array.store.root) / array.path, policy)
    if policy != "never":
        raise ArgumentError(
            f"sync={policy!r}, but {type(array.store).__name__} decides itself when data is safe",
            notes=["only a path, or a LocalStore of zarr, can be forced onto the disk"],
        )
    return Keys(array.store, array.path)


def check_policy(policy: str) -> None:
    """Raises an ArgumentError unless files can be forced onto the disk so."""
    if policy not in POLICIES:
        raise ArgumentError(f"sync={policy!r} is none of {', '.join(POLICIES)}")


def _force(path: Path) -> None:
    """Forces a file or a folder onto the disk."""
    with contextlib.suppress(FileNotFoundError):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
