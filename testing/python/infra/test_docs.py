"""What the pages of docs/ show runs as it stands there: code, what it prints, and commands.

The Python of a page is one script, as a reader would type it from top to bottom; blocks of
``output`` are what it prints. Commands run afterwards, in the same folder, where the script is
``kernel.py``.
"""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import draw_concepts
import draw_speed
import pytest
import render_tables
import torch
from click.testing import CliRunner
from infra.doc_pages import DOCS, PAGES, ROOT, assert_printed, blocks, code, commands

from tilelang.cli import main
from tilelang.emulator import options
from tilelang.emulator.timing.accuracy import BLACKWELL

#: Pages whose commands and profiles take most of the time of all pages.
_LONG = ("blackwell", "emulator_ci", "examples", "foreign_kernels")
_DRAWN = {**draw_concepts.PICTURES_OF, **draw_speed.PICTURES_OF}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private_cache: Path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with options(letters="count"):  # a reader has the defaults
        yield


def _run(words: list[str]) -> None:
    if words[0] == "tilelang":
        result = CliRunner().invoke(main, words[1:])
        assert result.exit_code == 0, (words, result.output)
        return
    module = ["-m", "pytest"] if words[0] == "pytest" else []
    line = [sys.executable, *module, *words[1:]]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)


def _name(page: Path) -> str:
    return str(page.relative_to(DOCS).with_suffix(""))


def _cases() -> list:
    nightly = {"marks": pytest.mark.nightly}
    return [pytest.param(page, **(nightly if _name(page) in _LONG else {})) for page in PAGES]


@pytest.mark.budget(60)  # each page has code of its own
@pytest.mark.parametrize("page", _cases(), ids=_name)
def test_what_the_page_shows_runs(page: Path, capsys) -> None:
    if code(page):
        torch.manual_seed(0)  # data of pages are random: the same in every run
        Path("kernel.py").write_text(code(page))  # a kernel is read from its source
        runpy.run_path("kernel.py", run_name="__main__")
    printed = capsys.readouterr().out
    for block in blocks(page, "output"):
        assert_printed(block, printed)
    for words in commands(page):
        _run(words)


def test_lines_are_compared_with_their_numbers() -> None:
    assert_printed("time 10.5 us\n...\nend", "begin\ntime   11 us\nmore\nend\n")
    for wrong in ("time 20 us", "time 10 ms", "end\ntime 10.5 us"):
        with pytest.raises(AssertionError):
            assert_printed(wrong, "time 10.5 us\nend\n")


@pytest.mark.parametrize("name", _DRAWN)
def test_pictures_are_current(name) -> None:
    assert (DOCS / "pictures" / name).read_text() == _DRAWN[name]()


@pytest.mark.parametrize("page", render_tables.PAGES, ids=_name)
def test_tables_are_current(page: Path) -> None:
    assert render_tables.rendered(page.read_text()) == page.read_text()


def test_tables_are_rendered_between_their_marks() -> None:
    page = "<!-- table published_errors -->\nold\n<!-- end of table -->\nkept\n"
    assert "old" not in render_tables.rendered(page) and page[-5:] == "kept\n"
    assert re.search(
        r"^\| GEMM( \| \d+( \| \d+\.\d %){2}){2} \|$", render_tables.rendered(page), re.M
    )
    with pytest.raises(KeyError, match="unknown"):
        render_tables.rendered(page.replace("published_errors", "unknown"))


def test_the_model_tells_the_errors_of_the_table() -> None:
    summary = json.loads((ROOT / "benchmark/results/published_b200.json").read_text())["summary"]
    rows = {
        row["class"]: row for row in summary
        if not row["agreeing rows only"] and (row["gpu"], row["half"]) == ("B200, GB200", "once")
    }  # fmt: skip
    for row in BLACKWELL:
        found = rows[row.kind]
        assert row.rows == found["rows"]
        assert (row.median, row.p90) == (round(found["median"], 3), round(found["p90"], 3))


def test_a_plot_shows_the_ratios_of_its_table() -> None:
    plot = draw_speed.Plot("title", "gemm", ("ours", "theirs"))
    rows = [
        {"shape": "7 x 9", "library": "5", "ours": "6 (1.2)", "theirs": ""},
        {"shape": "8 x 9", "library": "5", "ours": "10 (2.0)", "theirs": "4 (0.8)"},
    ]
    drawn = draw_speed.draw(plot, rows)
    assert drawn.count('r="4.5"') == 3 and "7 x 9" in drawn and ">2</text>" in drawn
    ratios = [render_tables.ratio(cell) for cell in ("6 (1.2)", "0.97", "603", "")]
    assert ratios == [1.2, 0.97, None, None]


@pytest.mark.parametrize("folder", render_tables.FOLDERS)
def test_each_table_names_a_day_a_device_and_a_commit(folder: str) -> None:
    pages = "".join(page.read_text() for page in render_tables.PAGES)
    tables = re.findall(rf"<!-- table {folder}_(\w+) -->", pages)
    files = sorted((ROOT / "benchmark" / "results" / folder).glob("*.json"))
    assert sorted({*tables} - {"summary"}) == [path.stem for path in files]
    for path in files:
        found = json.loads(path.read_text())
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"]), path
        assert re.fullmatch(r"[0-9a-f]{12}", found["commit"]), path
        assert found["device"] and found["command"] if folder == "timing" else found["device"], path


def test_the_page_on_speed_has_no_table_without_a_file() -> None:
    page = (DOCS / "speed.md").read_text()
    outside = re.sub(r"(?s)<!-- table .*?<!-- end of table -->", "", page)
    assert not re.search(r"^\|", outside, re.M)


def test_the_row_of_an_instruction_stands_in_the_emulator() -> None:
    page = (DOCS / "internals.md").read_text()
    row = re.findall(r"```text\n({\.families.*?)```", page, re.DOTALL)[0]
    rows = (ROOT / "src" / "emulator" / "isa" / "arithmetic_rows.cc").read_text()
    assert "".join(row.split()) in "".join(rows.split())


def test_every_block_of_code_says_what_it_is() -> None:
    known = {"python", "output", "sh", "console", "text", "toml", "yaml", "cuda"}
    for page in PAGES:
        opened = re.findall(r"^```(\S*)\n.*?^```$", page.read_text(), re.DOTALL | re.MULTILINE)
        assert {name for name in opened if not name.startswith("{")} <= known, page
