"""Shows compiler passes on one page: source, passes, CUDA C++ and PTX side by side."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from ..jit.kernel import JITKernel
from .passes import Pass

#: A comment in the generated CUDA C++ names the Python line of the code below it.
_CUDA_PLACE = re.compile(r"^\s*// (\S+\.py):(\d+)$")
_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"')
_PTX_PLACE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")


def page(title: str, passes: Sequence[Pass], kernels: Sequence[JITKernel]) -> str:
    """Returns the page as HTML that needs no other file and no network."""
    parts = [_section(name, passes, kernels) for name in dict.fromkeys(p.kernel for p in passes)]
    style, script = _resource("passes.css"), _resource("passes.js")
    return (
        f"<!doctype html><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{style}</style><h1>{escape(title)}</h1>"
        f"<p class='hint'>Click a line to mark the code that it becomes in all columns. "
        f"The keys j and k select the next and the previous pass.</p>"
        f"{''.join(parts)}<script>{script}</script>"
    )


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _section(name: str, passes: Sequence[Pass], kernels: Sequence[JITKernel]) -> str:
    own = [each for each in passes if each.kernel == name]
    files = dict.fromkeys(
        place.rpartition(":")[0] for each in own for place in each.places if place
    )
    names = {Path(file).name: file for file in files}
    columns = [("Source", _source(files))]
    choice = "".join(
        f"<option value={index}>{each.number:02d} {escape(each.name)} "
        f"({each.milliseconds:.1f} ms)</option>"
        for index, each in enumerate(own)
    )
    programs = "".join(f"<div class='pass' hidden>{_lines(_marked(each))}</div>" for each in own)
    columns.append((f"<select>{choice}</select>", programs))
    found = next((each for each in kernels if each.name == name), None)
    if found is not None:
        columns.append(("CUDA C++", _lines(_cuda(found.get_kernel_source(), names))))
        columns.append(("PTX", _lines(_ptx(found.get_ptx(), names))))
    inner = "".join(
        f"<div class='column'><h3>{head}</h3><div class='code'>{body}</div></div>"
        for head, body in columns
    )
    return f"<h2>{escape(name)}</h2><div class='columns'>{inner}</div>"


def _source(files: Iterable[str]) -> str:
    parts = []
    for file in files:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        numbered = [(line, f"{file}:{i}", "") for i, line in enumerate(text.splitlines(), 1)]
        parts.append(f"<h4>{escape(Path(file).name)}</h4>{_lines(numbered)}")
    return "".join(parts)


def _lines(lines: Iterable[tuple[str, str, str]]) -> str:
    """Returns lines of code as HTML; each is a text, its Python line, and a class."""
    return "".join(
        f"<div class='{kind}' data-at='{escape(place)}'>{escape(text) or '&nbsp;'}</div>"
        for text, place, kind in lines
    )


def _marked(each: Pass) -> list[tuple[str, str, str]]:
    """Returns the lines of a program, with lines that the pass has removed and added."""
    before, after = each.before.splitlines(), each.text.splitlines()
    if not before:
        return [(text, place, "") for text, place in zip(after, each.places, strict=False)]
    found: list[tuple[str, str, str]] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, begin, end, first, last in matcher.get_opcodes():
        if kind != "equal":
            found += [(text, "", "old") for text in before[begin:end]]
        style = "" if kind == "equal" else "new"
        found += [(after[i], each.places[i], style) for i in range(first, last)]
    return found


def _cuda(text: str, names: dict[str, str]) -> list[tuple[str, str, str]]:
    found, place = [], ""
    for line in text.splitlines():
        match = _CUDA_PLACE.match(line)
        if match:
            place = f"{names.get(Path(match[1]).name, match[1])}:{match[2]}"
        elif not line.strip() or line.startswith("}"):
            place = ""
        found.append((line, place, ""))
    return found


def _ptx(text: str, names: dict[str, str]) -> list[tuple[str, str, str]]:
    lines = text.splitlines()
    files = {match[1]: match[2] for line in lines if (match := _PTX_FILE.match(line))}
    found, place = [], ""
    for line in lines:
        match = _PTX_PLACE.match(line)
        if match:
            file = files.get(match[1], "")
            place = f"{names.get(Path(file).name, file)}:{match[2]}"
            continue
        if line.startswith(("}", ".")):
            place = ""
        found.append((line, place, ""))
    return found
