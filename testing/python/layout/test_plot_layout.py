"""Drawings of layouts: labels and colours as the layout says, files that decoders accept."""

import struct
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest

from tilelang.errors import LayoutError
from tilelang.layout import Fragment, Layout, TmemLayout
from tilelang.layout.plot_layout import (
    CELL_HEIGHT,
    CELL_WIDTH,
    MARGIN_LEFT,
    MARGIN_TOP,
    SMALL_CELL,
)
from tilelang.tools import plot_layout

ACCUMULATOR = Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, i // 8 * 2 + j % 2))


def read_png(path):
    """Pixels of an unfiltered RGB PNG, all checksums verified."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colour) == (8, 2) and b"IEND" in chunks
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def cell_colour(image, i, j, width=CELL_WIDTH, height=CELL_HEIGHT):
    return tuple(image[MARGIN_TOP + i * height + 1, MARGIN_LEFT + j * width + 1])


def svg_cells(path):
    """{(row, column): (fill, labels)} of a labelled drawing."""
    root = ElementTree.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    cells = {}
    for rect in root.iter(f"{space}rect"):
        if rect.get("width") == str(CELL_WIDTH):
            x, y = float(rect.get("x")), float(rect.get("y"))
            cell = (y - MARGIN_TOP) // CELL_HEIGHT, (x - MARGIN_LEFT) // CELL_WIDTH
            cells[cell] = (rect.get("fill"), [])
    for text in root.iter(f"{space}text"):
        x, y = float(text.get("x")), float(text.get("y"))
        cell = (y - MARGIN_TOP) // CELL_HEIGHT, (x - MARGIN_LEFT) // CELL_WIDTH
        if cell in cells:
            cells[cell][1].append(text.text)
    return cells


def test_fragment_svg(tmp_path):
    (path,) = plot_layout(ACCUMULATOR, tmp_path, "accumulator", "svg")
    cells = svg_cells(path)
    assert len(cells) == 128
    fills = {}
    for (i, j), (fill, labels) in cells.items():
        thread, reg = ACCUMULATOR.forward(int(i), int(j))
        assert labels == [f"T{thread}", f"r{reg}"]
        assert fills.setdefault(thread, fill) == fill
    assert len(set(fills.values())) == 32
    assert "accumulator: Fragment(16, 8)" in path.read_text()


def test_fragment_png(tmp_path):
    (path,) = plot_layout(ACCUMULATOR, tmp_path / "new" / "folder", "a", "png")
    image = read_png(path)
    colours = {}
    for i in range(16):
        for j in range(8):
            thread = ACCUMULATOR.forward(i, j)[0]
            colour = cell_colour(image, i, j)
            assert colours.setdefault(thread, colour) == colour
    assert len(set(colours.values())) == 32
    inside = image[MARGIN_TOP : MARGIN_TOP + CELL_HEIGHT, MARGIN_LEFT : MARGIN_LEFT + CELL_WIDTH]
    assert (inside == 30).all(axis=2).sum() > 40, "no label is drawn"


def test_large_drawings_lose_labels(tmp_path):
    rows = Fragment((128, 64), lambda i, j: (i, j))
    svg, png = plot_layout(rows, tmp_path)
    assert (svg.name, png.name) == ("layout.svg", "layout.png")
    assert "T5" not in svg.read_text()
    assert svg.read_text().count("<rect") == 1 + 128, "a row of one thread is one rectangle"
    image = read_png(png)
    size = {"width": SMALL_CELL, "height": SMALL_CELL}
    assert cell_colour(image, 3, 0, **size) == cell_colour(image, 3, 63, **size)
    assert cell_colour(image, 3, 0, **size) != cell_colour(image, 4, 0, **size)


def test_tmem_and_plain_layouts(tmp_path):
    (path,) = plot_layout(TmemLayout.operand_a(64, 8, 16), tmp_path, "a", "svg")
    assert svg_cells(path)[17, 5][1] == ["L33", "c2.1"]
    (path,) = plot_layout(Layout((2, 3, 4), (12, 1, 3)), tmp_path, "b", "svg")
    assert svg_cells(path)[4, 3][1] == [str(12 + 1 + 9)]
    (path,) = plot_layout(Fragment.replicated((4,), 8), tmp_path, "c", "svg")
    assert svg_cells(path)[0, 2][1] == ["T0x8", "r2"]


def test_errors(tmp_path):
    with pytest.raises(LayoutError, match="svg and png, not pdf"):
        plot_layout(ACCUMULATOR, tmp_path, formats="svg,pdf")
    with pytest.raises(LayoutError, match="cannot draw a list"):
        plot_layout([1, 2], tmp_path)


def test_a_narrow_picture_is_as_wide_as_its_title(tmp_path):
    fragment = Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, i // 8 * 2 + j % 2))
    (path,) = plot_layout(fragment, str(tmp_path), "mma", "svg")
    root = ElementTree.parse(path).getroot()
    title = max((text.text or "" for text in root.iter() if text.text), key=len)
    assert 7.9 * len(title) < float(root.get("width"))
