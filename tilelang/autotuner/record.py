"""Results of earlier searches, on disk: one small file for each candidate.

A file is named by all that its outcome depends on: the candidate in the IR, the options of the
compiler and its library, the device, the shapes and types of the arguments. A search that is
stopped goes on where it was, and another one knows the candidates that both have.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import _ffi, env


def is_enabled() -> bool:
    """Returns whether outcomes are kept on disk."""
    return env.is_cache_enabled() and not env.flag("TILELANG_AUTO_TUNING_DISABLE_CACHE")


@functools.cache
def _library() -> str:
    return hashlib.sha256(Path(_ffi.LIBRARY_PATH).read_bytes()).hexdigest()


def key(
    func: Any, options: Mapping[str, Any], device: str, inputs: Sequence[str], settings: str
) -> str:
    """Returns the name of an outcome.

    Args:
        func: the candidate in the IR.
        options: for ``tilelang.compile``.
        device: what it is measured on.
        inputs: shape, strides and type of each argument.
        settings: those of the search that matter for the outcome.
    """
    given = sorted((name, repr(value)) for name, value in options.items())
    parts = [str(func), repr(given), device, *inputs, settings, _library()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _path(name: str) -> Path:
    return env.cache_directory() / "autotune" / name[:2] / f"{name}.json"


def load(name: str) -> dict[str, Any] | None:
    """Returns an outcome; None if it is unknown, damaged, or that of another name."""
    try:
        found = json.loads(_path(name).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.pop("name", None) != name:
        return None
    valid = isinstance(found.get("latency"), (int, float, type(None)))
    return found if valid and isinstance(found.get("reason"), str) else None


def store(name: str, outcome: Mapping[str, Any]) -> None:
    """Keeps an outcome; a folder that cannot be written to is no error."""
    path = _path(name)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(handle, "w") as file:
            json.dump({**outcome, "name": name}, file)
        os.replace(temporary, path)
