"""The disk cache of compiled kernels.

An entry is one file, named by the SHA-256 of all that its content depends on. It is written beside
its final place and renamed, so readers see all of it or nothing, however many processes write and
whenever they are killed; a checksum over name and content turns any other damage into a miss, files
under other entries' names among it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from weakref import WeakValueDictionary

from .. import env
from . import nvrtc
from .nvrtc import Artifact

_MAGIC = b"TLK2"
_DIGEST_SIZE = hashlib.sha256().digest_size
_ABANDONED_SECONDS = 3600
_RELATIVE_LINE = re.compile(r'^\s*#line \d+ "(?!/)', re.MULTILINE)
_making: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
if hasattr(os, "register_at_fork"):  # a child has none of the threads that hold them
    os.register_at_fork(after_in_child=_making.clear)


def set_cache_dir(folder: str | os.PathLike[str] | None) -> None:
    """Puts the disk cache into a folder, which need not exist; None: the user's cache folder.

    As the environment variable ``TILELANG_CACHE_DIR``, which it sets: it holds for kernels compiled
    from now on, also in processes that this one starts.

    Raises:
        ConfigError: it is no path.
    """
    env.env.TILELANG_CACHE_DIR = folder


def get_cache_dir() -> Path:
    """Returns the folder of the disk cache; it need not exist yet."""
    return env.cache_directory()


@functools.cache
def _headers_digest() -> str:
    digest = hashlib.sha256()
    root = nvrtc.template_root() / "tl_templates"
    for path in sorted(root.rglob("*.h")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def key(source: str, arch: str, extra: tuple[str, ...], machine_code: bool = True) -> str:
    """Returns the name of a compilation: a digest of everything its result depends on.

    The generated source stands for the program, the options of the passes and the library. NVRTC
    completes relative paths of ``#line`` directives by the current folder.
    """
    options = nvrtc.options_for(arch, extra, machine_code)
    folder = os.getcwd() if _RELATIVE_LINE.search(source) else ""
    parts = (nvrtc.version(), _headers_digest(), folder, *options, source)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def compile_cached(
    source: str, arch: str, extra: tuple[str, ...] = (), machine_code: bool = True
) -> Artifact:
    """Compiles CUDA C++, or reads the result from the disk cache if it is there."""
    make = functools.partial(nvrtc.compile_cuda, source, arch, extra, machine_code)
    if not env.is_cache_enabled():
        return make()
    name = key(source, arch, extra, machine_code)
    # A thread that wants what another one compiles waits for it.
    with _making.setdefault(name, threading.Lock()):
        return DiskCache(env.cache_directory()).get_or_make(name, make)


class DiskCache:
    """A folder of artifacts; a folder that cannot be written to only makes every read a miss."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Returns the file of an entry, present or not."""
        return self.folder / name[:2] / f"{name}.tlk"

    def get_or_make(self, name: str, make: Callable[[], Artifact]) -> Artifact:
        """Returns an entry, made and stored if it is missing or damaged."""
        found = self.get(name)
        if found is None:
            found = make()
            self.put(name, found)
        return found

    def get(self, name: str) -> Artifact | None:
        """Returns an entry, or None if it is missing or damaged."""
        try:
            data = _read_file(self.path(name))
        except OSError:
            return None
        digest, body = data[4 : 4 + _DIGEST_SIZE], data[4 + _DIGEST_SIZE :]
        if data[:4] != _MAGIC or _checksum(name, body) != digest:
            return None
        try:
            return Artifact.from_bytes(body)
        except ValueError:
            return None

    def put(self, name: str, artifact: Artifact) -> None:
        """Stores an entry, replacing a damaged one."""
        body = artifact.to_bytes()
        path = self.path(name)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._remove_abandoned(path.parent)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + _checksum(name, body) + body)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise

    def _remove_abandoned(self, folder: Path) -> None:
        """Removes what killed writers left."""
        for path in folder.glob(".new-*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()


def _checksum(name: str, body: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + body).digest()


def _read_file(path: Path) -> bytes:
    """Returns the content of a regular file.

    Raises:
        OSError: there is no regular file.
    """
    # A FIFO would block, were it not for O_NONBLOCK; a device may never end.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path} is no regular file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)
