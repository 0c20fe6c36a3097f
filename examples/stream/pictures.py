"""Plots of the scripts beside this file, as SVG."""

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence

_COLORS = ("#4878a8", "#d06040", "#50a070", "#8868a8")
_LEFT, _TOP, _WIDTH, _HEIGHT = 70, 30, 560, 200


def steps(
    title: str,
    across: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    limits: Mapping[str, float],
) -> str:
    """Returns a plot of values that stay until they change.

    Args:
        title: above it.
        across: what the horizontal axis is.
        lines: points of each line by name, from left to right.
        limits: values that are drawn as dashed lines, by name.
    """
    right = max(x for points in lines.values() for x, _ in points)
    top = max([y for points in lines.values() for _, y in points] + list(limits.values())) * 1.15

    def place(x: float, y: float) -> str:
        return f"{_LEFT + x / right * _WIDTH:.1f},{_TOP + (1 - y / top) * _HEIGHT:.1f}"

    height = _TOP + _HEIGHT + 34 + 16 * (len(lines) + len(limits))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="660" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="660" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-size="14">{title}</text>',
        f'<path d="M{place(0, top)} L{place(0, 0)} L{place(right, 0)}" fill="none" '
        'stroke="black"/>',
        f'<text x="{_LEFT + _WIDTH}" y="{_TOP + _HEIGHT + 18}" text-anchor="end">{across}</text>',
    ]
    for k in range(5):
        y = top / 1.15 * k / 4
        parts.append(
            f'<text x="{_LEFT - 6}" y="{place(0, y).split(",")[1]}" text-anchor="end" '
            f'dominant-baseline="middle">{y:.4g}</text>'
        )
    legend = _TOP + _HEIGHT + 34
    for color, (name, points) in zip(_COLORS, lines.items(), strict=False):
        path, last = [f"M{place(*points[0])}"], points[0]
        for point in points[1:]:
            path += [f"L{place(point[0], last[1])}", f"L{place(*point)}"]
            last = point
        parts.append(
            f'<path d="{" ".join(path)}" fill="none" stroke="{color}" stroke-width="1.5"/>'
        )
        parts.append(f'<text x="{_LEFT}" y="{legend}" fill="{color}">{name}</text>')
        legend += 16
    for name, y in limits.items():
        parts.append(
            f'<path d="M{place(0, y)} L{place(right, y)}" stroke="gray" stroke-dasharray="4 3"/>'
        )
        parts.append(f'<text x="{_LEFT}" y="{legend}" fill="gray">dashed: {name}, {y:g}</text>')
        legend += 16
    return "\n".join([*parts, "</svg>"]) + "\n"


def images(title: str, pictures: Mapping[str, Sequence[Sequence[float]]], side: int = 160) -> str:
    """Returns images beside each other, all of the same size; elements are 0 to 1."""
    width = (side + 20) * len(pictures) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{side + 70}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{side + 70}" fill="white"/>',
        f'<text x="20" y="20" font-size="14">{title}</text>',
    ]
    for place, (name, rows) in enumerate(pictures.items()):
        left = 20 + place * (side + 20)
        parts.append(f'<text x="{left}" y="{side + 55}">{name}</text>')
        parts.append(
            f'<image x="{left}" y="35" width="{side}" height="{side}" '
            f'style="image-rendering:pixelated" href="data:image/png;base64,{_png(rows)}"/>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _png(rows: Sequence[Sequence[float]]) -> str:
    """Returns a gray picture in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        ends = struct.pack(">I", len(data)), struct.pack(">I", zlib.crc32(kind + data))
        return ends[0] + kind + data + ends[1]

    lines = b"".join(bytes([0, *(round(255 * value) for value in row)]) for row in rows)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(lines, 9)), chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()
