"""Loads ``libtilelang.so`` and gives access to the functions it registers.

``$TILELANG_LIBRARY`` names it (a development build that is not installed); else it is among the
package's resources: beside the package in an installed wheel, in site-packages while the package
lies in the source tree in an editable install, which is rebuilt when its sources changed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from . import errors

# What tvm-ffi imports if it is there, and what importing us must not wait for. Tensors of a torch
# that is imported later still work: their class's DLPack exchange table tells what they are.
_HIDDEN = ("torch", "cuda.bindings.driver")


@contextlib.contextmanager
def _hidden(names: tuple[str, ...]) -> Iterator[None]:
    """Makes modules that are not imported yet look as if they were not installed."""
    names = tuple(name for name in names if name not in sys.modules)
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


with _hidden(_HIDDEN):
    import tvm_ffi


def _find_library() -> Path:
    override = os.environ.get("TILELANG_LIBRARY")
    if override:
        return Path(override)
    path = Path(str(resources.files("tilelang") / "lib" / "libtilelang.so"))
    if path.is_file():
        package = Path(__file__).resolve().parent
        if package not in path.parents and (package.parent / "CMakeLists.txt").is_file():
            from tilelang._rebuild import rebuild_if_changed

            rebuild_if_changed(package.parent, path)
        return path
    raise ImportError(
        "libtilelang.so was not found beside the tilelang package; install the package with "
        "`pip install .`, or point TILELANG_LIBRARY at a built libtilelang.so"
    )


LIBRARY_PATH = _find_library()
# Keeps the library loaded for the life of the process.
_LIBRARY = tvm_ffi.load_module(str(LIBRARY_PATH))

for _kind, _error in errors.KINDS.items():
    tvm_ffi.register_error(_kind, _error)


def get(name: str) -> Any:
    """Returns the C++ function registered as ``tl.<name>``."""
    return tvm_ffi.get_global_func(f"tl.{name}")
