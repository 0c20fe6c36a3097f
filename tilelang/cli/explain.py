"""``tilelang explain``: what a finding or a remark means, and a wrong and a right kernel for it."""

from __future__ import annotations

import difflib
import functools
import re
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..emulator.levels import level_of
from ..errors import UserError
from .output import document, emit, guarded, json_option

_FENCE = re.compile(r"^```(wrong|right)\n(.*?)^```\n?", re.M | re.S)


@functools.cache
def explanations() -> dict[str, str]:
    """Returns the Markdown of each explanation by the name of the finding."""
    return _sections("explanations.md")


@functools.cache
def remarks() -> dict[str, str]:
    """Returns the Markdown of each explanation by the topic of the remark."""
    return _sections("remarks.md")


def _sections(file: str) -> dict[str, str]:
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    _, *sections = re.split(r"^## ", text, flags=re.M)
    return {name: body.strip() + "\n" for name, _, body in (s.partition("\n") for s in sections)}


def examples(name: str) -> dict[str, str]:
    """Returns the kernels of an explanation: ``"wrong"`` and ``"right"``, if there are any.

    Those of findings are bodies in PTX, those of remarks functions in TileLang.
    """
    return dict(_FENCE.findall((explanations() | remarks())[name]))


class _Name(click.ParamType):
    name = "NAME"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return [
            CompletionItem(name)
            for name in explanations() | remarks()
            if name.startswith(incomplete)
        ]


@click.command()
@click.argument("name", type=_Name(), required=False)
@json_option
@guarded
def explain(name: str | None, as_json: bool) -> None:
    """Explain a kind of finding, such as missing-proxy-fence, or the topic of a remark.

    It shows what the finding means, a wrong and a right kernel, and the section of the PTX ISA.
    Without NAME it lists all kinds and topics.
    """
    known = explanations() | remarks()
    if name is None:
        found = list(known)
    elif name in known:
        found = [name]
    else:
        close = difflib.get_close_matches(name, known, n=3)
        notes = [f"did you mean {', '.join(close)}?"] if close else []
        raise UserError(
            f"there is no finding or remark {name!r}",
            notes=[*notes, "`tilelang explain` lists them all"],
        )
    rows = [
        {"name": each, "level": "remark" if each in remarks() else level_of(each),
         "text": _FENCE.sub("", known[each]).strip(),
         "wrong": "", "right": "", **examples(each)}
        for each in found
    ]  # fmt: skip
    text = _listed(rows) if name is None else _text(rows[0])
    emit(document("explain", ok=True, findings=rows), text, as_json)


def _listed(rows: list[dict[str, Any]]) -> str:
    """Returns the names with the first sentence of each, findings and remarks apart."""
    lines: list[str] = []
    for title, is_remark in (("Findings", False), ("Topics of remarks", True)):
        lines += ["", click.style(title, bold=True)] if lines else [click.style(title, bold=True)]
        of_kind = [row for row in rows if (row["level"] == "remark") == is_remark]
        width = max(len(row["name"]) for row in of_kind)
        for row in of_kind:
            text = " ".join(row["text"].split()).removeprefix("Level *letter*. ")
            sentence = text.partition(". ")[0].rstrip(".")
            lines.append(f"  {row['name']:{width}}  {sentence}")
    return "\n".join([*lines, "", "`tilelang explain NAME` shows a wrong and a right kernel."])


def _text(row: dict[str, str]) -> str:
    what = "remark" if row["level"] == "remark" else f"level {row['level']}"
    parts = [f"{click.style(row['name'], bold=True)} ({what})", row["text"]]
    for kind in ("wrong", "right"):
        if row[kind]:
            parts.append(f"{kind}:\n" + "".join(f"    {line}\n" for line in row[kind].splitlines()))
    return "\n\n".join(parts)
