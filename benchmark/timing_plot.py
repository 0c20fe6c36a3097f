"""Draws predicted against measured times, both logarithmic, as SVG."""

from __future__ import annotations

import math
from html import escape
from typing import Any

_SIZE, _LEFT, _TOP = 560, 60, 20
_COLOURS = ["#3182bd", "#e6550d", "#31a354", "#756bb1", "#636363", "#e7ba52", "#d6616b", "#17becf",
            "#8c6d31", "#ce6dbd", "#9c9ede", "#000000"]  # fmt: skip


def scatter(entries: list[dict[str, Any]], fitted: set[str]) -> str:
    """A point for each kernel, in the colour of its kind; those fitted to are hollow."""
    times = [entry[key] for entry in entries for key in ("measured_us", "predicted_us")]
    low, high = math.log10(min(times)) - 0.05, math.log10(max(times)) + 0.05
    scale = _SIZE / (high - low)
    kinds = list(dict.fromkeys(entry["kind"] for entry in entries))

    def x(us: float) -> float:
        return _LEFT + (math.log10(us) - low) * scale

    def y(us: float) -> float:
        return _TOP + _SIZE - (math.log10(us) - low) * scale

    width, height = _LEFT + _SIZE + 170, _TOP + _SIZE + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIZE}" height="{_SIZE}" fill="none"'
        ' stroke="#999999"/>',
    ]
    for factor, dash in ((0.8, "4"), (1.0, "none"), (1.25, "4")):
        ends = [(low, low + math.log10(factor)), (high, high + math.log10(factor))]
        (x0, y0), (x1, y1) = ((x(10**a), y(10**b)) for a, b in ends)
        parts.append(
            f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" stroke="#999999"'
            f' stroke-dasharray="{dash}"/>'
        )
    for decade in (5, 10, 20, 50, 100, 200, 500, 1000, 2000):
        if low <= math.log10(decade) <= high:
            parts.append(
                f'<text x="{x(decade):.1f}" y="{_TOP + _SIZE + 16}" text-anchor="middle">{decade}'
                f'</text><text x="{_LEFT - 6}" y="{y(decade) + 4:.1f}" text-anchor="end">{decade}'
                "</text>"
            )
    for entry in entries:
        colour = _COLOURS[kinds.index(entry["kind"]) % len(_COLOURS)]
        fill = "none" if entry["name"] in fitted else colour
        parts.append(
            f'<circle cx="{x(entry["measured_us"]):.1f}" cy="{y(entry["predicted_us"]):.1f}"'
            f' r="3.5" fill="{fill}" stroke="{colour}"><title>{escape(entry["name"])}</title>'
            "</circle>"
        )
    for i, kind in enumerate(kinds):
        at = _TOP + 14 + 18 * i
        parts.append(f'<circle cx="{_LEFT + _SIZE + 16}" cy="{at - 4}" r="4"'
                     f' fill="{_COLOURS[i % len(_COLOURS)]}"/>')  # fmt: skip
        parts.append(f'<text x="{_LEFT + _SIZE + 26}" y="{at}">{escape(kind)}</text>')
    middle = _LEFT + _SIZE / 2
    parts.append(f'<text x="{middle}" y="{_TOP + _SIZE + 36}" text-anchor="middle">'
                 "measured, microseconds</text>")  # fmt: skip
    parts.append(f'<text transform="translate(16 {_TOP + _SIZE / 2}) rotate(-90)"'
                 ' text-anchor="middle">predicted, microseconds</text>')  # fmt: skip
    return "\n".join([*parts, "</svg>\n"])
