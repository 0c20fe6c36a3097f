"""Files of measured numbers, from which ``scripts/render_tables.py`` makes tables of docs/.

A file has the date, the device, the commit and the command of a run, and its rows. The option
``--json FOLDER`` of a benchmark writes one file for each of its tables.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def add_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option ``--json`` to a benchmark."""
    parser.add_argument(
        "--json", type=Path, metavar="FOLDER", help="write the tables to files in this folder"
    )


def commit() -> str:
    """Returns the hash of the commit of this tree."""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def processor() -> str:
    """Returns the name of the processor."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    return names[0] if names else "unknown"


def device() -> str:
    """Returns the name of the GPU, such as ``H200``, or of the processor if there is none."""
    import torch

    if not torch.cuda.is_available():
        return processor()
    return torch.cuda.get_device_name().removeprefix("NVIDIA ")


def heading(of: str | None = None) -> dict[str, str]:
    """Returns the first fields of a file.

    Args:
        of: the device; None for the GPU or the processor of this machine.
    """
    return {
        "date": datetime.date.today().isoformat(),
        "device": of or device(),
        "commit": commit(),
        "command": " ".join(["python", f"benchmark/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
    }


def ratio(value: float, base: float, digits: int = 0) -> str:
    """Returns a cell with a speed and, in parentheses, its ratio to another one."""
    return f"{value:.{digits}f} ({value / base:.2f})"


class Table:
    """A table of docs/, as a benchmark measures it."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        """Makes an empty table.

        Args:
            name: of the file, without its ending.
            columns: the heading of each column.
        """
        self.name, self.columns = name, list(columns)
        self.rows: list[list[str]] = []

    def add(self, *cells: str) -> None:
        """Adds a row; missing cells at its end are empty."""
        self.rows.append([*cells, *[""] * (len(self.columns) - len(cells))])

    def save(self, folder: Path | None, of: str | None = None, **more: Any) -> None:
        """Writes the file of the table.

        Args:
            folder: of the file; None, which a benchmark without ``--json`` passes, writes nothing.
            of: the device, as for :func:`heading`.
            more: further fields.
        """
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        fields = {**heading(of), **more, "columns": self.columns}
        lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in fields.items()]
        rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in self.rows)
        text = "\n".join(["{", *lines, ' "rows": [', rows, " ]", "}", ""])
        (folder / f"{self.name}.json").write_text(text)
