"""Loads ``libtilelang.so`` and gives access to the functions it registers.

The library is searched beside the package (an installed wheel), then through the import
system's resource files (an editable install), then in ``$TILELANG_LIBRARY`` (a development
build that is not installed).
"""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

import tvm_ffi


def _find_library() -> Path:
    override = os.environ.get("TILELANG_LIBRARY")
    if override:
        return Path(override)
    path = resources.files("tilelang") / "lib" / "libtilelang.so"
    if path.is_file():
        return Path(str(path))
    raise ImportError(
        "libtilelang.so was not found beside the tilelang package; install the package with "
        "`pip install .`, or point TILELANG_LIBRARY at a built libtilelang.so"
    )


LIBRARY_PATH = _find_library()
# Keeps the library loaded for the life of the process.
_LIBRARY = tvm_ffi.load_module(str(LIBRARY_PATH))


def get(name: str) -> Any:
    """Returns the C++ function registered as ``tl.<name>``."""
    return tvm_ffi.get_global_func(f"tl.{name}")
