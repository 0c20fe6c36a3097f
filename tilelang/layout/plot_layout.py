"""Draws layouts: a cell for each element, coloured by where it lies. Writes SVG and PNG itself."""

from __future__ import annotations

import colorsys
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilelang.errors import LayoutError
from tilelang.layout import Fragment, Layout, TmemLayout

CELL_WIDTH, CELL_HEIGHT = 44, 30
MARGIN_LEFT, MARGIN_TOP = 40, 48
#: Larger drawings lose their labels, and their cells shrink.
MAX_LABELLED_CELLS = 4096
SMALL_CELL = 6
#: Notebooks show the text of larger layouts.
MAX_SHOWN_CELLS = 16384
_TITLE_STEP = 8  # pixels of a character of the title


class Cell(NamedTuple):
    """One element: what decides its colour, and two lines of text."""

    key: int
    lines: tuple[str, str]


class Drawing(NamedTuple):
    """A grid of cells with a title."""

    title: str
    rows: list[list[Cell]]
    #: The row and column of the first cell.
    origin: tuple[int, int] = (0, 0)

    @property
    def labelled(self) -> bool:
        """Returns whether the cells are few enough for text."""
        return len(self.rows) * len(self.rows[0]) <= MAX_LABELLED_CELLS

    @property
    def cell_size(self) -> tuple[int, int]:
        """Width and height of a cell in pixels."""
        return (CELL_WIDTH, CELL_HEIGHT) if self.labelled else (SMALL_CELL, SMALL_CELL)


def _fragment_cell(fragment: Fragment, coord: tuple[int, ...]) -> Cell:
    thread, reg = fragment.forward(*coord)
    copies = f"x{fragment.replicas}" if fragment.replicas > 1 else ""
    return Cell(thread, (f"T{thread}{copies}", f"r{reg}"))


def _tmem_cell(tmem: TmemLayout, coord: tuple[int, ...]) -> Cell:
    lane, column, bit = tmem.forward(*coord)
    part = f".{bit // tmem.element_bits}" if bit else ""
    return Cell(lane, (f"L{lane}", f"c{column}{part}"))


def _layout_cell(layout: Layout, coord: tuple[int, ...]) -> Cell:
    value = layout.forward(*coord)
    return Cell(value, (str(value), ""))


_CELLS: dict[type, Callable[[Any, tuple[int, ...]], Cell]] = {
    Fragment: _fragment_cell,
    TmemLayout: _tmem_cell,
    Layout: _layout_cell,
}


def _drawing(layout: Any, title: str) -> Drawing:
    """Cells in rows: leading dimensions one below the other, the last one across."""
    make = next((cell for kind, cell in _CELLS.items() if isinstance(layout, kind)), None)
    if make is None:
        raise LayoutError(f"cannot draw a {type(layout).__name__}: give a layout or a fragment")
    *leading, width = layout.input_shape
    rows = [[make(layout, (*lead, j)) for j in range(width)] for lead in np.ndindex(*leading)]
    return Drawing(title, rows)


def _colour(key: int) -> tuple[int, int, int]:
    """A light colour; neighbouring keys are far apart (steps of the golden ratio)."""
    hue = key * 0.6180339887 % 1.0
    red, green, blue = colorsys.hls_to_rgb(hue, 0.78 - 0.08 * (key // 8 % 2), 0.65)
    return round(red * 255), round(green * 255), round(blue * 255)


def _runs(row: list[Cell], labelled: bool) -> Iterator[tuple[int, int, Cell]]:
    """(first column, length, cell): single cells, or runs of one colour where unlabelled."""
    begin = 0
    for j in range(1, len(row) + 1):
        if labelled or j == len(row) or row[j].key != row[begin].key:
            yield begin, j - begin, row[begin]
            begin = j


def _svg_cell(x: int, y: int, size: tuple[int, int], cell: Cell, labelled: bool) -> str:
    width, height = size
    edge = ' stroke="#555" stroke-width="0.5"' if labelled else ""
    fill = "#{:02x}{:02x}{:02x}".format(*_colour(cell.key))
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"{edge}/>']
    if labelled:
        lines = [line for line in cell.lines if line]
        for i, line in enumerate(lines):
            base = y + height / 2 + 4 + (i - (len(lines) - 1) / 2) * 12
            parts.append(f'<text x="{x + width / 2}" y="{base}">{escape(line)}</text>')
    return "".join(parts)


def _ticks(count: int, labelled: bool) -> range:
    return range(0, count, 1 if labelled else max(1, 2 ** math.ceil(math.log2(max(1, count / 16)))))


def _canvas(drawing: Drawing) -> tuple[int, int]:
    width, height = drawing.cell_size
    columns, rows = len(drawing.rows[0]), len(drawing.rows)
    return MARGIN_LEFT + columns * width + 8, MARGIN_TOP + rows * height + 8


def _svg(drawing: Drawing) -> str:
    width, height = drawing.cell_size
    labelled = drawing.labelled
    total = _canvas(drawing)
    wide = max(total[0], 12 + _TITLE_STEP * len(drawing.title))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{total[1]}" '
        'font-family="monospace" font-size="11" text-anchor="middle">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="6" y="18" text-anchor="start" font-size="13">{escape(drawing.title)}</text>',
    ]
    for j in _ticks(len(drawing.rows[0]), labelled):
        x = MARGIN_LEFT + j * width + width / 2
        out.append(f'<text x="{x}" y="{MARGIN_TOP - 6}" fill="#555">{j + drawing.origin[1]}</text>')
    for i in _ticks(len(drawing.rows), labelled):
        y = MARGIN_TOP + i * height + height / 2 + 4
        number = i + drawing.origin[0]
        out.append(f'<text x="{MARGIN_LEFT / 2}" y="{y}" fill="#555">{number}</text>')
    for i, row in enumerate(drawing.rows):
        for j, length, cell in _runs(row, labelled):
            place = MARGIN_LEFT + j * width, MARGIN_TOP + i * height
            out.append(_svg_cell(*place, (length * width, height), cell, labelled))
    return "\n".join([*out, "</svg>", ""])


def side_by_side(
    drawings: list[Drawing], caption: str, framed: tuple[int, int] | None = None
) -> str:
    """Returns a picture of drawings of one size, three in a row.

    Args:
        drawings: the drawings, with labels.
        caption: a line of text above them.
        framed: the row and column of a cell of each that gets a frame.
    """
    across = 3
    step_x = max(max(_canvas(each)[0], 12 + _TITLE_STEP * len(each.title)) for each in drawings)
    step_y = _canvas(drawings[0])[1]
    width = max(step_x * min(across, len(drawings)), 12 + _TITLE_STEP * len(caption))
    height = MARGIN_LEFT + step_y * math.ceil(len(drawings) / across)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="monospace" font-size="11" text-anchor="middle">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="6" y="20" text-anchor="start" font-size="13">{escape(caption)}</text>',
    ]
    for number, drawing in enumerate(drawings):
        x, y = number % across * step_x, MARGIN_LEFT + number // across * step_y
        out.append(_svg(drawing).strip().replace("<svg ", f'<svg x="{x}" y="{y}" ', 1))
        if framed is not None:
            x += MARGIN_LEFT + framed[1] * CELL_WIDTH
            y += MARGIN_TOP + framed[0] * CELL_HEIGHT
            out.append(
                f'<rect x="{x}" y="{y}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}" '
                'fill="none" stroke="red" stroke-width="3"/>'
            )
    return "\n".join([*out, "</svg>", ""])


# A 3 x 5 font for the characters of labels: the rows of each glyph as octal digits.
_GLYPHS = {
    "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
    "6": "74757", "7": "71111", "8": "75757", "9": "75717", "T": "72222", "L": "44447",
    "r": "06544", "c": "07447", "x": "05255", ".": "00002",
}  # fmt: skip
_GLYPH_SCALE = 2
_GLYPH_STEP = 4 * _GLYPH_SCALE


def _draw_text(image: np.ndarray, x: int, y: int, text: str) -> None:
    """Draws ``text`` centred at column ``x``, from row ``y`` down."""
    x -= len(text) * _GLYPH_STEP // 2
    for char in text:
        for dy, bits in enumerate(_GLYPHS.get(char, "00000")):
            for dx in range(3):
                if int(bits) >> (2 - dx) & 1:
                    top, left = y + dy * _GLYPH_SCALE, x + dx * _GLYPH_SCALE
                    image[top : top + _GLYPH_SCALE, left : left + _GLYPH_SCALE] = 30
        x += _GLYPH_STEP


def _png_bytes(image: np.ndarray) -> bytes:
    """Encodes ``image`` (height x width x 3, uint8) as a PNG file."""
    height, width, _ = image.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    # Each row is preceded by its filter: 0, none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def _png(drawing: Drawing) -> bytes:
    width, height = drawing.cell_size
    total = _canvas(drawing)
    image = np.full((total[1], total[0], 3), 255, np.uint8)
    gap = 1 if drawing.labelled else 0
    for i, row in enumerate(drawing.rows):
        for j, cell in enumerate(row):
            x, y = MARGIN_LEFT + j * width, MARGIN_TOP + i * height
            image[y : y + height - gap, x : x + width - gap] = _colour(cell.key)
            if drawing.labelled:
                lines = [line for line in cell.lines if line]
                for k, line in enumerate(lines):
                    _draw_text(
                        image, x + width // 2, y + (10 if len(lines) == 1 else 3 + 13 * k), line
                    )
    for j in _ticks(len(drawing.rows[0]), drawing.labelled):
        _draw_text(image, MARGIN_LEFT + j * width + width // 2, MARGIN_TOP - 14, str(j))
    for i in _ticks(len(drawing.rows), drawing.labelled):
        _draw_text(image, MARGIN_LEFT // 2, MARGIN_TOP + i * height + height // 2 - 5, str(i))
    return _png_bytes(image)


_FORMATS = {"svg": lambda drawing: _svg(drawing).encode(), "png": _png}


def layout_svg(layout: Layout | Fragment | TmemLayout) -> str | None:
    """Returns the picture of a layout for a notebook; None if it has too many elements."""
    if not layout.input_shape or math.prod(layout.input_shape) > MAX_SHOWN_CELLS:
        return None
    return _svg(_drawing(layout, repr(layout)))


def plot_layout(
    layout: Layout | Fragment | TmemLayout,
    save_directory: str | Path = "./tmp",
    name: str = "layout",
    formats: str = "svg,png",
) -> list[Path]:
    """Draws a layout as a grid of its elements and returns the files written.

    A fragment's cells show thread (``T5``, ``T5x4`` with four copies) and register (``r2``) and
    are coloured by thread; tensor memory shows lane and column (``L3``, ``c7.1``: the second
    element of column 7), coloured by lane; a plain layout shows its value. Rows are the leading
    dimensions, one below the other; the last dimension goes across. Above 4096 elements the
    labels are left out.

    Args:
        layout: what to draw.
        save_directory: folder for the files; made if missing.
        name: file name without suffix; also the title.
        formats: comma-separated from ``svg`` and ``png``.

    Raises:
        LayoutError: an unknown format, or something that is not a layout.
    """
    wanted = [item.strip() for item in formats.split(",") if item.strip()]
    unknown = [item for item in wanted if item not in _FORMATS]
    if unknown:
        raise LayoutError(f"plot_layout writes svg and png, not {', '.join(unknown)}")
    drawing = _drawing(layout, f"{name}: {layout!r}")
    folder = Path(save_directory)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for item in wanted:
        path = folder / f"{name}.{item}"
        path.write_bytes(_FORMATS[item](drawing))
        paths.append(path)
    return paths
