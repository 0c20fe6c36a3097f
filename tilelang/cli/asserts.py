"""Finds out whether a script compares its results."""

from __future__ import annotations

import ast
import re

#: Names of functions that compare, or end a script where a result is wrong.
_COMPARES = re.compile(
    r"assert|allclose|isclose|equal|check|verify|validat|compare|correct|test|^(sys\.)?exit$", re.I
)


def compares(text: str) -> bool:
    """Tells whether a script may find a result wrong: by ``assert``, ``raise``, or a function.

    A function counts if its name says so, as ``torch.testing.assert_close`` or ``check_output``.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False
    return any(
        isinstance(node, ast.Assert | ast.Raise)
        or (isinstance(node, ast.Call) and _COMPARES.search(_name(node.func)))
        for node in ast.walk(tree)
    )


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return f"{_name(function.value)}.{function.attr}".lstrip(".")
    return function.id if isinstance(function, ast.Name) else ""
