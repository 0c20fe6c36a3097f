"""Reads the program after each compiler pass from the dumps of a compilation."""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Pass(NamedTuple):
    """A pass that has changed a program.

    Attributes:
        kernel: name of the program.
        number, name: of the pass, in the order of the compiler.
        milliseconds: time of the pass.
        text: the program after the pass.
        places: the Python line of each line of the text, ``"/path/kernel.py:12"`` or "".
        before: the program before the pass.
    """

    kernel: str
    number: int
    name: str
    milliseconds: float
    text: str
    places: list[str]
    before: str

    @property
    def diff(self) -> str:
        """The changes in the form of a unified diff."""
        lines = difflib.unified_diff(
            self.before.splitlines(), self.text.splitlines(), "", "", lineterm="", n=2
        )
        return "\n".join(list(lines)[2:])


@contextlib.contextmanager
def dumped() -> Iterator[Path]:
    """Dumps programs that are compiled inside of the block to the folder that this returns."""
    name = "TILELANG_DUMP_IR"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[name] = folder
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


def changes(folder: Path) -> Iterator[Pass]:
    """Yields the input of each program and the passes that have changed it, in order."""
    for kernel in sorted(path for path in folder.iterdir() if path.is_dir()):
        before = ""
        for path in sorted(kernel.glob("*.txt")):
            title, time, text = path.read_text(encoding="utf-8").split("\n", 2)
            places = path.with_suffix(".places")
            if not places.exists():
                continue  # the pass has changed nothing
            number = int(path.name.partition("_")[0])
            yield Pass(
                kernel.name, number, title.removeprefix("# "), float(time.split()[1]), text,
                places.read_text(encoding="utf-8").splitlines(), before,
            )  # fmt: skip
            before = text
