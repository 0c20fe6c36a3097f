"""The README runs as it stands there, and the front pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner
from infra.doc_pages import ROOT, code

from tilelang.cli import main


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
