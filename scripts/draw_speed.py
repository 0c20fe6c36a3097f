"""Draws the plots of docs/speed.md from the files that its tables are rendered from.

Each plot shows ratios to a library's kernel, a row for each shape: 1 is the library's speed.

python scripts/draw_speed.py [FOLDER]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path

from render_tables import measured, ratio

DOCS = Path(__file__).resolve().parent.parent / "docs"
_ROW, _LEFT, _TOP, _WIDTH, _RIGHT = 18, 340, 62, 410, 70
_COLOURS = ("#1f6fb2", "#d9772b", "#7a7a7a", "#3a9a5b")
# Ratios beyond the axis are drawn at its end, with their number.
_LOW, _HIGH = 0.3, 1.4


@dataclass(frozen=True)
class Plot:
    """A plot of some columns of a table.

    Attributes:
        title: what the plot shows.
        table: the name of its table's file in benchmark/results/speed.
        series: names of columns, as in the header.
        labels: the number of leading columns that name a row.
    """

    title: str
    table: str
    series: tuple[str, ...]
    labels: int = 1


PLOTS = {
    "speed_gemm.svg": Plot(
        "GEMM on an H200: ratio to cuBLAS",
        "gemm",
        ("this compiler", "Triton"),
        labels=3,
    ),
    "speed_plain.svg": Plot(
        "Straightforward GEMM, bfloat16, H200: ratio to cuBLAS",
        "plain_gemm",
        ("plain kernel", "without what the compiler adds"),
    ),
    "speed_few.svg": Plot(
        "Straightforward GEMM of few rows or small results, H200: ratio to cuBLAS",
        "few_rows",
        ("plain kernel", "without what the compiler adds"),
    ),
    "speed_attention.svg": Plot(
        "Attention forward, bfloat16, H200: ratio to cuDNN",
        "attention",
        ("this compiler", "lazy", "FlashAttention 2"),
    ),
    "speed_gradients.svg": Plot(
        "Gradients of attention, bfloat16, H200: ratio to cuDNN",
        "attention_gradients",
        ("added", "without atomics", "FlashAttention 2"),
    ),
}


def _x(value: float) -> float:
    value = min(max(value, _LOW), _HIGH)
    return _LEFT + (value - _LOW) / (_HIGH - _LOW) * _WIDTH


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _axis(bottom: int) -> list[str]:
    parts = []
    for tenth in range(4, 15, 2):
        x = _x(tenth / 10)
        stroke = "#444444" if tenth == 10 else "#dddddd"
        parts.append(f'<path d="M{x:.1f} {_TOP - 6} V{bottom}" stroke="{stroke}"/>')
        parts.append(_text(round(x, 1), bottom + 16, f"{tenth / 10:g}", "middle"))
    return parts


def draw(plot: Plot, rows: list[dict[str, str]]) -> str:
    """Returns a plot of a table's rows as SVG."""
    bottom = _TOP + _ROW * len(rows)
    width, height = _LEFT + _WIDTH + _RIGHT, bottom + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="#1f2430">',
        f"<title>{escape(plot.title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<g font-size="14" font-weight="600">{_text(12, 22, plot.title)}</g>',
        *_axis(bottom),
    ]
    at = 12
    for name, colour in zip(plot.series, _COLOURS, strict=False):
        parts.append(f'<circle cx="{at + 4}" cy="40" r="5" fill="{colour}"/>')
        parts.append(_text(at + 14, 44, name))
        at += 40 + 7 * len(name)
    for i, row in enumerate(rows):
        y = _TOP + _ROW * i + 8
        parts.append(_text(_LEFT - 10, y + 4, " ".join(list(row.values())[: plot.labels]), "end"))
        values = [ratio(row[name]) for name in plot.series]
        shown = [value for value in values if value is not None]
        for value, colour in reversed(list(zip(values, _COLOURS, strict=False))):
            if value is not None:
                parts.append(f'<circle cx="{_x(value):.1f}" cy="{y}" r="4.5" fill="{colour}"/>')
        if max(shown) > _HIGH:
            beyond = "; ".join(f"{value:g}" for value in shown if value > _HIGH)
            parts.append(_text(_x(_HIGH) + 8, y + 4, beyond))
    return "\n".join([*parts, "</svg>"]) + "\n"


def picture(name: str) -> str:
    """Returns the plot of this name, from the results as they are."""
    return draw(PLOTS[name], measured(PLOTS[name].table, PLOTS[name].labels))


PICTURES_OF: dict[str, Callable[[], str]] = {name: partial(picture, name) for name in PLOTS}


def main() -> None:
    """Writes the plots."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "pictures"
    for name, render in PICTURES_OF.items():
        (folder / name).write_text(render())


if __name__ == "__main__":
    main()
