"""Registers the methods that the language adds to buffers and types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Extensions:
    """Functions of the language.

    Attributes:
        access_ptr: of a buffer; ``T.access_ptr``.
        gather, scatter: elements of a buffer at a vector of indices.
        assign: what a slice is assigned; false if it takes no vector.
        extent_variable: of a type; ``n = T.int32()``.
        narrow_type: the type of 4, 6 or 8 bits that a name or a type of torch means, or None.
        as_declared: a tensor parameter in the type of its annotation.
    """

    access_ptr: Callable[..., Any]
    gather: Callable[[Any, Any], Any]
    scatter: Callable[[Any, Any, Any], None]
    assign: Callable[[Any, Any], bool]
    extent_variable: Callable[[Any], Any]
    narrow_type: Callable[[Any], Any]
    as_declared: Callable[[Any], Any]


extensions = Extensions()

__all__ = ["Extensions", "extensions"]
