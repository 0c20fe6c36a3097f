"""Draws the timeline of a CTA: a row for each engine of its SM and each of its warps. SVG."""

from __future__ import annotations

import dataclasses
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .lines import label

if TYPE_CHECKING:
    from .report import Report

#: Fill colours by reason; warps that work are green, and warps that wait for memory are blue.
COLOURS = {
    "issue": "#31a354",
    "dependency": "#a1d99b",
    "mbarrier: TMA": "#6baed6",
    "mbarrier: tensor": "#fdae6b",
    "mbarrier: threads": "#bcbddc",
    "named barrier": "#9e9ac8",
    "tensor pipe": "#fd8d3c",
    "memory": "#3182bd",
    "not selected": "#c7e9c0",
    "pipe": "#e7969c",
    "async group": "#9ecae1",
    "tensor memory": "#d6616b",
    "branch": "#bdbdbd",
    "done": "#f0f0f0",
    "busy": "#756bb1",
}
_OTHER = "#dddddd"
_WIDTH, _ROW, _LEFT, _HEADING, _FOOT = 1160, 18, 130, 44, 30
_BUCKETS = _WIDTH - _LEFT - 10
_LINE = 14
_TITLE = 100


@dataclasses.dataclass(frozen=True)
class Picture:
    """An SVG document; notebooks show it."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Writes the document to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")


def colour(reason: str) -> str:
    """Returns the fill colour of a reason."""
    return COLOURS.get(reason, _OTHER)


def _runs(report: Report, track: int, begin: int, end: int) -> list[tuple[int, int, int]]:
    """Spans as (first bucket, last bucket + 1, slice): the slice that a bucket has most of.

    So a picture has a bounded number of boxes, however long the launch is.
    """
    timing = report.timing
    slices = np.flatnonzero(
        (timing.slice_track == track) & (timing.slice_end > begin) & (timing.slice_begin < end)
    )
    scale = _BUCKETS / max(1, end - begin)
    owner = np.full(_BUCKETS, -1, np.int64)
    most = np.zeros(_BUCKETS)
    for i in slices:
        left = max(0.0, (int(timing.slice_begin[i]) - begin) * scale)
        right = min(float(_BUCKETS), (int(timing.slice_end[i]) - begin) * scale)
        first, last = int(left), min(_BUCKETS - 1, int(right))
        spans = np.ones(last - first + 1)
        spans[0] -= left - first
        spans[-1] -= last + 1 - right
        better = spans > most[first : last + 1]
        owner[first : last + 1][better] = i
        most[first : last + 1][better] = spans[better]
    edges = np.flatnonzero(np.diff(owner, prepend=-2, append=-2))
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return [(a, b, int(owner[a])) for a, b in pairs if owner[a] >= 0]


def _box(report: Report, y: int, first: int, last: int, index: int) -> str:
    timing = report.timing
    reason = report.reasons[timing.slice_reason[index]]
    begin, end = int(timing.slice_begin[index]), int(timing.slice_end[index])
    tip = f"{label(timing, int(timing.slice_inst[index]))}: {reason}, cycles {begin} to {end}"
    return (
        f'<rect x="{_LEFT + first}" y="{y + 2}" width="{last - first}" height="{_ROW - 4}"'
        f' fill="{colour(reason)}"><title>{escape(tip)}</title></rect>'
    )


def _legend(report: Report, y: int) -> tuple[list[str], int]:
    """Returns the legend, and the height of its second and further lines."""
    used = np.unique(report.timing.slice_reason)
    parts, x, first = [], _LEFT, y
    for reason in (report.reasons[i] for i in used):
        if x + 20 + 6 * len(reason) > _WIDTH:
            x, y = _LEFT, y + _LINE
        parts.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{colour(reason)}"/>')
        parts.append(f'<text x="{x + 13}" y="{y + 9}">{escape(reason)}</text>')
        x += 26 + 6 * len(reason)
    return parts, y - first


def _shortened(name: str) -> str:
    """Returns a kernel's name, as far as a title has room for it."""
    return name if len(name) <= _TITLE else f"{name[: _TITLE - 3]}..."


def draw(report: Report, cta: int, begin: int | None, end: int | None) -> Picture:
    """Returns the timeline of a CTA and of the engines of its SM, between two cycles."""
    timing = report.timing
    own = [i for i, c in enumerate(timing.track_cta) if c == cta]
    sms = {int(timing.track_sm[i]) for i in own}
    engines = [
        i for i, kind in enumerate(timing.track_kind)
        if kind == "engine" and int(timing.track_sm[i]) in sms
        and bool((timing.slice_track == i).any())
    ]  # fmt: skip
    inside = np.isin(timing.slice_track, own)
    first = int(timing.slice_begin[inside].min()) if begin is None else begin
    last = int(timing.slice_end[inside].max()) if end is None else end
    rows = [*engines, *own]
    legend, more = _legend(report, 24)
    heading = _HEADING + more
    height = heading + _ROW * len(rows) + _FOOT
    title = f"{_shortened(timing.kernel)}, CTA {cta} on {timing.gpu}: cycles {first} to {last}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="10">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="4" y="16" font-size="13">{escape(title)}</text>',
        *legend,
    ]
    for row, track in enumerate(rows):
        y = heading + row * _ROW
        parts.append(f'<text x="4" y="{y + 13}">{escape(timing.track_name[track])}</text>')
        runs = _runs(report, track, first, last)
        parts += [_box(report, y, *run) for run in runs]
    y = heading + _ROW * len(rows)
    for tick in range(6):
        x = _LEFT + tick * _BUCKETS // 5
        cycle = first + tick * (last - first) // 5
        parts.append(f'<line x1="{x}" y1="{heading}" x2="{x}" y2="{y + 4}" stroke="#cccccc"/>')
        parts.append(f'<text x="{x}" y="{y + 16}" text-anchor="middle">{cycle}</text>')
    return Picture("\n".join([*parts, "</svg>"]))
