"""Compiled kernels that stay between runs of the tests, in pytest's own cache folder.

NVRTC would take half of the time of a test run. The name of an entry is a digest of all that its
content depends on: the CUDA source, the headers, the options and the version of NVRTC
(tilelang/runtime/cache.py). A change of the compiler that changes no source needs no compilation.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tilelang import env
from tilelang.runtime import cache
from tilelang.runtime.nvrtc import Artifact

_DAY = 24 * 3600
#: Entries that no run has read for so long are removed.
_UNUSED_SECONDS = 14 * _DAY
_FOLDERS = ("kernels", "ptxas")


def keep(config: pytest.Config) -> None:
    """Puts the disk cache of this process and its children into a folder that runs share."""
    kept = getattr(config, "cache", None)  # there is none under -p no:cacheprovider
    if kept:
        os.environ.setdefault("TILELANG_CACHE_DIR", str(kept.mkdir("kernels")))


def remove_unused(config: pytest.Config, now: float | None = None) -> None:
    """Removes the entries that no run has read for two weeks."""
    kept = getattr(config, "cache", None)
    oldest = (time.time() if now is None else now) - _UNUSED_SECONDS
    for folder in _FOLDERS if kept else ():
        for path in kept.mkdir(folder).rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # another run removes them as well
                status = path.stat()
                if path.is_file() and max(status.st_atime, status.st_mtime) < oldest:
                    path.unlink()


@pytest.fixture
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder of a disk cache of the test's own, records of searches included.

    A kernel that the shared folder has is copied from there rather than compiled. Tests of the
    cache itself set ``TILELANG_CACHE_DIR`` instead.
    """
    shared = cache.DiskCache(env.cache_directory())

    class Private(cache.DiskCache):
        def get_or_make(self, name: str, make: Callable[[], Artifact]) -> Artifact:
            return super().get_or_make(name, lambda: shared.get_or_make(name, make))

    folder = tmp_path / "cache"
    monkeypatch.setattr(cache, "DiskCache", Private)
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(folder))
    return folder
