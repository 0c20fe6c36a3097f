"""Finds the syntax tree of a Python function in its file."""

from __future__ import annotations

import ast
import linecache
import sys
from types import FunctionType

from ... import errors

Definitions = dict[tuple[str, int], ast.FunctionDef]
# The definitions of each file by name and first line, with the lines they were parsed from.
_files: dict[str, tuple[list[str], Definitions]] = {}


def _parse(filename: str, lines: list[str]) -> Definitions:
    try:
        tree = ast.parse("".join(lines), filename)
    except SyntaxError:  # the file has changed since it was imported
        return {}
    found = {}
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found[node.name, first] = node
        # Definitions are statements: expressions need not be searched.
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, part, None)
            if isinstance(inner, list):
                pending += inner
    return found


def _lines(filename: str) -> list[str]:
    """The lines of a file, of a notebook's cell, or of what follows ``python -c``."""
    linecache.checkcache(filename)
    lines = linecache.getlines(filename)
    if not lines and filename == "<string>" and "-c" in sys.orig_argv[:-1]:
        text = sys.orig_argv[sys.orig_argv.index("-c") + 1]
        linecache.cache[filename] = len(text), None, text.splitlines(True), filename
    return lines or linecache.getlines(filename)


def definition(function: FunctionType) -> ast.FunctionDef:
    """Returns the definition of ``function``, with the lines and columns of its file.

    The tree is the caller's: it may be changed.

    Raises:
        UnsupportedSyntaxError: there is no source to read (``exec``, a lambda, a changed file).
    """
    code = function.__code__
    filename, key = code.co_filename, (code.co_name, code.co_firstlineno)
    lines = _lines(filename)
    cached_lines, definitions = _files.get(filename, (None, {}))
    if cached_lines is not lines or key not in definitions:
        definitions = _parse(filename, lines)
        _files[filename] = (lines, definitions)
    node = definitions.pop(key, None)
    if node is None:
        raise errors.UnsupportedSyntaxError(
            f"the source of function {function.__name__!r} cannot be read",
            span=errors.Span(filename, code.co_firstlineno),
            notes=[
                "kernels are compiled from their Python source: define them with `def` in a file "
                "or a notebook cell, not through exec or lambda",
                "at Python's prompt and on its standard input: put them into a file and import it",
                "with exec: give the text a name, `linecache.cache[name] = (len(text), None, "
                "text.splitlines(True), name)`, and run exec(compile(text, name, 'exec'))",
            ],
        )
    return node
