"""Rebuilds the C++ library of an editable install when its sources changed."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path


def _newest_source(root: Path) -> float:
    """Returns the latest modification time (seconds) of what the library is built from.

    Folders count too: their time changes when a file comes or goes.
    """
    newest = (root / "CMakeLists.txt").stat().st_mtime
    for folder, _, names in os.walk(root / "src"):
        newest = max(newest, os.stat(folder).st_mtime)
        for name in names:
            newest = max(newest, os.stat(os.path.join(folder, name)).st_mtime)
    return newest


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        words = " ".join(map(str, command))
        raise ImportError(f"rebuilding libtilelang.so failed: {words}\n{done.stdout}")


def _cmake_of(build: Path) -> str | None:
    """Returns the cmake that configured ``build``, None when it or its ninja is gone.

    Both are gone after an install with build isolation, whose environment is temporary.
    """
    cache = build / "CMakeCache.txt"
    text = cache.read_text() if cache.exists() else ""
    tools = dict(re.findall(r"^(CMAKE_COMMAND|CMAKE_MAKE_PROGRAM):\w+=(.*)$", text, re.MULTILINE))
    if len(tools) == 2 and all(map(os.path.exists, tools.values())):
        return tools["CMAKE_COMMAND"]
    return None


def _configure(root: Path, build: Path) -> str:
    """Configures ``build`` with tools of its own, which stay, and returns their cmake."""
    tools = root / "build" / "tools"
    _run(sys.executable, "-m", "venv", tools)
    _run(tools / "bin" / "pip", "install", "--quiet", "cmake", "ninja")
    cmake, ninja = str(tools / "bin" / "cmake"), tools / "bin" / "ninja"
    python = f"-DPython_EXECUTABLE={sys.executable}"
    _run(cmake, "-S", root, "-B", build, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", python)
    return cmake


def _build(root: Path, prefix: Path) -> None:
    """Builds in the folder of the install, or in one of our own when that lost its tools."""
    build = root / "build" / "wheel"
    cmake = _cmake_of(build)
    if cmake is None:
        build = root / "build" / "editable"
        cmake = _cmake_of(build) or _configure(root, build)
    _run(cmake, "--build", build)
    _run(cmake, "--install", build, "--prefix", prefix)


def rebuild_if_changed(root: Path, library: Path) -> None:
    """Brings the installed ``library`` up to date with the sources below ``root``.

    ``library`` lies in ``<site-packages>/tilelang/lib``. One process builds, others wait for it.
    Raises ImportError with the compiler's output when the build fails.
    """
    newest = _newest_source(root)
    if library.stat().st_mtime >= newest:
        return
    with open(root / "build" / "rebuild.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if library.stat().st_mtime >= newest:
            return
        print("tilelang: C++ sources changed, rebuilding", file=sys.stderr)
        _build(root, library.parents[2])
        # A change that leaves the library as it was leaves its time too: without this line every
        # import would build again.
        os.utime(library)
