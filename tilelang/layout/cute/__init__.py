"""CuTe's algebra of layouts: the first axis is the fastest one, and strides may be axes.

The layouts of :mod:`tilelang.layout` read coordinates row-major. ``Layout.from_tilelang`` and
``to_tilelang`` convert.
"""

from .algebra import (
    blocked_product,
    complement,
    filter,
    left_inverse,
    logical_divide,
    logical_product,
    restrict,
    right_inverse,
    tiled_product,
)
from .int_tuple import (
    E,
    IntTuple,
    ScaledBasis,
    compatible,
    congruent,
    flatten_to_tuple,
    from_python,
    product,
    to_python,
)
from .layout import (
    Layout,
    coalesce,
    composition,
    coshape,
    cosize,
    flatten,
    make_column_major_layout,
    make_identity_layout,
    make_layout,
    make_row_major_layout,
    rank,
)
from .swizzle import ComposedLayout, Swizzle


def size(layout: Layout | ComposedLayout) -> object:
    """Returns the number of coordinates of a layout."""
    return product((layout.layout if isinstance(layout, ComposedLayout) else layout).shape)


__all__ = [
    "ComposedLayout",
    "E",
    "IntTuple",
    "Layout",
    "ScaledBasis",
    "Swizzle",
    "blocked_product",
    "coalesce",
    "compatible",
    "complement",
    "composition",
    "congruent",
    "coshape",
    "cosize",
    "filter",
    "flatten",
    "flatten_to_tuple",
    "from_python",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_column_major_layout",
    "make_identity_layout",
    "make_layout",
    "make_row_major_layout",
    "product",
    "rank",
    "restrict",
    "right_inverse",
    "size",
    "tiled_product",
    "to_python",
]
