"""Runs scripts of examples/ as a command line does, in this process."""

from __future__ import annotations

import runpy
import sys

import pytest
from draw_examples import EXAMPLES


def run(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: str) -> None:
    """Runs ``script`` (family/name) with these arguments."""
    path = EXAMPLES / f"{script}.py"
    monkeypatch.syspath_prepend(str(path.parent))  # where a script finds those beside it
    for beside in path.parent.glob("*.py"):  # which drawing leaves with an Example of its own
        monkeypatch.delitem(sys.modules, beside.stem, raising=False)
    monkeypatch.setattr(sys, "argv", [path.name, *arguments])
    runpy.run_path(str(path), run_name="__main__")
