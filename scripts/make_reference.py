"""The names of the language for the pages of ``docs/reference``: what Sphinx indexes and links.

Each name is described on the page that shows it first: its signature, its docstring, and the lines
of the page's code that use it, with a link to the section they stand in.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import make_stubs

import tilelang.language as T

sys.path.insert(0, str(make_stubs.ROOT / "testing" / "python"))

from infra.doc_pages import REFERENCE, shown

# Classes that signatures name.
_CLASSES = frozenset({"Buffer", "DType", "Fragment", "Func", "Layout", "Loop", "Region", "Var"})
# Longer statements are cut to their first lines.
_LINES = 8


class Example(NamedTuple):
    """Lines that use a name.

    Attributes:
        text: of a statement, without its indentation.
        section: the heading that they stand below.
    """

    text: str
    section: str


def _name_of(node: ast.AST) -> str | None:
    """The name below ``T`` that a node uses, or that stands in a string."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr if node.value.id == "T" else None
    return None


def _statements(node: ast.AST, statement: ast.stmt | None, found: dict[str, ast.stmt]) -> None:
    """Finds the innermost statement in which each name is used first."""
    name = _name_of(node)
    if name is not None and statement is not None:
        found.setdefault(name, statement)
    for child in ast.iter_child_nodes(node):
        _statements(child, child if isinstance(child, ast.stmt) else statement, found)


def _lines(source: str, statement: ast.stmt) -> str:
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    lines = source.splitlines()[first - 1 : statement.end_lineno]
    kept = lines[:_LINES] + (["    " * 3 + "..."] if len(lines) > _LINES else [])
    return inspect.cleandoc("\n".join(kept)) if kept[0].startswith(" ") else "\n".join(kept)


def examples(page: Path) -> dict[str, Example]:
    """What a page shows of each name, by the name."""
    found: dict[str, Example] = {}
    section = ""
    for part in re.split(r"^(## .*)$", page.read_text(), flags=re.MULTILINE):
        if part.startswith("## "):
            section = part[3:]
            continue
        for block in re.findall(r"^```python\n(.*?)^```", part, re.DOTALL | re.MULTILINE):
            statements: dict[str, ast.stmt] = {}
            _statements(ast.parse(block), None, statements)
            for name, statement in statements.items():
                found.setdefault(name, Example(_lines(block, statement), section))
    return found


def _anchor(section: str) -> str:
    """The fragment that MyST gives a heading."""
    return re.sub(r"[^\w\- ]", "", section.lower()).replace(" ", "-")


def _example(example: Example) -> str:
    link = f" (`{example.section} <#{_anchor(example.section)}>`__)" if example.section else ""
    indented = "\n".join(f"      {line}".rstrip() for line in example.text.splitlines())
    return f"   Example{link}:\n\n   .. code-block:: python\n\n{indented}\n"


def describe(name: str, docstring: Any, example: Example) -> str:
    """Returns the directive of a name, indexed as ``T.name`` and ``tilelang.language.name``.

    Args:
        name: below ``T``.
        docstring: gives reStructuredText of a docstring.
        example: what uses it.
    """
    value = getattr(T, name)
    is_function, is_class = inspect.isfunction(value), inspect.isclass(value)
    kind = "class" if is_class else "function" if is_function else "data"
    signature = (
        make_stubs.signature(value, _CLASSES).replace("builtins.", "") if is_function else ""
    )
    head = f".. py:{kind}:: T.{name}{signature}"
    body = docstring(inspect.cleandoc(value.__doc__ or "")) if is_function or is_class else ""
    parts = [head, f"   :canonical: tilelang.language.{name}"]
    if kind == "data":
        parts.append(f"   :type: {type(value).__name__}")
    lines = "\n".join(f"   {line}".rstrip() for line in body.splitlines())
    return "\n".join(parts) + f"\n\n{lines}\n\n{_example(example)}\n"


# The page on which the names of a module are described, where it shows them.
_HOMES = {
    "allocate": "memory", "view": "memory", "annotations": "memory", "atomics": "memory",
    "copy": "tiles", "gemm": "tiles", "reduce": "tiles", "reducer": "tiles", "scan": "tiles",
    "kernel": "functions", "function": "functions", "tensor": "functions", "eager": "functions",
    "loops": "loops", "scheduler": "loops", "sync": "threads", "threads": "threads",
    "cluster": "threads", "copy_async": "asynchronous",
}  # fmt: skip


def home_of(name: str) -> str:
    """Returns the stem of the page that describes a name: that of its concept, else the first."""
    value = getattr(T, name)
    module = getattr(value, "__module__", None) or type(value).__module__
    home = _HOMES.get(module.rpartition(".")[2])
    stems = [page.stem for page in REFERENCE if name in shown(page)]
    return home if home in stems else stems[0]


def pages(docstring: Any) -> dict[str, str]:
    """Returns the text of each page's names as MyST, by the page's stem."""
    homes = {name: home_of(name) for name in make_stubs.names()}
    found = {}
    for page in REFERENCE:
        names = sorted((n for n, home in homes.items() if home == page.stem), key=str.lower)
        shows = examples(page)
        parts = [describe(name, docstring, shows[name]) for name in names]
        found[page.stem] = "```{eval-rst}\n" + "\n".join(parts) + "```\n"
    return found
