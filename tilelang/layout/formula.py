"""Layouts of more coordinates than a table should have: kept as what their function computes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tilelang import _ffi
from tilelang.errors import BoundsError, LayoutError
from tilelang.ir.dtype import INT32
from tilelang.ir.evaluate import variables
from tilelang.ir.expr import Expr, Var, as_expr, var
from tilelang.layout._tabulate import items_of, linear

if TYPE_CHECKING:
    import numpy

#: Coordinates of a layout that are evaluated one by one.
TABLE_LIMIT = 2**20
#: Values of one digit that are compared with each other.
_DIGIT_LIMIT = 2**24


class FormulaLayout:
    """A map from the coordinates of a large shape to an integer: of a tensor in global memory.

    ``Layout(shape, function)`` gives one where the shape has more than 2**20 elements. The function
    is arithmetic: sums, products, ``//``, ``%``, shifts and bitwise operations of the coordinates.

    Attributes:
        input_shape: extents of the logical coordinates.
        size: number of coordinates.
        cosize: largest value plus one.
        is_injective: whether no two coordinates share a value.

    Raises:
        LayoutError: the function is no such arithmetic, or one of its results depends on
            coordinates of more than 2**24 elements together.
    """

    def __init__(self, extents: Sequence[int], function: Callable[..., Any]) -> None:
        self.input_shape = tuple(extents)
        self.size = prod(extents)
        self.coordinates = [var(f"i{dim}", INT32) for dim in range(len(extents))]
        self._function = function
        try:
            outputs = [as_expr(item) for item in items_of(function(*self.coordinates))]
        except Exception as error:
            raise LayoutError(
                f"a layout of {self.size} elements is an expression of its coordinates; its "
                f"function raises {type(error).__name__}: {error}"
            ) from error
        groups = self._groups(outputs)
        digits = {number: values for group in groups for number, values in self._digits(*group)}
        self._extents = [int(digits[number].max()) + 1 for number in range(len(outputs))]
        self.cosize = prod(self._extents)
        self.is_injective = all(self._tells_apart(dims, outs, digits) for dims, outs in groups)
        self.value: Expr = as_expr(linear(outputs, self._extents))

    def _groups(self, outputs: list[Expr]) -> list[tuple[list[int], list[int]]]:
        """Coordinates and the results that depend on them, apart where they have none in common."""
        groups: list[tuple[set[int], set[int]]] = [
            ({dim}, set()) for dim in range(len(self.input_shape))
        ]
        constants = []
        for number, output in enumerate(outputs):
            used = {self._dimension(each) for each in variables(output)}
            together = [group for group in groups if group[0] & used]
            groups = [group for group in groups if not group[0] & used]
            if together:
                dims = set().union(*(group[0] for group in together))
                groups.append((dims, set().union({number}, *(group[1] for group in together))))
            else:
                constants.append(number)
        ordered = [(sorted(dims), sorted(outs)) for dims, outs in groups]
        return [*ordered, ([], constants)] if constants else ordered

    def _dimension(self, variable: Var) -> int:
        for dim, coordinate in enumerate(self.coordinates):
            if coordinate.same_as(variable):
                return dim
        raise LayoutError(f"a layout's function uses {variable.name}, which is no coordinate of it")

    def _digits(self, dims: list[int], outs: list[int]) -> list[tuple[int, numpy.ndarray]]:
        """The values of results at all of the coordinates that they depend on."""
        import numpy as np

        extents = [self.input_shape[dim] for dim in dims]
        if prod(extents) > _DIGIT_LIMIT:
            raise LayoutError(
                f"a layout whose result depends on dimensions {dims} of extents {extents} together "
                f"has more than {_DIGIT_LIMIT} values to compare"
            )
        grid = iter(np.ix_(*(np.arange(extent) for extent in extents)))
        at = [next(grid) if dim in dims else 0 for dim in range(len(self.input_shape))]
        try:
            results = items_of(self._function(*at))
            found = [(n, np.broadcast_to(np.asarray(results[n], np.int64), extents)) for n in outs]
        except Exception as error:
            raise LayoutError(
                "the function of a large layout is arithmetic, without conditions; it raises "
                f"{type(error).__name__}: {error}"
            ) from error
        if any(values.min() < 0 for _, values in found):
            raise LayoutError("a layout's function must return non-negative indices")
        return found

    def _tells_apart(self, dims: list[int], outs: list[int], digits: dict[int, Any]) -> bool:
        import numpy as np

        count = prod(self.input_shape[dim] for dim in dims)
        if not outs:
            return count == 1
        number: Any = 0
        for each in outs:
            number = number * self._extents[each] + digits[each]
        return len(np.unique(number)) == count

    def forward(self, *coord: int) -> int:
        """The value at a coordinate; BoundsError outside the shape."""
        place = tuple(map(operator.index, coord))
        inside = len(place) == len(self.input_shape) and all(
            0 <= index < extent for index, extent in zip(place, self.input_shape, strict=False)
        )
        if not inside:
            raise BoundsError(f"coordinate {place} is outside of shape {self.input_shape}")
        return int(linear(items_of(self._function(*place)), self._extents))

    __call__ = forward

    def forward_expr(self, *indices: Any) -> Expr:
        """The value at symbolic coordinates (IR expressions of int32)."""
        return as_expr(linear(items_of(self._function(*indices)), self._extents))

    def __repr__(self) -> str:
        names = ", ".join(coordinate.name for coordinate in self.coordinates)
        return f"({names}) -> {self.value}"


def place_formula(layout: Any) -> Any:
    """The place of an element as an expression of its coordinates, for passes of the compiler.

    Raises:
        UnsupportedError: a table from a function that branches on its arguments.
    """
    if isinstance(layout, FormulaLayout):
        return _formula(layout.coordinates, layout.value)
    coordinates = [var(f"i{dim}", INT32) for dim in range(len(layout.input_shape))]
    return _formula(coordinates, layout.forward_expr(*coordinates))


_formula = _ffi.get("layout.Formula")

__all__ = ["TABLE_LIMIT", "FormulaLayout", "place_formula"]
