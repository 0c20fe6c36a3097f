"""The pages of the language reference, and the names that their code shows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted((ROOT / "docs" / "reference").glob("[!i]*.md"))


def code(page: Path) -> str:
    """All Python on a page, as one script."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return "\n".join(blocks)


def shown(page: Path) -> set[str]:
    """The names ``T.x`` in the code of a page, and those in strings that begin with underscores."""
    found = set()
    for node in ast.walk(ast.parse(code(page))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {node.attr} if node.value.id == "T" else set()
        elif isinstance(node, ast.Constant) and str(node.value).startswith("__"):
            found.add(node.value)
    return found
