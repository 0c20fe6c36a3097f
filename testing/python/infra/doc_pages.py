"""The pages of docs/: the code that they show, what it prints, and the commands beside it."""

from __future__ import annotations

import ast
import functools
import math
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
#: Pages of the language reference.
REFERENCE = sorted((DOCS / "reference").glob("[!i]*.md"))
#: Everything that Sphinx renders but what it generates.
PAGES = sorted(page for folder in (DOCS, DOCS / "reference") for page in folder.glob("*.md"))

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# Models and compilers change a little; what is off by more is another story than the page tells.
_NEAR = {"rel_tol": 0.25, "abs_tol": 3}


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language on a page, in order."""
    fence = rf"^```{language}\n(.*?)^```"
    return re.findall(fence, page.read_text(), re.DOTALL | re.MULTILINE)


def code(page: Path) -> str:
    """All Python on a page, as one script."""
    return "\n".join(blocks(page, "python"))


def commands(page: Path) -> list[list[str]]:
    """The command lines on a page that a reader of the page can give, but for the installation."""
    lines = [line for block in blocks(page, "sh") for line in _joined(block)]
    for block in blocks(page, "console"):
        lines += [line[2:] for line in _joined(block) if line.startswith("$ ")]
    words = [shlex.split(line, comments=True) for line in lines]
    return [each for each in words if each and each[0] in ("python", "tilelang", "pytest")]


def _joined(block: str) -> list[str]:
    return block.replace("\\\n", " ").splitlines()


@functools.cache
def shown(page: Path) -> set[str]:
    """The names ``T.x`` in the code of a page, and those in strings that begin with underscores."""
    found = set()
    for node in ast.walk(ast.parse(code(page))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {node.attr} if node.value.id == "T" else set()
        elif isinstance(node, ast.Constant) and str(node.value).startswith("__"):
            found.add(node.value)
    return found


def _alike(expected: str, line: str) -> bool:
    """Whether a line says the same, with numbers that are near."""
    if _NUMBER.sub("0", expected).split() != _NUMBER.sub("0", line).split():
        return False
    pairs = zip(_NUMBER.findall(expected), _NUMBER.findall(line), strict=True)
    return all(math.isclose(float(a), float(b), **_NEAR) for a, b in pairs)


def assert_printed(expected: str, printed: str) -> None:
    """The lines of a block come in this order, with others between them where it has ``...``."""
    lines = iter(printed.splitlines())
    for wanted in expected.splitlines():
        if wanted.strip() not in ("", "..."):
            assert any(_alike(wanted, line) for line in lines), f"{wanted!r} is not in\n{printed}"
