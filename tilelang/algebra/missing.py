"""Finds which terms of a sum a kernel has left out, or added twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.algebra.elements import Elements, same, where

#: Least parts into which an axis is divided, if it is as long; parts are powers of two long.
_PARTS = 8


def lacking(
    reference: Callable[[list[Any]], Elements], inputs: list[Any], got: Elements
) -> str | None:
    """Says which run of an input's axis is missing from a result, or counted twice.

    Args:
        reference: returns the element that should have come out, ``[]``, for inputs.
        inputs: those of the reference, of which those that are elements are tried.
        got: what came out.
    """
    whole = reference(inputs)
    for number, value in enumerate(inputs):
        if not isinstance(value, Elements) or value.ndim == 0:
            continue
        for axis in reversed(range(value.ndim)):
            found = _along(reference, inputs, number, axis, whole, got)
            if found is not None:
                return found
    return None


def _along(
    reference: Callable[[list[Any]], Elements], inputs: list[Any], number: int, axis: int,
    whole: Elements, got: Elements,
) -> str | None:  # fmt: skip
    value = inputs[number]
    extent = value.shape[axis]
    length = 1 << max(extent // _PARTS, 1).bit_length() - 1
    starts = list(range(0, extent, length))
    terms = [
        whole - reference(_without(inputs, number, axis, start, start + length)) for start in starts
    ]
    missing = whole - got
    for first in range(len(starts)):
        total = Elements.of(np.float64(0))
        for last in range(first, len(starts)):
            total = total + terms[last]
            run = f"{starts[first]}..{min(starts[last] + length, extent) - 1}"
            place = f"the terms of input {number} at {run} of axis {axis}"
            if _alike(total, missing):
                return f"it lacks {place}"
            if _alike(-total, missing):
                return f"it has {place} twice"
    return None


def _alike(a: Elements, b: Elements) -> bool:
    words = a.words.reshape(-1)
    return bool(same(a, b)) and bool((words[:2] & 0x3FFFFFFF).any())


def _without(inputs: list[Any], number: int, axis: int, start: int, end: int) -> list[Any]:
    value = inputs[number]
    places = np.arange(value.shape[axis]).reshape(-1, *[1] * (value.ndim - axis - 1))
    changed = where((places >= start) & (places < end), 0.0, value)
    return [changed if i == number else each for i, each in enumerate(inputs)]
