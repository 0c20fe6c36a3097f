"""What an installation is told: who owns the package, and that the demo needs no torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def _run(line: list[str], *folders: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*map(str, folders), *sys.path])
    return subprocess.run(
        [sys.executable, *line], env={**os.environ, "PYTHONPATH": path}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def test_importing_warns_of_another_distribution(tmp_path: Path) -> None:
    (tmp_path / "tilelang-0.1.9.dist-info").mkdir()
    content = "Metadata-Version: 2.1\nName: tilelang\nVersion: 0.1.9\n"
    (tmp_path / "tilelang-0.1.9.dist-info" / "METADATA").write_text(content)
    done = _run(["-c", "import tilelang"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tilelang 0.1.9" in done.stderr and "pip uninstall tilelang" in done.stderr


def test_importing_says_nothing_otherwise() -> None:
    done = _run(["-c", "import tilelang"])
    assert (done.returncode, done.stderr) == (0, "")


def test_the_demo_needs_no_torch() -> None:
    block = "import sys, runpy; sys.modules['torch'] = None; "
    run = f"runpy.run_path({str(ROOT / 'scripts' / 'demo.py')!r}, run_name='__main__')"
    done = _run(["-c", block + run])
    assert done.returncode == 0, done.stderr
    assert "correct" in done.stdout and "predicted on a" in done.stdout
