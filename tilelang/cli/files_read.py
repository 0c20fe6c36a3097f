"""The files that a program consists of, and those that it reads."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..checks.kept import sha256

_PACKAGE = Path(__file__).resolve().parents[1]
#: What belongs to Python, to this package, or to the machine.
_ELSEWHERE = tuple(
    str(Path(each).resolve()) + os.sep
    for each in {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, str(_PACKAGE),
                 "/proc", "/sys", "/dev", "/usr", "/etc"}
)  # fmt: skip
_INSTALLED = {"site-packages", "dist-packages"}
_opened: set[str] | None = None
_learned: dict[str, str] = {}
_before: set[str] = set()  # modules that are not the program's


def watch() -> None:
    """Notes the files that this process opens for reading, from now on until it ends."""
    global _opened
    _learned.clear()
    _before.update(_modules())
    if _opened is None:
        sys.addaudithook(_heard)
    _opened = set()


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _opened is not None:
        path, mode = arguments[:2]
        if isinstance(path, str | bytes | os.PathLike) and mode and not set("wax+") & set(mode):
            _opened.add(os.path.abspath(os.fsdecode(path)))


def _modules() -> set[str]:
    files = {getattr(each, "__file__", None) for each in list(sys.modules.values())}
    return {each for each in files if isinstance(each, str)}


def learn(files: Iterable[dict[str, str]]) -> None:
    """Adds files that another process has found; see :func:`found`."""
    _learned.update((str(each["path"]), str(each["sha256"])) for each in files)


def found(folder: Path) -> list[dict[str, str]]:
    """Returns the files below a folder or imported from elsewhere, each with its SHA-256.

    Files of Python and of installed packages do not count, nor do files that the program has
    removed. Paths below the folder are relative to it.
    """
    paths = {Path(each).resolve() for each in _modules() - _before}
    paths |= {
        path for each in _opened or () if (path := Path(each).resolve()).is_relative_to(folder)
    }
    chosen = sorted(each for each in paths if each.is_file() and not _elsewhere(each))
    known = {
        str(each.relative_to(folder) if each.is_relative_to(folder) else each): sha256(each)
        for each in chosen
    }
    return [{"path": path, "sha256": digest} for path, digest in sorted(known.items())]


def of_programs(folder: Path) -> list[dict[str, str]]:
    """Returns what the processes of the program have found, or else this process, which ran it."""
    if not _learned:
        return found(folder)
    return [{"path": path, "sha256": digest} for path, digest in sorted(_learned.items())]


def _elsewhere(path: Path) -> bool:
    return (
        str(path).startswith(_ELSEWHERE)
        or path.suffix in (".pyc", ".so")
        or not _INSTALLED.isdisjoint(path.parts)
    )
