"""Automatic reduction of a failing program: ``python -m tilelang.autodd``.

The tool deletes and simplifies parts of a Python program as long as its output still has a given
text, by default a part of an error message. What is left is a small program with the same failure.
It uses nothing of the compiler.

A program keeps parts from being changed by ``with __freeze__:`` or ``__freeze__(expression)``, by
the comment ``# autodd: freeze`` for a line, and by ``# autodd: freeze-start`` and
``# autodd: end-freeze`` for several lines.
"""

from __future__ import annotations

from typing import Any


class _Freeze:
    """Marks code that stays as it is; it has no effect when the program runs."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, value: Any) -> Any:
        """Returns ``value``."""
        return value


__freeze__ = _Freeze()

__all__ = ["__freeze__"]
