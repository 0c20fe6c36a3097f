#!/usr/bin/env python3
"""Fails when a file or a function is longer than the project allows.

Limits, in lines: C++ functions 80, Python functions 60, files 600. A table (an atom table, a list
of opcodes) is excepted by a comment ``size-exempt: table``: in the first ten lines of a file for
the whole file, on the line above a function or inside it for that function.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tilelang", "testing", "examples", "benchmark", "scripts", "docs")
CPP_SUFFIXES = {".cc", ".h", ".cuh"}
FILE_LIMIT, CPP_LIMIT, PYTHON_LIMIT = 600, 80, 60
EXEMPT = "size-exempt: table"


class Function(NamedTuple):
    """A function definition: its name and its first and last line, counted from one."""

    name: str
    first: int
    last: int


def python_functions(source: str) -> Iterator[Function]:
    """Yields every function of Python ``source``, nested ones too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Function(node.name, node.lineno, node.end_lineno or node.lineno)


# Comments, literals and preprocessor lines: none of their braces count.
_NOISE = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'
      | ^[ \t]*\#(?:\\\n|[^\n])*""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_TYPE_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def _without_templates(header: str) -> str:
    """Drops ``template <...>`` so that its ``class`` does not look like a class definition."""
    while found := re.search(r"\btemplate\s*<", header):
        depth, end = 1, found.end()
        while end < len(header) and depth:
            depth += {"<": 1, ">": -1}.get(header[end], 0)
            end += 1
        header = header[: found.start()] + header[end:]
    return header


def _is_function(header: str) -> bool:
    header = _without_templates(header).strip()
    if "(" not in header or header.endswith("="):
        return False
    return not _TYPE_SCOPE.search(header.split("(", 1)[0])


def _is_scope(header: str) -> bool:
    header = _without_templates(header).strip()
    return bool(_TYPE_SCOPE.search(header)) and not header.endswith("=")


def _function_name(header: str) -> str:
    header = _without_templates(header)
    found = re.search(r"(\w+)\s*=\s*\[|(operator\s*\S+?|[~\w:]+)\s*\(", header)
    return (found.group(1) or found.group(2)) if found else "?"


def _matching_brace(text: str, start: int) -> int:
    """Returns the index of the brace that closes the one at ``start`` (or the end of text)."""
    depth = 0
    for index in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return len(text) - 1


def cpp_functions(source: str) -> Iterator[Function]:
    """Yields the outermost functions of C++ ``source``: free, member and lambda ones.

    Namespaces and classes are looked into; everything else between braces belongs to the
    definition that the text before the brace starts.
    """
    text = _NOISE.sub(_blank, source)
    index = start = parens = 0
    while index < len(text):
        char = text[index]
        parens += {"(": 1, ")": -1}.get(char, 0)
        if char in ";}" and parens <= 0:
            start, parens = index + 1, 0
        elif char == "{":
            header = text[start:index]
            if parens <= 0 and _is_scope(header) and not _is_function(header):
                start = index + 1
            else:
                end = _matching_brace(text, index)
                # `: field_{x}, ...` and `f(A a = {})`: the definition goes on after the brace.
                goes_on = parens > 0 or re.match(r"\s*[,{]", text[end + 1 : end + 200])
                if not goes_on:
                    if _is_function(header):
                        lead = len(header) - len(header.lstrip())
                        first = text.count("\n", 0, start + lead) + 1
                        yield Function(_function_name(header), first, text.count("\n", 0, end) + 1)
                    start = end + 1
                index = end
        index += 1


def violations(path: Path) -> Iterator[str]:
    """Yields one message for each limit that ``path`` breaks."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    if any(EXEMPT in line for line in lines[:10]):
        return
    if len(lines) > FILE_LIMIT:
        yield f"{path}: {len(lines)} lines; the limit for a file is {FILE_LIMIT}"
    is_python = path.suffix == ".py"
    limit = PYTHON_LIMIT if is_python else CPP_LIMIT
    for function in (python_functions if is_python else cpp_functions)(source):
        length = function.last - function.first + 1
        body = lines[max(0, function.first - 2) : function.last]
        if length > limit and not any(EXEMPT in line for line in body):
            yield f"{path}:{function.first}: {function.name} has {length} lines; limit {limit}"


def source_files(folders: tuple[str, ...] = FOLDERS) -> Iterator[Path]:
    """Yields the C++ and Python sources below ``folders`` of the project."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in CPP_SUFFIXES | {".py"} and "_build" not in path.parts:
                yield path


def main() -> int:
    paths = [Path(arg) for arg in sys.argv[1:]] or list(source_files())
    messages = [message for path in paths for message in violations(path)]
    print("\n".join(messages) or f"sizes: {len(paths)} files within the limits")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
