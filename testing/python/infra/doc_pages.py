"""The pages of docs/: the code that they show, what it prints, and the commands beside it."""

from __future__ import annotations

import ast
import functools
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
#: Pages of the language reference.
REFERENCE = sorted((DOCS / "reference").glob("[!i]*.md"))
#: Everything that Sphinx renders but what it generates.
PAGES = sorted(page for folder in (DOCS, DOCS / "reference") for page in folder.glob("*.md"))


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
