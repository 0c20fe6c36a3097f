"""The table of seeded bugs fits the sources, and the tool that plants them tells what it finds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def seeded(monkeypatch):
    """The modules `run` and `table` of testing/seeded_bugs."""
    monkeypatch.syspath_prepend(str(ROOT / "testing" / "seeded_bugs"))
    import run
    import table

    yield run, table
    for name in ("run", "table"):
        sys.modules.pop(name, None)


@pytest.mark.nightly
def test_each_bug_is_found_by_its_text(seeded):
    run, table = seeded
    for bug in table.BUGS:
        assert run.place(bug, ROOT).exists() and bug.old != bug.new


def test_bugs_have_names_and_folders_of_their_own(seeded):
    _, table = seeded
    assert len({bug.name for bug in table.BUGS}) == len(table.BUGS)
    for bug in table.BUGS:
        for folder in bug.near.split():
            assert (ROOT / "testing" / "python" / folder).is_dir(), bug.name


def test_a_text_that_occurs_twice_is_refused(seeded, tmp_path: Path):
    run, table = seeded
    (tmp_path / "src").mkdir()
    (tmp_path / "tilelang").mkdir()
    (tmp_path / "src" / "a.cc").write_text("int x = 1; int y = 1;")
    assert run.place(table.Bug("n", "x = 1", "x = 2", ""), tmp_path).name == "a.cc"
    for text in ("= 1", "z"):
        with pytest.raises(ValueError, match=r"occurs [02] times"):
            run.place(table.Bug("n", text, "", ""), tmp_path)


def test_the_first_tier_that_fails_is_told_and_the_file_is_restored(seeded, tmp_path: Path):
    run, table = seeded
    (tmp_path / "tilelang").mkdir()
    (tmp_path / "src").mkdir()
    path = tmp_path / "tilelang" / "a.py"
    path.write_text("x = 1")

    seen = []

    class Copy:
        root = tmp_path

        def first_failure(self, tier, folders, own_library):
            seen.append((tier, tuple(folders), own_library, path.read_text()))
            return "t.py::test" if tier == "change" else None

    bug = table.Bug("n", "x = 1", "x = 2", "language")
    assert run.killed(bug, Copy(), near_only=False) == ("change", "t.py::test")
    assert seen == [(tier, ("language",), False, "x = 2") for tier in ("quick", "change")]
    assert path.read_text() == "x = 1"
    gone = table.Bug("n", "y", "", "language")
    assert run.killed(gone, Copy(), near_only=True)[0] == "-"
