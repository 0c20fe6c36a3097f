#!/usr/bin/env python3
"""Writes the page of the documentation about the museum: docs/museum.md.

Usage: python testing/python/museum/page.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from museum.exhibits import EXHIBITS, KERNELS, run

from tilelang.emulator import EmulatorError

PAGE = Path(__file__).resolve().parents[3] / "docs" / "museum.md"

_HEAD = """# A museum of ordering bugs

Each exhibit is a small kernel of our own with an ordering bug that a public kernel or compiler has
had. The comments name the thread that tells the story. `FIXED` selects the repair.

The tests run both versions with the emulator's defaults: the wrong version must be found, and the
fixed one must be silent and right under three schedules. The last twelve exhibits, from "Dependent
grid" on, were written to measure checks that were finished. Ten of the twelve wrong versions were
found as first written. "Own value rewritten" had volatile accesses then, which are no race. The
check of "Local arrive on remote" was added. All fixed versions were silent. The kernels are in
`testing/python/museum/kernels`, and `python testing/python/museum/page.py` writes this page.
"""


def finding(name: str) -> str:
    """Returns what the emulator says of the wrong version, without addresses and lines of PTX."""
    try:
        run(name, fixed=False)
    except EmulatorError as error:
        text = error.reason.split("\n")[0]
        text = re.sub(r" at PTX line \d+ \(source line (\d+)\)", r" in line \1", text)
        text = re.sub(r" at 0x[0-9A-F]+", "", text)
        text = re.sub(r"\(\S*/(\w+\.cu):", r"(\1:", text)  # the folder in which it ran
        return f"{error.kind}, line {error.span.line}: {text}"
    raise AssertionError(f"{name}: nothing is found")


def page() -> str:
    """Returns the page."""
    parts = [_HEAD]
    for name in EXHIBITS:
        text = (KERNELS / f"{name}.cu").read_text()
        title = name.replace("_", " ").capitalize()
        parts.append(f"## {title}\n\n```cuda\n{text}```\n\n```text\n{finding(name)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
