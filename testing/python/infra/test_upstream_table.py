"""The table of upstream's programs in docs/migration.md."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "upstream_table.py"


def test_the_page_has_the_table_of_the_results() -> None:
    assert subprocess.run([sys.executable, SCRIPT, "--check"]).returncode == 0


def test_folders_are_counted() -> None:
    script = runpy.run_path(str(SCRIPT))
    lines = [
        "examples/a/x.py\t2\t2\t",
        "examples/a/y.py\t1\t3\tno wgmma",
        "testing/python/b/z.py\t0\t1\t?",
        "testing/python/c/w.py\t3\t3\ton a GPU",
    ]
    table = script["table"](script["read"]("\n".join(lines)))
    assert "2 of 4 files run unchanged." in table
    assert "| `examples/a` | 2 | 1 | `y` (1 of 3): no wgmma |" in table
    assert "| `testing/python/b` | 1 | 0 | `z`: ? |" in table
    assert "| `testing/python/c` | 1 | 1 | `w` runs: on a GPU |" in table
