"""Verdicts that are kept in a folder, which several machines may share.

The name of an entry is the digest of a check: of its words, the files that these name, and the
versions. An entry lists the files that the program read besides, each with its digest; it counts as
long as these are the same. Entries are written beside their place and renamed, so readers see all
of one or nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from .check import Check


class KeptVerdicts:
    """A folder of verdicts."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder).resolve()

    def get(self, check: Check) -> dict[str, Any] | None:
        """Returns the document of a check; None if there is no entry that holds."""
        try:
            entry = json.loads(self._path(check).read_text(encoding="utf-8"))
            document, files = entry["document"], entry["document"]["files"]
            if entry["digest"] != _digest(document):
                return None
            read = ((Path(check.folder, each["path"]), each["sha256"]) for each in files)
            return document if all(sha256(path) == known for path, known in read) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # there is none, or somebody has damaged it

    def put(self, check: Check, document: dict[str, Any]) -> None:
        """Keeps a document that has a verdict. A folder that cannot be written to stays as it is.

        A program that failed may do so because of the machine, so that verdict is not kept.
        """
        if document.get("verdict") in (None, "failed"):
            return
        path = self._path(check)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, suffix=".new")
            with open(handle, "w", encoding="utf-8") as file:
                json.dump({"digest": _digest(document), "document": document}, file)
            os.replace(name, path)

    def _path(self, check: Check) -> Path:
        name = check.digest()
        return self._folder / name[:2] / f"{name}.json"


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
