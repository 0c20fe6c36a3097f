"""Layouts: where the elements of a tile lie in memory, registers and tensor memory.

See ``docs/layouts.md``. Every layout maps logical coordinates (last dimension fastest) to
hardware coordinates; :class:`Layout` to one integer, :class:`Fragment` to (thread, register).
"""

from tilelang.layout.fragment import Conversion, Fragment, conversion
from tilelang.layout.layout import (
    Layout,
    coalesce,
    complement,
    composition,
    concatenate,
    left_inverse,
    logical_divide,
    logical_product,
    right_inverse,
    tiled_divide,
    zipped_divide,
)

__all__ = [
    "Conversion",
    "Fragment",
    "Layout",
    "coalesce",
    "complement",
    "composition",
    "concatenate",
    "conversion",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "right_inverse",
    "tiled_divide",
    "zipped_divide",
]
