"""``tilelang cache``: lists, measures and clears the disk cache of compiled kernels."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path
from typing import Any

import click

from .. import env
from .output import document, emit, guarded, json_option


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("??/*.tlk"), key=lambda path: -path.stat().st_mtime)


def size_text(count: int) -> str:
    """Returns a number of bytes with a unit, such as ``"3.4 MB"``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def entries_text(count: int) -> str:
    """Returns a number of entries, such as ``"1 entry"``."""
    return f"{count} {'entry' if count == 1 else 'entries'}"


@click.group()
def cache() -> None:
    """List, measure or clear the disk cache of compiled kernels ($TILELANG_CACHE_DIR)."""


@cache.command(name="list")
@json_option
@guarded
def list_entries(as_json: bool) -> None:
    """List the entries, the latest first."""
    folder = env.cache_directory()
    entries: list[dict[str, Any]] = [
        {"name": path.stem, "bytes": path.stat().st_size, "written": path.stat().st_mtime}
        for path in _entries(folder)
    ]
    lines = [
        f"{entry['name'][:16]}  {size_text(entry['bytes']):>9}  "
        f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(entry['written']))}"
        for entry in entries
    ]
    emit(
        document("cache.list", ok=True, folder=str(folder), entries=entries),
        "\n".join([f"{entries_text(len(entries))} in {folder}", *lines]),
        as_json,
    )


@cache.command()
@json_option
@guarded
def size(as_json: bool) -> None:
    """Show the number of entries and their size."""
    folder = env.cache_directory()
    sizes = [path.stat().st_size for path in _entries(folder)]
    emit(
        document("cache.size", ok=True, folder=str(folder), entries=len(sizes), bytes=sum(sizes)),
        f"{entries_text(len(sizes))}, {size_text(sum(sizes))} in {folder}",
        as_json,
    )


@cache.command()
@click.option("--tuning", is_flag=True, help="Also remove the results of autotuning.")
@json_option
@guarded
def clear(tuning: bool, as_json: bool) -> None:
    """Remove all entries; kernels are compiled again when they are needed."""
    folder = env.cache_directory()
    entries = _entries(folder)
    freed = 0
    for path in entries:
        freed += path.stat().st_size
        with contextlib.suppress(FileNotFoundError):  # another process may clear it, too
            path.unlink()
    if tuning:
        shutil.rmtree(folder / "autotune", ignore_errors=True)
    emit(
        document("cache.clear", ok=True, folder=str(folder), entries=len(entries), bytes=freed),
        f"removed {entries_text(len(entries))}, {size_text(freed)}, from {folder}",
        as_json,
    )
