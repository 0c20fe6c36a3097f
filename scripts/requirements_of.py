"""Prints the packages of a dependency group of pyproject.toml, one a line, as pip reads them.

python scripts/requirements_of.py test | pip install -r /dev/stdin

`pip install --group` does the same from pip 25.1 on; Python 3.10 brings an older one.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def requirements_of(group: str) -> list[str]:
    """Returns the requirements of a group.

    Raises:
        KeyError: no group has this name.
    """
    # Python 3.10 has no reader of TOML but pip's own.
    reader = "tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli"
    text = (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text()
    found: list[str] = importlib.import_module(reader).loads(text)["dependency-groups"][group]
    return found


if __name__ == "__main__":
    print("\n".join(requirements_of(sys.argv[1])))
