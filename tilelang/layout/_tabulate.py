"""Turns a user's index function into the table of its values, and into an expression."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tilelang.errors import LayoutError, UnsupportedSyntaxError
from tilelang.ir.dtype import INT32
from tilelang.ir.expr import Expr, Var, as_expr, var


def checked_shape(shape: Any) -> tuple[int, ...]:
    """``shape`` (an int or a sequence of ints) as a tuple; LayoutError unless all are >= 1."""
    items = shape if isinstance(shape, Sequence) else (shape,)
    try:
        extents = tuple(operator.index(extent) for extent in items)
    except (TypeError, UnsupportedSyntaxError):
        raise LayoutError(
            f"a layout's shape must be constant integers, but it is {shape}"
        ) from None
    if not extents or min(extents) < 1:
        raise LayoutError(f"a layout's shape must have extents of at least 1, but it is {shape}")
    return extents


def items_of(result: Any) -> tuple[Any, ...]:
    """Converts the result of a function to indices: one index, or several."""
    return tuple(result) if isinstance(result, Sequence) else (result,)


def _evaluate(function: Callable[..., Any], coord: tuple[int, ...]) -> tuple[int, ...]:
    result = function(*coord)
    try:
        return tuple(operator.index(item) for item in items_of(result))
    except TypeError:
        raise LayoutError(
            f"a layout's function must return integers, but at {coord} it returns {result!r}"
        ) from None


def linear(items: Sequence[Any], extents: Sequence[int]) -> Any:
    """The row-major linear index of ``items`` in the shape ``extents``."""
    index = items[0]
    for item, extent in zip(items[1:], extents[1:], strict=True):
        index = index * extent + item
    return index


def _trace(
    function: Callable[..., Any], coordinates: Sequence[Expr], extents: Sequence[int]
) -> Expr | None:
    try:
        index = as_expr(linear(items_of(function(*coordinates)), extents))
    except Exception:  # whatever a user's function does with what is no int
        return None
    return index if index.dtype == INT32 else None


@functools.cache
def coordinate(dim: int) -> Var:
    """The variable that stands for the coordinate along a dimension."""
    return var(f"i{dim}", INT32)


class IndexFunction(NamedTuple):
    """The values of a function of the coordinates."""

    #: At every coordinate, row-major.
    values: list[int]
    coordinates: list[Var]
    #: The same as an expression of ``coordinates``; None for a function that branches on its
    #: arguments, or takes them as an index of a list.
    formula: Expr | None
    #: Of the smallest shape that holds the indices that the function returns.
    extents: list[int]


def tabulate(shape: Sequence[int], function: Callable[..., Any]) -> IndexFunction:
    """Evaluates ``function(*coord)`` at every coordinate, and at variables.

    A function that returns several indices gives a row-major linear index into the smallest
    shape that holds all of them.
    """
    coords = itertools.product(*(range(extent) for extent in shape))
    rows = [_evaluate(function, coord) for coord in coords]
    if any(len(row) != len(rows[0]) or min(row) < 0 for row in rows):
        raise LayoutError("a layout's function must return equally many non-negative indices")
    extents = [max(column) + 1 for column in zip(*rows, strict=True)]
    coordinates = [var(f"i{dim}", INT32) for dim in range(len(shape))]
    return IndexFunction(
        [linear(row, extents) for row in rows],
        coordinates,
        _trace(function, coordinates, extents),
        extents,
    )
