"""Which parts of a program the user has frozen: no edit removes or changes them."""

from __future__ import annotations

import ast
import io
import tokenize

_NAME = "__freeze__"
_COMMENTS = {"freeze": "line", "freeze-start": "start", "end-freeze": "end"}


def mark_frozen(tree: ast.Module, source: str) -> None:
    """Sets ``frozen`` of each node that the program or its comments freeze, and of its children."""
    lines = _frozen_lines(source)
    for node in ast.walk(tree):
        if _says_so(node) or (isinstance(node, ast.stmt) and _lies_in(node, lines)):
            for inner in ast.walk(node):
                # Contexts and operators are objects that all trees share.
                if isinstance(inner, (ast.stmt, ast.expr)):
                    inner.frozen = True  # type: ignore[union-attr]
        if isinstance(node, ast.ImportFrom) and any(n.name == _NAME for n in node.names):
            node.frozen = True  # type: ignore[attr-defined]


def is_frozen(node: ast.AST) -> bool:
    """Whether no edit may change the node."""
    return getattr(node, "frozen", False)


def frozen_nodes(tree: ast.AST) -> int:
    """The number of frozen nodes of a tree."""
    return sum(is_frozen(node) for node in ast.walk(tree))


def _says_so(node: ast.AST) -> bool:
    """Whether the node is ``with __freeze__:`` or ``__freeze__(...)``."""
    if isinstance(node, ast.With):
        return any(_is_name(item.context_expr) for item in node.items)
    return isinstance(node, ast.Call) and _is_name(node.func)


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == _NAME


def _lies_in(node: ast.stmt, lines: set[int]) -> bool:
    return bool(lines) and lines.issuperset(range(node.lineno, (node.end_lineno or 0) + 1))


def _frozen_lines(source: str) -> set[int]:
    """The lines that comments freeze."""
    lines: set[int] = set()
    start: int | None = None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("# ")
        if token.type != tokenize.COMMENT or not text.startswith("autodd:"):
            continue
        kind = _COMMENTS.get(text.removeprefix("autodd:").strip())
        line = token.start[0]
        if kind == "line":
            lines.add(line)
        elif kind == "start":
            start = line
        elif kind == "end" and start is not None:
            lines.update(range(start, line + 1))
            start = None
    return lines
