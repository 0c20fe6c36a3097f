"""The order in which the blocks of a grid are numbered, as a hint says it."""

from __future__ import annotations

import dataclasses


class Rasterization:
    """An order of blocks."""


@dataclasses.dataclass(frozen=True)
class NoRasterization(Rasterization):
    """That of the grid."""


@dataclasses.dataclass(frozen=True)
class Rasterization2DRow(Rasterization):
    """Panels of rows: ``T.use_swizzle(panel_width)``.

    Attributes:
        panel_width: rows of blocks in a panel.
    """

    panel_width: int = 4


@dataclasses.dataclass(frozen=True)
class Rasterization2DColumn(Rasterization):
    """Panels of columns: ``T.use_swizzle(panel_width, order="column")``.

    Attributes:
        panel_width: columns of blocks in a panel.
    """

    panel_width: int = 4
