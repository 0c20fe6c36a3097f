"""The names of the language, and which tests use them.

``names.txt`` lists the names below ``T`` by category, ``modules.txt`` those below ``tilelang``,
each with the number of known programs that use it.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

import make_reference
import make_stubs
from infra.doc_pages import DOCS

import tilelang.language as T
from tilelang import errors

HERE = Path(__file__).parent
TESTS = HERE.parent
# Tests of names alone, and of programs that are refused: they run nothing.
_RUN_NOTHING = ("language/test_names.py", "conformance/test_surface.py", "errors/")

# A cross-reference of Sphinx, which Markdown does not know.
_ROLE = re.compile(r":\w+:`~?([^`]*)`")


class Name(NamedTuple):
    """A name, the heading it stands under, and how many known programs use it."""

    name: str
    category: str
    programs: int


@functools.cache
def names() -> tuple[Name, ...]:
    """Every name below ``T``."""
    found, category = [], ""
    for line in (HERE / "names.txt").read_text().splitlines():
        if line.startswith("["):
            category = line.strip("[]")
        elif line and not line.startswith("#"):
            name, programs = line.split()
            found.append(Name(name, category, int(programs)))
    return tuple(found)


@functools.cache
def modules() -> dict[str, int]:
    """Every name below ``tilelang``, with the number of programs."""
    lines = (HERE / "modules.txt").read_text().splitlines()
    return {line.split()[0]: int(line.split()[1]) for line in lines if not line.startswith("#")}


def _used(tree: ast.AST) -> set[str]:
    """What is written ``T.name`` in a piece of source, or a string that is the name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == "T":
                found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


@functools.cache
def users() -> dict[str, str]:
    """Name -> ``file::function`` of the first test, or kernel of a test, that uses it."""
    found: dict[str, str] = {}
    for path in sorted(TESTS.rglob("*.py"), key=lambda p: ("conformance" not in p.parts, p)):
        place = path.relative_to(TESTS).as_posix()
        if place.startswith(_RUN_NOTHING):
            continue
        for node in ast.parse(path.read_text()).body:
            where = f"{place}::{node.name}" if hasattr(node, "name") else place
            for name in _used(node):
                found.setdefault(name, where)
    return found


def _link(name: str) -> str:
    """Returns a link to the page of the reference that describes a name, or nothing."""
    if name not in make_stubs.names():
        return ""
    home = make_reference.home_of(name)
    title = (DOCS / "reference" / f"{home}.md").read_text().partition("\n")[0].removeprefix("# ")
    return f"[{title}](../reference/{home}.md)"


def _entry(name: str) -> str:
    """Returns the row of a name: what it is and its page, or why it is refused."""
    try:
        value = getattr(T, name)
    except errors.UnsupportedError as refusal:
        return f"| `T.{name}` | *refused*: {'; '.join(note.text for note in refusal.notes)} | |"
    described = callable(value) and not isinstance(value, str)
    first = (value.__doc__ or "").strip().split("\n\n")[0] if described else "a type"
    line = _ROLE.sub(r"`\1`", " ".join(first.split())).replace("|", "\\|")
    return f"| `T.{name}` | {line} | {_link(name)} |"


def page() -> str:
    """The page of the documentation that lists every name, by category."""
    parts = ["# All names", "Every name of the language: what it is, and the page that shows it."]
    for category in dict.fromkeys(each.category for each in names()):
        rows = [_entry(each.name) for each in names() if each.category == category]
        parts.append(f"## {category.capitalize()}")
        parts.append("\n".join(["| name | what it is | page |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"
