"""Prints the packages that this package and a group of pyproject.toml need, one a line.

python scripts/requirements_of.py test | pip install -r /dev/stdin

`pip install --group` does the same from pip 25.1 on; Python 3.10 brings an older one.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path
from typing import Any


def requirements_of(group: str) -> list[str]:
    """Returns the requirements of a group.

    Raises:
        KeyError: no group has this name.
    """
    found: list[str] = _settings()["dependency-groups"][group]
    return found


def dependencies() -> list[str]:
    """Returns what the package itself needs."""
    found: list[str] = _settings()["project"]["dependencies"]
    return found


def _settings() -> dict[str, Any]:
    # Python 3.10 has no reader of TOML but pip's own.
    reader = "tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli"
    text = (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text()
    found: dict[str, Any] = importlib.import_module(reader).loads(text)
    return found


if __name__ == "__main__":
    groups = [requirements_of(group) for group in sys.argv[1:]]
    print("\n".join(itertools.chain(dependencies(), *groups)))
