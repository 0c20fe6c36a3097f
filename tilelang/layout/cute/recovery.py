"""Finding the strides of a map that is given by its values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

#: Indices that a coordinate leads to.
Row = tuple[int, ...]


def recovered(shape: Sequence[int], rows: Sequence[Row]) -> tuple[Row, list[Any], list[Any]] | None:
    """Returns the base, shape and stride of a sum of multiples of digits of the coordinates.

    Args:
        shape: extents of the coordinates.
        rows: the values, row-major.

    Returns:
        None if the values are no such sum. Else the value at the origin; for each coordinate its
        extent, or a tuple of the extents of its digits, the lowest first; and of the same form,
        the steps of the digits. A level of digits is a list in the strides.
    """
    base = rows[0]
    extents: list[Any] = []
    strides: list[Any] = []
    pitch = len(rows)
    for extent in shape:
        pitch //= extent
        found = digits([_minus(rows[index * pitch], base) for index in range(extent)])
        if found is None:
            return None
        extents.append(found[0][0] if len(found) == 1 else tuple([size for size, _ in found]))
        strides.append(found[0][1] if len(found) == 1 else [steps for _, steps in found])
    if not _agrees(shape, rows, base, pitches(shape)):
        return None
    return base, extents, strides


def pitches(shape: Sequence[int]) -> list[int]:
    """Returns how far apart neighbours along each coordinate are, row-major."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _minus(row: Row, base: Row) -> Row:
    return tuple([a - b for a, b in zip(row, base, strict=True)])


def _agrees(shape: Sequence[int], rows: Sequence[Row], base: Row, steps: Sequence[int]) -> bool:
    """Returns whether the contributions of the coordinates add up, everywhere."""
    width = range(len(base))
    for number in width:
        lines = [
            [rows[index * step][number] - base[number] for index in range(extent)]
            for extent, step in zip(shape, steps, strict=True)
        ]
        sums = [base[number]]
        for line in lines:
            sums = [total + part for total, part in itertools.product(sums, line)]
        if any(row[number] != total for row, total in zip(rows, sums, strict=True)):
            return False
    return True


def digits(values: Sequence[Row]) -> list[tuple[int, Row]] | None:
    """Returns extents and steps of the digits of an index that give these values; the first is 0.

    A digit is as long as the values go on evenly. None if there are no such digits.
    """
    found: list[tuple[int, Row]] = []
    while len(values) > 1:
        step, count = values[1], len(values)
        even = next((i for i in range(count) if values[i] != _times(step, i)), count)
        length = max(size for size in range(1, even + 1) if count % size == 0)
        if length == 1:
            return None
        for start in range(0, count, length):
            if any(values[start + i] != _plus(values[start], values[i]) for i in range(1, length)):
                return None
        found.append((length, step))
        values = values[::length]
    return found or [(1, tuple([0] * len(values[0])))]


def _times(step: Row, count: int) -> Row:
    return tuple([each * count for each in step])


def _plus(a: Row, b: Row) -> Row:
    return tuple([x + y for x, y in zip(a, b, strict=True)])


__all__ = ["digits", "pitches", "recovered"]
