"""Turns a user's index function into the table of its values."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from tilelang.errors import LayoutError


def checked_shape(shape: Any) -> tuple[int, ...]:
    """``shape`` (an int or a sequence of ints) as a tuple; LayoutError unless all are >= 1."""
    items = shape if isinstance(shape, Sequence) else (shape,)
    try:
        extents = tuple(operator.index(extent) for extent in items)
    except TypeError:
        raise LayoutError(
            f"a layout's shape must be constant integers, but it is {shape}"
        ) from None
    if not extents or min(extents) < 1:
        raise LayoutError(f"a layout's shape must have extents of at least 1, but it is {shape}")
    return extents


def _evaluate(function: Callable[..., Any], coord: tuple[int, ...]) -> tuple[int, ...]:
    result = function(*coord)
    items = result if isinstance(result, Sequence) else (result,)
    try:
        return tuple(operator.index(item) for item in items)
    except TypeError:
        raise LayoutError(
            f"a layout's function must return integers, but at {coord} it returns {result!r}"
        ) from None


def tabulate(shape: Sequence[int], function: Callable[..., Any]) -> list[int]:
    """Values of ``function(*coord)`` at every coordinate, row-major.

    A function that returns several indices gives a row-major linear index into the smallest
    shape that holds all of them.
    """
    coords = itertools.product(*(range(extent) for extent in shape))
    rows = [_evaluate(function, coord) for coord in coords]
    if any(len(row) != len(rows[0]) or min(row) < 0 for row in rows):
        raise LayoutError("a layout's function must return equally many non-negative indices")
    extents = [max(column) + 1 for column in zip(*rows, strict=True)]
    values = []
    for row in rows:
        index = 0
        for item, extent in zip(row, extents, strict=True):
            index = index * extent + item
        values.append(index)
    return values
