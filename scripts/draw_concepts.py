"""Draws pictures of docs/pictures/: concepts.svg, what becomes of a program and where its data are;
epilogue.svg, the result of a gemm on the whole tile and in slices.

python scripts/draw_concepts.py [FOLDER]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2430; }
  .head { font-weight: 600; }
  .note { font-size: 11.5px; fill: #5b6270; }
  rect { rx: 6; stroke-width: 1.2; }
  .program { fill: #e8eefc; stroke: #5b7fd6; }
  .compiler { fill: #eef0f4; stroke: #8a93a6; }
  .machine { fill: #e4f4e9; stroke: #4c9a68; }
  .memory { fill: #fdf1dd; stroke: #d29b3f; }
  .arrow { stroke: #5b6270; stroke-width: 1.4; fill: none; marker-end: url(#tip); }
  .paper { fill: #ffffff; stroke: none; rx: 0; }
"""


@dataclass(frozen=True)
class Box:
    """A rectangle with a headline and notes below it."""

    x: int
    y: int
    width: int
    height: int
    kind: str
    head: str
    notes: tuple[str, ...] = ()

    def svg(self) -> str:
        """Returns the box as SVG."""
        middle = self.x + self.width / 2
        first = self.y + self.height / 2 + 5 - 8 * len(self.notes)
        parts = [
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}" '
            f'height="{self.height}"/>',
            _text(middle, first, self.head, "head"),
        ]
        parts += [_text(middle, first + 17 * (i + 1), n, "note") for i, n in enumerate(self.notes)]
        return "\n".join(parts)


_PROGRAM = (
    Box(20, 24, 150, 74, "program", "Python kernel", ("operators on tiles", "T.copy, T.gemm, ...")),
    Box(210, 24, 140, 74, "compiler", "tile IR", ("layouts, roles,", "channels")),
    Box(390, 24, 140, 74, "compiler", "thread IR", ("instructions, waits,", "fences, barriers")),
    Box(570, 24, 120, 74, "compiler", "CUDA C++", ("readable source",)),
    Box(730, 24, 150, 74, "compiler", "PTX, cubin", ("NVRTC, in process",)),
    Box(
        570,
        148,
        150,
        66,
        "machine",
        "emulator",
        ("any machine: races,", "findings, predicted time"),
    ),
    Box(730, 148, 150, 66, "machine", "GPU", ("through the driver",)),
)
_MEMORY = (
    Box(20, 322, 140, 100, "memory", "global memory", ("T.Tensor", "all blocks")),
    Box(
        262, 322, 160, 100, "memory", "shared memory", ("T.alloc_shared", "a block, or its cluster")
    ),
    Box(500, 256, 160, 62, "memory", "registers", ("T.alloc_fragment",)),
    Box(500, 426, 160, 62, "memory", "tensor memory", ("T.alloc_tmem, sm_100a",)),
    Box(760, 322, 120, 100, "machine", "tensor core", ("T.gemm",)),
)
# The begin and the end of each arrow, its label, and the middle of the label.
_ARROWS = (
    (170, 61, 210, 61, "", 0, 0),
    (350, 61, 390, 61, "", 0, 0),
    (530, 61, 570, 61, "", 0, 0),
    (690, 61, 730, 61, "", 0, 0),
    (790, 98, 670, 148, "", 0, 0),
    (805, 98, 805, 148, "", 0, 0),
    (160, 356, 262, 356, "TMA, cp.async", 211, 348),
    (262, 388, 160, 388, "TMA, st", 211, 404),
    (422, 334, 500, 290, "ldmatrix", 430, 300),
    (500, 308, 422, 352, "stmatrix", 494, 345),
    (422, 372, 760, 372, "wgmma, tcgen05.mma", 688, 365),
    (422, 405, 500, 448, "tcgen05.cp", 430, 448),
    (560, 426, 560, 318, "tcgen05.ld", 524, 398),
    (612, 318, 612, 426, "tcgen05.st", 648, 398),
    (660, 280, 770, 322, "mma, wgmma", 760, 290),
    (760, 338, 660, 300, "", 0, 0),
    (660, 462, 790, 422, "tcgen05.mma", 752, 462),
    (760, 408, 660, 444, "", 0, 0),
)


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="middle">{escape(text)}</text>'


def _arrow(x0: int, y0: int, x1: int, y1: int, label: str, x: int, y: int) -> str:
    line = f'<path class="arrow" d="M{x0} {y0} L{x1} {y1}"/>'
    return line + (_text(x, y, label, "note") if label else "")


def _label(y: int, text: str, kind: str = "note") -> str:
    return f'<text class="{kind}" x="20" y="{y}">{escape(text)}</text>'


def _picture(title: str, height: int, parts: list[str]) -> str:
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#5b6270"/></marker>'
    )
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" '
        f'width="900" height="{height}" role="img">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style><defs>{tip}</defs>",
        f'<rect class="paper" width="900" height="{height}"/>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def concepts() -> str:
    """Returns concepts.svg."""
    title = "From a kernel in Python to the emulator and the GPU, and the memories of its data"
    arrows = [_arrow(*arrow) for arrow in _ARROWS]
    return _picture(title, 510, [*arrows, *(box.svg() for box in (*_PROGRAM, *_MEMORY))])


def _lane(y: int, kind: str, *spans: tuple[int, int, str]) -> list[str]:
    """Boxes of one unit along the time, each from where to where."""
    return [Box(x0, y, x1 - x0, 28, kind, text).svg() for x0, x1, text in spans]


def epilogue() -> str:
    """Returns epilogue.svg."""
    first, step = 452, 92
    slices = range(4)
    starts = [first + step * p for p in slices]
    parts = [
        _label(24, "the whole tile: 128 results a thread, and what they are computed with", "head"),
        *(_label(y, name) for y, name in ((55, "tensor core"), (91, "threads"), (127, "stores"))),
        *_lane(36, "compiler", (120, 370, "gemm")),
        *_lane(72, "machine", (370, 470, "load bias, R"), (470, 760, "compute 256 columns")),
        *_lane(108, "memory", (760, 884, "by threads")),
        _label(180, "in slices of columns: the registers of a slice", "head"),
        *(_label(y, name) for y, name in ((211, "tensor core"), (247, "loads"))),
        *(_label(y, name) for y, name in ((283, "threads"), (319, "stores"))),
        *_lane(192, "compiler", (120, 370, "gemm")),
        *_lane(228, "program", (240, 370, "bias, R 0")),
        *_lane(
            228, "program", *((starts[p] - 82, starts[p] + 2, f"R {p + 1}") for p in slices[:3])
        ),
        *_lane(264, "machine", *((x - 82, x + 2, f"slice {p}") for p, x in enumerate(starts))),
        *_lane(300, "memory", *((x + 8, x + 70, f"slot {p % 2}") for p, x in enumerate(starts))),
    ]
    return _picture("The result of a gemm on the whole tile and in slices of columns", 344, parts)


PICTURES_OF = {"concepts.svg": concepts, "epilogue.svg": epilogue}


def main() -> None:
    """Writes the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    for name, draw in PICTURES_OF.items():
        (folder / name).write_text(draw())


if __name__ == "__main__":
    main()
