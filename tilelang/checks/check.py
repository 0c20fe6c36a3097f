"""One check: the words of a command line, and the digest of all that its verdict depends on."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import _ffi
from ..env import default_target
from ..errors import UserError
from ..target import device_target
from . import warm

#: The version of every document (cli/schema.json). Removing or renaming a field changes it.
SCHEMA_VERSION = 1
_PACKAGE = Path(__file__).resolve().parents[1]
#: Packages whose version can change a verdict, if they are installed.
_VERSIONS = ("apache-tvm-ffi", "nvidia-cuda-nvrtc", "numpy", "torch", "triton", "helion",
             "nvidia-cutlass-dsl", "tilelang-sm100")  # fmt: skip
#: Settings that are about this machine, not about verdicts.
_OF_THE_MACHINE = ("TILELANG_CACHE_DIR", "TILELANG_LIBRARY", "TILELANG_DISABLE_CACHE")


@dataclasses.dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        words: what follows ``tilelang check`` on a command line.
        folder: where it runs; relative paths of ``words`` begin there.
    """

    words: tuple[str, ...]
    folder: str

    def __str__(self) -> str:
        return shlex.join(self.words)

    def refused(self, message: str) -> dict[str, Any]:
        """Returns the document of a check that has no verdict."""
        return {"schema": "tilelang.check", "version": SCHEMA_VERSION, "ok": False,
                "error": message}  # fmt: skip

    def digest(self) -> str:
        """Returns a digest of the words, the files that they name, and all versions."""
        digest = hashlib.sha256()
        target = "" if "--target" in self.words else str(device_target() or default_target())
        settings = sorted(
            f"{name}={value}" for name, value in os.environ.items()
            if name.startswith("TILELANG_") and name not in _OF_THE_MACHINE
        )  # fmt: skip
        for part in (*self.words, target, *settings, json.dumps(versions())):
            digest.update(part.encode() + b"\0")
        for word in self.words:
            path = Path(self.folder, word.partition("::")[0])
            if path.is_file():
                digest.update(path.read_bytes() + b"\0")
        return digest.hexdigest()


def check_of(given: str | Sequence[str], folder: str | os.PathLike[str] = ".") -> Check:
    """Returns the check of a command line, a text or its words.

    Raises:
        UserError: it is neither, or empty.
    """
    words = shlex.split(given) if isinstance(given, str) else list(given)
    if not words or not all(isinstance(word, str) for word in words):
        raise UserError(
            f"a check is a command line such as 'kernel.py::scale --shapes N=100', got {given!r}"
        )
    return Check(tuple(words), str(Path(folder).resolve()))


def run(check: Check, seconds: float | None = None) -> dict[str, Any]:
    """Runs a check in a process of its own, with one host thread.

    Args:
        check: the check.
        seconds: after which it is killed.

    Returns:
        The document that ``tilelang check --json`` prints.
    """
    at = check.words.index("--") if "--" in check.words else len(check.words)
    words = ["check", *check.words[:at], "--json", "--threads", "1", *check.words[at:]]
    ended = warm.run(words, check.folder, seconds, {"OMP_NUM_THREADS": "1"})
    if ended.status is None:
        return check.refused(f"there was no result after {seconds:g} s")
    try:
        found = json.loads(ended.printed)
    except json.JSONDecodeError:
        how = f"with status {ended.status}" if ended.status >= 0 else f"by signal {-ended.status}"
        text = (ended.errors or ended.printed[-1000:]).strip()
        return check.refused(
            f"the program ended the process {how} before there was a verdict"
            + (f": {text}" if text else "")
        )
    return dict(found)


@functools.cache
def versions() -> dict[str, str]:
    """Returns the versions of all that can change a verdict; "" of what is not installed.

    ``"library"`` and ``"package"`` are the SHA-256 of the library and of the Python sources.
    """
    digest = hashlib.sha256()
    for path in (*sorted(_PACKAGE.rglob("*.py")), *sorted(_PACKAGE.rglob("*.h"))):
        digest.update(path.read_bytes())
    found = {
        "python": platform.python_version(), "package": digest.hexdigest(),
        "library": hashlib.sha256(_ffi.LIBRARY_PATH.read_bytes()).hexdigest(),
    }  # fmt: skip
    for name in _VERSIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return found
