"""Makes parameters of kernels keys of dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def freeze(value: Any) -> Any:
    """Returns a hashable stand-in: equal for equal values of equal types, through containers."""
    if isinstance(value, Mapping):
        return (dict, tuple(sorted((str(k), freeze(v)) for k, v in value.items())))
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(freeze(item) for item in value))
    try:
        hash(value)
    except TypeError:
        return (type(value), repr(value))
    # 1, 1.0 and True are equal, but not the same parameter.
    return (type(value), value)
