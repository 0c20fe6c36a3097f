"""Layouts from logical coordinates to one integer, and their algebra."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import tvm_ffi

from tilelang import _ffi
from tilelang.layout._tabulate import checked_shape, coordinate, tabulate
from tilelang.layout.formula import TABLE_LIMIT, FormulaLayout


def _call(name: str, *args: Any) -> Any:
    return _ffi.get(f"layout.{name}")(*args)


@tvm_ffi.register_object("tl.Layout")
class Layout(tvm_ffi.Object):
    """A map from the coordinates of a logical shape to an integer (usually an element index).

    ``Layout(shape)`` is row-major; ``Layout(shape, stride)`` is a CuTe-like tree, read row-major:
    nested tuples of ints, the last entry fastest at every level; ``Layout(shape, function)`` takes
    any function of the coordinates, evaluated at every one of them. A function that is a sum of
    digits of the coordinates, or an XOR swizzle of one, is stored in that form; of any other the
    values are kept, and the expression that it gives for variables. Of a function of more than
    2**20 coordinates, as of tensors in global memory, only the expression is kept: the result is a
    :class:`FormulaLayout`.

    Args:
        shape: extents, nested where ``stride`` is.
        stride_or_function: strides, congruent to ``shape``; or a function from one int per
            dimension to an int, or to several (which are then linearised row-major).
        offset: added to the tree's value.
        swizzle: ``(bits, base, shift)``: index bits ``[base+shift, base+shift+bits)`` are XORed
            into bits ``[base, base+bits)``, after the offset.

    Raises:
        LayoutError: shape and stride are not congruent, or something is negative.
    """

    __slots__ = ("_outputs",)
    extents: Sequence[int]
    shape: Any
    stride: Any
    offset: int
    swizzle_bits: int
    swizzle_base: int
    swizzle_shift: int

    def __new__(cls, shape: Any = None, stride_or_function: Any = None, **_options: Any) -> Any:
        if callable(stride_or_function):
            extents = checked_shape(shape)
            if prod(extents) > TABLE_LIMIT:
                return FormulaLayout(extents, stride_or_function)
        return super().__new__(cls)

    def __init__(
        self,
        shape: Any,
        stride_or_function: Any = None,
        *,
        offset: int = 0,
        swizzle: Sequence[int] = (),
    ) -> None:
        if callable(stride_or_function):
            extents = checked_shape(shape)
            table = tabulate(extents, stride_or_function)
            self.__init_handle_by_constructor__(
                _ffi.get("layout.FromFunction"),
                extents,
                table.values,
                table.coordinates,
                table.formula,
            )
            self._outputs = tuple(table.extents)
        elif stride_or_function is None:
            extents = checked_shape(shape)
            self.__init_handle_by_constructor__(_ffi.get("layout.RowMajor"), extents)
        else:
            self.__init_handle_by_constructor__(
                _ffi.get("layout.Tree"), shape, stride_or_function, offset, tuple(swizzle)
            )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Extents of the logical coordinates."""
        return tuple(self.extents)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Extents of the indices that the function returns; of other layouts, the cosize."""
        return getattr(self, "_outputs", (self.cosize,))

    def get_input_shape(self) -> tuple[int, ...]:
        """The method form of :attr:`input_shape`."""
        return self.input_shape

    def get_output_shape(self) -> tuple[int, ...]:
        """The method form of :attr:`output_shape`."""
        return self.output_shape

    @property
    def swizzle(self) -> tuple[int, int, int] | None:
        """``(bits, base, shift)``, or None."""
        if self.swizzle_bits == 0:
            return None
        return (self.swizzle_bits, self.swizzle_base, self.swizzle_shift)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return _call("Size", self)

    @property
    def cosize(self) -> int:
        """Largest value plus one."""
        return _call("Cosize", self)

    @property
    def is_table(self) -> bool:
        """Returns whether the values are kept as a table: they are no swizzled sum of digits."""
        return _call("IsTable", self)

    @property
    def is_injective(self) -> bool:
        """Returns whether no two coordinates share a value."""
        return _call("IsInjective", self)

    def forward(self, *coord: int) -> int:
        """The value at a coordinate; BoundsError outside the shape."""
        return _call("Forward", self, coord)

    __call__ = forward

    def forward_expr(self, *indices: Any) -> Any:
        """The value at symbolic coordinates (IR expressions).

        Raises:
            UnsupportedError: a table from a function that branches on its arguments, or from
                no function.
        """
        return _call("ForwardExpr", self, list(indices))

    def values(self) -> list[int]:
        """All values, in row-major order of the coordinates."""
        return list(_call("Tabulate", self))

    def transpose(self, *axes: int) -> Layout:
        """Dimensions in another order (default: reversed)."""
        return _call("Transpose", self, axes or tuple(reversed(range(len(self.extents)))))

    def slice(self, begin: Sequence[int], extents: Sequence[int]) -> Layout:
        """The map restricted to a region, whose coordinates count from ``begin``."""
        return _call("Slice", self, tuple(begin), tuple(extents))

    def reshape(self, *extents: int) -> Layout:
        """Returns the layout with another shape of equal size."""
        return _call("Reshape", self, extents)

    def expand(self, leading: int | Sequence[int]) -> Layout:
        """The layout repeated under new leading dimensions, each of which is an index of its own.

        Args:
            leading: extents of the new dimensions, outermost first.

        Raises:
            TypeError: ``leading`` is neither an integer nor a sequence of integers.
            LayoutError: an extent below 1.
        """
        if isinstance(leading, str):
            raise TypeError(f"Layout.expand takes integers, not {leading!r}")
        outer = tuple(leading) if isinstance(leading, Sequence) else (leading,)
        if not outer:
            return self
        outer = checked_shape(tuple(operator.index(extent) for extent in outer))
        size = prod(self.output_shape)
        values = self.values()
        places = [copy * size + value for copy in range(prod(outer)) for value in values]
        expanded = _call("FromValues", (*outer, *self.input_shape), places)
        expanded._outputs = (*outer, *self.output_shape)
        return expanded

    def is_equal(self, other: Layout) -> bool:
        """Another name of :meth:`same_map`."""
        return self.same_map(other)

    def get_linearized_forward_index(self) -> Any:
        """The value as an expression of one variable for each dimension.

        The variables are the same for every layout, so that expressions can be compared.
        """
        return self.forward_expr(*(coordinate(dim) for dim in range(len(self.extents))))

    def __add__(self, other: Layout) -> Layout:
        """Sum of the values at every coordinate; both have one shape."""
        return _call("Add", self, other)

    def same_map(self, other: Layout) -> bool:
        """Equality as functions: one shape, one value everywhere."""
        return _call("SameMap", self, other)

    def _repr_svg_(self) -> str | None:
        from .plot_layout import layout_svg

        return layout_svg(self)

    def __repr__(self) -> str:
        return _call("ToString", self)


def coalesce(layout: Layout) -> Layout:
    """The shortest rank-1 layout with the same value at every linear index."""
    return _call("Coalesce", layout)


def composition(outer: Layout, inner: Layout) -> Layout:
    """``outer(inner(c))``: inner's values are linear indices of outer; keeps inner's shape.

    Raises:
        LayoutError: inner reaches beyond outer, or the result is no shape:stride layout.
    """
    return _call("Composition", outer, inner)


def complement(layout: Layout, size: int) -> Layout:
    """Returns the layout whose values plus values of ``layout`` reach ``range(size)`` once."""
    return _call("Complement", layout, operator.index(size))


def right_inverse(layout: Layout) -> Layout:
    """The longest ``R`` with ``layout(R(i)) == i``."""
    return _call("RightInverse", layout)


def left_inverse(layout: Layout) -> Layout:
    """``R`` with ``R(layout(i)) == i``; the layout must be injective."""
    return _call("LeftInverse", layout)


def concatenate(*layouts: Layout) -> Layout:
    """The modes of several layouts side by side."""
    return _call("Concatenate", list(layouts))


def logical_product(block: Layout, copies: Layout) -> Layout:
    """``(copies, block)``: the block repeated over its complement in the order of ``copies``."""
    return _call("LogicalProduct", block, copies)


def logical_divide(layout: Layout, tile: Layout | Sequence[int]) -> Layout:
    """``(rest, tile)`` for a layout as tiler; ``((rest0, tile0), ...)`` for a tuple of extents."""
    if isinstance(tile, Layout):
        return _call("LogicalDivide", layout, tile)
    return _call("LogicalDivideDims", layout, tuple(tile))


def zipped_divide(layout: Layout, tile: Sequence[int]) -> Layout:
    """``((rest0, rest1, ...), (tile0, tile1, ...))``."""
    return _call("ZippedDivide", layout, tuple(tile))


def tiled_divide(layout: Layout, tile: Sequence[int]) -> Layout:
    """``(rest0, rest1, ..., (tile0, tile1, ...))``."""
    return _call("TiledDivide", layout, tuple(tile))
