"""Draws docs/pictures/concepts.svg: what becomes of a program, and where its data are.

python scripts/draw_concepts.py [FOLDER]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
WIDTH, HEIGHT = 900, 420
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
    Box(20, 272, 140, 110, "memory", "global memory", ("T.Tensor", "all blocks")),
    Box(
        262, 272, 160, 110, "memory", "shared memory", ("T.alloc_shared", "a block, or its cluster")
    ),
    Box(500, 256, 150, 62, "memory", "registers", ("T.alloc_fragment",)),
    Box(500, 336, 150, 62, "memory", "tensor memory", ("T.alloc_tmem, sm_100a",)),
    Box(770, 296, 110, 62, "machine", "tensor core", ("T.gemm",)),
)
_ARROWS = (
    (170, 61, 210, 61, ""),
    (350, 61, 390, 61, ""),
    (530, 61, 570, 61, ""),
    (690, 61, 730, 61, ""),
    (790, 98, 670, 148, ""),
    (805, 98, 805, 148, ""),
    (160, 310, 262, 310, "TMA, cp.async"),
    (262, 345, 160, 345, "TMA, st"),
    (422, 310, 500, 287, "ldmatrix"),
    (422, 345, 500, 367, "tcgen05.cp"),
    (575, 318, 575, 336, ""),
    (650, 287, 770, 314, "mma, wgmma"),
    (650, 367, 770, 340, "tcgen05.mma"),
)


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="middle">{escape(text)}</text>'


def _arrow(x0: int, y0: int, x1: int, y1: int, label: str) -> str:
    line = f'<path class="arrow" d="M{x0} {y0} L{x1} {y1}"/>'
    below = label in ("TMA, st", "tcgen05.cp", "tcgen05.mma")
    y = max(y0, y1) + 15 if below else min(y0, y1) - 7
    return line + (_text((x0 + x1) / 2, y, label, "note") if label else "")


def draw() -> str:
    """Returns the picture as SVG."""
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#5b6270"/></marker>'
    )
    title = "From a kernel in Python to the emulator and the GPU, and the memories of its data"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style><defs>{tip}</defs>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        *(_arrow(*arrow) for arrow in _ARROWS),
        *(box.svg() for box in (*_PROGRAM, *_MEMORY)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Writes the picture."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    (folder / "concepts.svg").write_text(draw())


if __name__ == "__main__":
    main()
