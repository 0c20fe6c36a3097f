"""`make docs` renders every page without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def _command() -> list[str]:
    """What `make docs` runs, from the Makefile."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    (line,) = (line for line in lines if "sphinx-build" in line)
    return line.split("sphinx-build")[1].split()


@pytest.mark.nightly
def test_the_documentation_builds(tmp_path: Path) -> None:
    *options, source, target = _command()
    assert "-W" in options and (source, target) == ("docs", "docs/_build/html")
    line = [sys.executable, "-m", "sphinx", *options, source, str(tmp_path / "html")]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("index", "getting_started", "generated/names", "reference/index"):
        assert (tmp_path / "html" / f"{page}.html").exists(), page
