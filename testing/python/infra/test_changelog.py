"""The fragments of the changelog, and the tool that assembles them."""

from __future__ import annotations

import re
from pathlib import Path

import changelog
import pytest

import tilelang

ROOT = Path(__file__).resolve().parents[3]
LOG = """# Changelog

## [Unreleased]

### Added

- Old.

## [0.1.0] - 2025-01-01

- First.
"""


def fragment(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.md").write_text(text)


def test_fragments_are_grouped_and_wrapped(tmp_path: Path):
    long = "A sentence " + "with many words " * 10 + "ends."
    fragment(tmp_path, "b", "### Fixed\n\nOne.\n")
    fragment(tmp_path, "a", f"### Fixed\n{long}\n")
    fragment(tmp_path, "c", "### Added\nTwo\nlines.\n")
    text = changelog.section(changelog.read(tmp_path))
    lines = text.splitlines()
    assert lines[:5] == ["### Added", "", "- Two lines.", "", "### Fixed"]
    assert max(map(len, lines)) <= 100 and lines[-1] == "- One."
    assert " ".join(" ".join(lines[6:-1]).split()) == f"- {long}"
    assert changelog.section({}) == ""


@pytest.mark.parametrize(
    "text", ["", "Fixed\n\nx.", "### Repaired\nx.", "### Fixed\n", "### Fixed\nx.\n### Added\ny."]
)
def test_what_is_no_fragment_is_refused_by_name(tmp_path: Path, text: str):
    fragment(tmp_path, "wrong", text)
    with pytest.raises(changelog.FragmentError, match=r"wrong\.md"):
        changelog.read(tmp_path)


def test_a_release_takes_what_is_unreleased():
    text = changelog.release(LOG, "0.2.0", "2026-02-03", "### Fixed\n\n- New.\n")
    assert text == LOG.replace(
        "## [Unreleased]\n", "## [Unreleased]\n\n## [0.2.0] - 2026-02-03\n"
    ).replace("- Old.\n", "- Old.\n\n### Fixed\n\n- New.\n")
    assert changelog.release(text, "0.3.0", "2026-03-03", "- X.").count("## [") == 4
    with pytest.raises(changelog.FragmentError, match="already"):
        changelog.release(text, "0.2.0", "2026-02-03", "")
    with pytest.raises(changelog.FragmentError, match="Unreleased"):
        changelog.release("# Changelog\n", "0.2.0", "2026-02-03", "")


def test_the_fragments_of_the_project_are_right():
    for texts in changelog.read(ROOT / "changes").values():
        for text in texts:
            assert text.endswith("."), text


def test_the_latest_release_is_the_version_of_the_package():
    latest = re.search(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert latest and cited and latest[1] == cited[1] == tilelang.__version__
