"""Checks settings that must be integers."""

from __future__ import annotations

import operator
from typing import Any

from tilelang.errors import UserError


def integer(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """Returns ``value`` as an int.

    Args:
        name: of the setting, for messages.
        value: a Python int, or what counts as one (``numpy.int64``).
        low, high: the least and the greatest value; None: no limit.

    Raises:
        UserError: the value is no integer, or beyond the limits.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise UserError(f"{name} must be an integer, got {value!r}") from None
    if low is not None and number < low:
        raise UserError(f"{name} must be at least {low}, got {number}")
    if high is not None and number > high:
        raise UserError(f"{name} must be at most {high}, got {number}")
    return number
