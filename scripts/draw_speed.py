"""Draws the plots of docs/speed.md from the tables below them on that page.

Each plot shows ratios to a library's kernel, a row for each shape: 1 is the library's speed.

python scripts/draw_speed.py [FOLDER]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path

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
        header: the first cells of the table's header, by which it is found.
        series: names of columns, as in the header.
        labels: the number of leading columns that name a row.
    """

    title: str
    header: str
    series: tuple[str, ...]
    labels: int = 1


PLOTS = {
    "speed_gemm.svg": Plot(
        "GEMM on an H200: ratio to cuBLAS",
        "| types | stored | M x N x K |",
        ("this compiler", "Triton"),
        labels=3,
    ),
    "speed_plain.svg": Plot(
        "Straightforward GEMM, bfloat16, H200: ratio to cuBLAS",
        "| M x N x K | cuBLAS, TFLOP/s | plain kernel |",
        ("plain kernel", "without what the compiler adds"),
    ),
    "speed_few.svg": Plot(
        "Straightforward GEMM of few rows or small results, H200: ratio to cuBLAS",
        "| M x N x K | plain kernel |",
        ("plain kernel", "without what the compiler adds"),
    ),
    "speed_attention.svg": Plot(
        "Attention forward, bfloat16, H200: ratio to cuDNN",
        "| forward |",
        ("this compiler", "lazy", "FlashAttention 2"),
    ),
    "speed_gradients.svg": Plot(
        "Gradients of attention, bfloat16, H200: ratio to cuDNN",
        "| backward |",
        ("added", "without atomics", "FlashAttention 2"),
    ),
}


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(page: str, header: str) -> list[dict[str, str]]:
    """Returns the rows of the first table whose header begins with ``header``."""
    lines = page.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(header))
    names = _cells(lines[first])
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(names, _cells(line), strict=True)))
    return rows


def ratio(cell: str) -> float | None:
    """Returns the ratio in a cell: the number in parentheses, or the only number."""
    found = re.search(r"\((\d+\.\d+)\)", cell) or re.fullmatch(r"(\d+\.\d+)", cell)
    return float(found[1]) if found else None


def _labels(rows: list[dict[str, str]], count: int) -> list[str]:
    """Returns a label for each row; an empty cell repeats the cell above it."""
    above = [""] * count
    labels = []
    for row in rows:
        cells = list(row.values())[:count]
        above = [cell or before for cell, before in zip(cells, above, strict=True)]
        labels.append(" ".join(above))
    return labels


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


def draw(plot: Plot, page: str) -> str:
    """Returns a plot of the page's table as SVG."""
    rows = table(page, plot.header)
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
    for i, (label, row) in enumerate(zip(_labels(rows, plot.labels), rows, strict=True)):
        y = _TOP + _ROW * i + 8
        parts.append(_text(_LEFT - 10, y + 4, label, "end"))
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
    """Returns the plot of this name, from the page as it is."""
    return draw(PLOTS[name], (DOCS / "speed.md").read_text())


PICTURES_OF: dict[str, Callable[[], str]] = {name: partial(picture, name) for name in PLOTS}


def main() -> None:
    """Writes the plots."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "pictures"
    for name, render in PICTURES_OF.items():
        (folder / name).write_text(render())


if __name__ == "__main__":
    main()
