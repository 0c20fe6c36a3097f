"""What pages about the source name is there: files, folders, classes and functions."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("docs/internals.md", "docs/ordering.md", "docs/glossary.md", "CONTRIBUTING.md")
#: where a path of a page may begin
BASES = ("", "src", "src/emulator", "testing/python")
#: what is there only when it was made, and names that stand for any
MADE = {"docs/_build/html", "golden/name.txt", ".venv", "libtilelang.so"}
_SOURCES = ("src", "tilelang", "tilelang_pytest", "testing", "scripts")
_SUFFIXES = (".cc", ".h", ".py", ".md", ".txt", ".cu", ".cuh")
_PATH = re.compile(r"[\w.*-]*/[\w./*-]*|[\w-]+\.(?:cc|h|py|md|txt)")
_NAME = re.compile(r"(?:\w+::)*[A-Z]\w*[a-z]\w*(?:::\w+)*|[a-z]+(?:_[a-z0-9]+)+")


def spans(page: str) -> list[str]:
    """The inline code of a page."""
    text = (ROOT / page).read_text()
    if page.endswith("glossary.md"):  # a directive of reStructuredText
        return re.findall(r"``([^`]+)``", text)
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


@cache
def files() -> frozenset[str]:
    """The names of all files of the sources, the documentation, the benchmarks and the root."""
    folders = (*_SOURCES, "docs", "benchmark", "examples")
    found = {path.name for folder in folders for path in (ROOT / folder).rglob("*.*")}
    return frozenset(found | {path.name for path in ROOT.glob("*.*")})


@cache
def words() -> frozenset[str]:
    """The identifiers of the sources."""
    found: set[str] = set()
    for folder in _SOURCES:
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in (".cc", ".h", ".py") and path.name != Path(__file__).name:
                found.update(re.findall(r"\w+", path.read_text()))
    return frozenset(found)


def missing(span: str) -> bool:
    """Whether a span names a path, a class or a function, and there is none."""
    if span in MADE or "<" in span:
        return False
    if _PATH.fullmatch(span):
        if "/" not in span:
            return span not in files()
        return not any(list((ROOT / base).glob(span.strip("/"))) for base in BASES)
    if _NAME.fullmatch(span):
        return any(part not in words() for part in span.split("::"))
    return False


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    found = [span for span in spans(page) if missing(span)]
    assert not found, f"{page} names what is not in the tree"


def test_what_is_gone_is_found() -> None:
    gone = ("sync/held_waits.cc", "store_waits.cc", "order::HeldWait", "src/nowhere", "sync_calls")
    assert all(missing(span) for span in gone)
    there = ("sync/write_waits.cc", "bulk_stores.cc", "order::Graph", "src/op/gemm_*", "sync_range")
    assert not any(missing(span) for span in there)


def test_the_tree_of_the_contributing_guide() -> None:
    """Each folder of ``src`` has its line, and each line its folder."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tree = text.partition("## The tree")[2].partition("```")[2].partition("```")[0]
    listed = {line.split()[0].strip("/") for line in tree.splitlines() if line[:1].strip()}
    assert all((ROOT / folder).is_dir() for folder in listed)
    rooms = {f"src/{path.name}" for path in (ROOT / "src").iterdir() if path.is_dir()}
    assert rooms <= {"/".join(folder.split("/")[:2]) for folder in listed}
    block = tree[tree.index("src/emulator/") :].partition("tilelang/ ")[0]
    emulator = set(re.findall(r"(\w+)/", block)) - {"src", "emulator"}
    assert emulator == {p.name for p in (ROOT / "src/emulator").iterdir() if p.is_dir()}


def test_the_rooms_of_the_emulator() -> None:
    """The table of docs/internals.md has each once."""
    text = (ROOT / "docs/internals.md").read_text().partition("## The rooms of the emulator")[2]
    listed = re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE)
    assert sorted(listed) == sorted(p.name for p in (ROOT / "src/emulator").iterdir() if p.is_dir())


@pytest.mark.parametrize("house", ["src", "src/emulator"])
def test_no_file_has_the_name_of_one_in_another_room(house: str) -> None:
    """The compiler and the emulator are two houses; ``ffi.cc`` is what a room gives to Python."""
    rooms: dict[str, set[str]] = {}
    for room in (ROOT / house).iterdir():
        apart = house == "src" and room.name in ("emulator", "tl_templates")
        for path in () if apart else room.glob("*.*"):
            if path.stem != "ffi":
                rooms.setdefault(path.stem, set()).add(room.name)
    assert {name: where for name, where in rooms.items() if len(where) > 1} == {}
