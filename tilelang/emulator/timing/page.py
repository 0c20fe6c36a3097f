"""A timed launch as one page of HTML that needs no other file and no network."""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from .lines import Line, label, path_steps, warp_groups
from .picture import colour
from .slices import Slices, merged_slices
from .text import duration, facts, shares

if TYPE_CHECKING:
    from .report import Report

#: Slices of the timeline in a page; of longer launches short ones are merged.
_MOST_SLICES = 150_000
#: Rows of warps that are open at first.
_MOST_ROWS = 32
#: Lines that the source shows around lines with instructions.
_CONTEXT = 2
_PATH_ROWS = 24
_HINT = (
    '<p class="hint">Drag to move, wheel to zoom, double click for all of it; '
    "a click on the name of a group of warps opens and folds it.</p>"
)
_CANVAS = '<canvas id="timeline"></canvas><div id="tip"></div>'


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _row(cells: Iterable[tuple[str, str]], style: str = "") -> str:
    inner = "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in cells)
    return f'<tr class="{style}">{inner}</tr>'


def _table(heads: Sequence[str], rows: Iterable[str], style: str = "") -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    return f'<table class="{style}"><tr>{head}</tr>{"".join(rows)}</table>'


def _bar(reasons: dict[str, int], of: float) -> str:
    """Returns a bar of coloured parts, ``of`` cycles wide."""
    parts = "".join(
        f'<i style="width:{100 * cycles / max(of, 1):.2f}%;background:{colour(name)}"'
        f' title="{escape(name)}: {cycles} cycles"></i>'
        for name, cycles in reasons.items()
    )
    return f'<div class="bar">{parts}</div>'


def _summary(report: Report) -> str:
    timing = report.timing
    numbers = [(duration(timing.grid_us), "grid"), (f"{timing.cta_cycles:.0f}", "cycles of a CTA"),
               (f"{timing.dram_tbs:.3g} TB/s", "HBM")]  # fmt: skip
    if timing.flops:
        numbers.insert(1, (f"{timing.tflops:.4g}", "TFLOP/s"))
    tiles = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{name}</span></div>'
        for value, name in numbers
    )
    rows = "".join(f"<tr><th>{a}</th><td>{escape(b)}</td></tr>" for a, b in facts(timing))
    return f'<div class="tiles">{tiles}</div><table class="facts">{rows}</table>'


def _findings(report: Report) -> str:
    found = report.explain()
    if not found:
        return "<p>Nothing stands out.</p>"
    items = (
        f"<li><b>{'up to ' if f.bound else ''}{100 * f.gain:.0f} %</b> "
        f"{escape(f'{f.place}: ' if f.place else '')}{escape(f.text)}</li>"
        for f in found
    )
    return f'<ol class="findings">{"".join(items)}</ol>'


def _engines(report: Report) -> str:
    timing = report.timing
    order = np.argsort(-timing.engine_share)
    rows = [
        _row([("", escape(timing.engine_name[i])), ("number", f"{100 * share:.1f} %"),
              ("", f'<div class="bar"><i style="width:{min(100.0, 100 * share):.1f}%;'
                   f'background:{colour("busy")}"></i></div>')])
        for i in order if (share := float(timing.engine_share[i])) > 0
    ]  # fmt: skip
    return _table(["engine", "busy", ""], rows)


def _legend(report: Report) -> str:
    used = {*np.unique(report.timing.stall_reason), *np.unique(report.timing.slice_reason)}
    names = (report.reasons[i] for i in sorted(used))
    parts = (f'<span><i style="background:{colour(n)}"></i>{escape(n)}</span>' for n in names)
    return f'<div class="legend">{"".join(parts)}</div>'


def _warps(report: Report) -> str:
    rows = [
        _row([("", escape(g.name)), ("", _bar(g.reasons, g.cycles)),
              ("", escape(shares(g.reasons)))])
        for g in warp_groups(report.timing, report.reasons)
    ]  # fmt: skip
    return _table(["warps", "", "mostly"], rows)


def _source_line(text: str, line: Line | None, number: int, total: int, most: int) -> str:
    if line is None:
        empty = [("number", "")] * 3
        return _row([("number", str(number)), ("", escape(text)), *empty, ("", "")], "cold")
    conflicts = f"{line.conflicts}" if line.conflicts else ""
    return _row([
        ("number", str(number)), ("", escape(text)), ("number", f"{line.cycles}"),
        ("number", f"{100 * line.cycles / total:.1f} %"), ("number", conflicts),
        ("", _bar(line.reasons, most)),
    ])  # fmt: skip


def _sources(report: Report) -> str:
    """Returns the files with the cycles of their lines; lines far from code are left out."""
    total = sum(line.cycles for line in report.lines) or 1
    most = max((line.cycles for line in report.lines), default=1)
    files: dict[str, dict[int, Line]] = {}
    for line in report.lines:
        files.setdefault(line.file, {})[line.number] = line
    parts = []
    for file, lines in files.items():
        texts = linecache.getlines(file) if file else []
        shown = {n + d for n in lines for d in range(-_CONTEXT, _CONTEXT + 1) if n + d >= 1}
        numbers = sorted(shown) if texts else sorted(lines)
        rows = [
            _source_line(texts[n - 1].rstrip() if n <= len(texts) else "",
                         lines.get(n), n, total, most)
            for n in numbers if n in lines or n <= len(texts)
        ]  # fmt: skip
        heads = ["line", file or "PTX", "cycles", "", "conflicts", "reasons"]
        parts.append(f'<div class="scroll">{_table(heads, rows, "source")}</div>')
    return "".join(parts)


def _conflicts(report: Report) -> str:
    rows = [
        _row([("", escape(line.place)), ("", escape(line.text)), ("number", str(line.wavefronts)),
              ("number", str(line.conflicts)),
              ("number", f"{line.wavefronts / (line.wavefronts - line.conflicts):.2f}")])
        for line in sorted(report.lines, key=lambda line: -line.conflicts) if line.conflicts
    ]  # fmt: skip
    if not rows:
        return "<p>None.</p>"
    return _table(["line", "", "wavefronts", "by conflicts", "times the least"], rows)


def _path(report: Report) -> str:
    steps = path_steps(report.timing, report.reasons)
    total = sum(step.cycles for step in steps) or 1
    rows = [
        _row([("number", f"{100 * step.cycles / total:.1f} %"), ("number", str(step.cycles)),
              ("", escape(step.who)), ("", escape(step.reason)), ("", escape(step.label))])
        for step in steps[:_PATH_ROWS]
    ]  # fmt: skip
    return _table(["share", "cycles", "who", "waits for, or works as", "line"], rows)


def _groups(report: Report, row_of: dict[int, int]) -> list[dict[str, Any]]:
    """Rows that stand together: engines one by one, warps that are alike; idle ones are folded."""
    timing = report.timing
    warps = warp_groups(timing, report.reasons)
    folded = sum(len(group.tracks) for group in warps) > _MOST_ROWS
    groups: list[dict[str, Any]] = [
        {"name": timing.track_name[track], "rows": [row], "folded": False}
        for track, row in row_of.items() if timing.track_kind[track] != "warp"
    ]  # fmt: skip
    for group in warps:
        rows = [row_of[track] for track in group.tracks if track in row_of]
        if rows:
            name = f"{group.name}{', idle' if group.idle else ''}"
            groups.append({"name": name, "rows": rows, "folded": folded or group.idle})
    return groups


def _timeline(report: Report, slices: Slices) -> str:
    """Returns the slices as JSON for the page's script, in tracks that have some."""
    timing = report.timing
    used = np.unique(slices.track)
    row_of = {int(track): row for row, track in enumerate(used)}
    labels = {int(i): label(timing, int(i)) for i in np.unique(slices.inst)}
    names = sorted(set(labels.values()))
    index = {name: i for i, name in enumerate(names)}
    data = {
        "tracks": [timing.track_name[track] for track in used], "groups": _groups(report, row_of),
        "track": [row_of[int(t)] for t in slices.track],
        "begin": slices.begin.tolist(), "end": slices.end.tolist(),
        "reason": slices.reason.tolist(),
        "name": [index[labels[int(i)]] for i in slices.inst], "names": names,
        "reasons": list(report.reasons), "colours": [colour(name) for name in report.reasons],
        "first": int(slices.begin.min(initial=0)), "last": int(slices.end.max(initial=1)),
    }  # fmt: skip
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="data">{text}</script>'


def page(report: Report) -> str:
    """Returns the whole document."""
    title = escape(f"{report.timing.kernel} on {report.timing.gpu}")
    slices = merged_slices(report.timing, _MOST_SLICES)
    note = f" (slices of less than {slices.least} cycles are merged)" if slices.least else ""
    sections = [
        ("Findings", _findings(report)), ("Engines", _engines(report)),
        ("Warps", _legend(report) + _warps(report)), ("Source", _sources(report)),
        ("Bank conflicts", _conflicts(report)), ("Critical path", _path(report)),
        (f"Timeline{note}", _legend(report) + _HINT + _CANVAS),
    ]  # fmt: skip
    body = "".join(f'<h2>{head}</h2><div class="wide">{text}</div>' for head, text in sections)
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_resource('page.css')}</style></head><body><h1>{title}</h1>"
        f"{_summary(report)}{body}{_timeline(report, slices)}"
        f"<script>{_resource('page.js')}</script></body></html>\n"
    )
