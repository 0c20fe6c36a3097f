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


@contextlib.contextmanager
def _torch_hidden() -> Iterator[None]:
    """Keeps tvm-ffi from importing torch, which costs more time than everything else together.

    Tensors of a torch that is imported later still work: they are recognised by their class's
    DLPack exchange table, not by the module.
    """
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["torch"]


with _torch_hidden():
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
