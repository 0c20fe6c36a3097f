"""The README runs as it stands there, and the front pages lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from infra.doc_pages import ROOT, assert_printed, blocks

from tilelang.cli import main

README = ROOT / "README.md"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch) -> None:
    """The README's programs in a folder of their own, by the names in their first lines."""
    monkeypatch.chdir(tmp_path)
    for text in blocks(README, "python"):
        name = re.match(r"# (\w+\.py)\n", text)
        assert name, f"no name in the first line of\n{text}"
        Path(name[1]).write_text(text)


def _run(words: list[str]) -> tuple[int, str]:
    """Returns the exit status of a command, and what it prints."""
    if words[0] == "tilelang":
        result = CliRunner().invoke(main, words[1:])
        return result.exit_code, result.output
    assert words[0] == "python"
    line = [sys.executable, *words[1:]]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_readme_runs_as_printed(programs) -> None:
    shown = [block.partition("\n")[::2] for block in blocks(README, "console")]
    files = ["matmul.py", "predict.py", "total.py"]
    assert re.findall(r"\w+\.py", " ".join(line for line, _ in shown)) == files
    for file, (line, expected) in zip(files, shown, strict=True):
        if "import torch, triton" in Path(file).read_text():
            pytest.importorskip("triton")
        assert line.startswith("$ ") and expected.strip()
        status, printed = _run(shlex.split(line)[1:])
        assert status == ("RACY" in expected), printed
        assert_printed(expected, printed)


def test_a_race_is_shown_with_both_of_its_lines(programs) -> None:
    """The lines that the README prints are those of the load and the store."""
    (race,) = re.findall(r"race at total\.py:(\d+) and total\.py:(\d+)", README.read_text())
    lines = Path("total.py").read_text().splitlines()
    assert {"load(out)", "store(out"} == {
        part
        for number in race
        for part in ("load(out)", "store(out")
        if part in lines[int(number) - 1]
    }


def test_commands_of_the_first_screen() -> None:
    text = README.read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert text.index(f"`make {target}`") < 1500 and f"\n{target}:" in makefile


def test_links_of_the_front_pages_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "GOVERNANCE.md", "SECURITY.md"):
        text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#]+)", text):
            assert link.startswith("https://") or (ROOT / link).exists(), (page, link)
