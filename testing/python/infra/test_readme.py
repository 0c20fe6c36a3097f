"""The examples of the README and of the first guide are run as they stand there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from infra.reference_pages import ROOT, code

from tilelang.cli import main


def run_examples(page: str, folder: Path, **names: Any) -> None:
    """Runs all Python on a page as one script; ``names`` are what its readers have already."""
    text = code(ROOT / page)
    assert text
    script = folder / "example.py"  # a kernel is read from its source: it needs a file
    script.write_text(text)
    runpy.run_path(str(script), init_globals=names)


def _shape(text: str) -> list[str]:
    """The words of each line without numbers, which follow the compiler and the timing model."""
    return [re.sub(r"[0-9.]+", "0", line).strip() for line in text.splitlines()]


def test_the_readme_runs_as_printed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("matmul.py").write_text(code(ROOT / "README.md"))  # compares with torch itself
    result = CliRunner().invoke(main, ["check", "matmul.py", "--target", "sm_100a"])
    assert result.exit_code == 0, result.output
    shown = re.search(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown
    expected = _shape(shown[1])[:-1]  # which line takes longest follows the compiler
    assert _shape(result.output)[: len(expected)] == expected


def test_links_of_the_front_pages_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"):
        for link in re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text()):
            assert link.startswith("https://") or (ROOT / link).exists(), (page, link)


def test_the_first_guide_adds(tmp_path: Path, capsys) -> None:
    run_examples("docs/getting_started.md", tmp_path)  # compares with torch itself
    printed = capsys.readouterr().out
    assert "__global__" in printed and ".entry" in printed


def test_the_guide_to_eager_functions_runs(tmp_path: Path, capsys) -> None:
    run_examples("docs/eager.md", tmp_path)
    assert "A: float16[128, 64]" in capsys.readouterr().out


def test_the_guide_to_autotuning_runs(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    run_examples("docs/autotuning.md", tmp_path)
    printed = capsys.readouterr().out
    assert "of 3 candidates" in printed and "threads=256" in printed


def test_the_guide_to_the_language_runs(tmp_path: Path) -> None:
    run_examples("docs/language.md", tmp_path)  # compares with torch itself


def test_the_guide_for_programs_of_tilelang_runs(tmp_path: Path) -> None:
    run_examples("docs/migration.md", tmp_path)


def test_the_guide_to_reductions_runs(tmp_path: Path) -> None:
    run_examples("docs/reductions.md", tmp_path)  # compares with torch itself
