"""Tensors that a call leaves out: None is passed for them.

A function may ask for them (``if X is not None``), so None is no error by itself. It is one where
the body declares such a parameter, or uses it.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
from collections.abc import Iterator, Mapping
from typing import Any

from .. import errors
from ..ir.buffer import shape_text
from .tensor import TensorType


def described_type(declared: Any) -> str:
    """Returns the type of a parameter for messages: ``float32 tensor (N)``."""
    if isinstance(declared, TensorType):
        return f"{declared.dtype} tensor {shape_text(list(declared.shape))}"
    return str(declared)


def absent(name: str, declared: Any, place: errors.Span | None) -> errors.ArgumentError:
    """Returns the error of None for a parameter."""
    return errors.ArgumentError(
        f"{name} is declared as {described_type(declared)}, but the argument is None",
        span=place,
        notes=[f"where it may be left out, ask first: `if {name} is not None`"],
    )


@contextlib.contextmanager
def absences(annotated: Mapping[str, Any]) -> Iterator[None]:
    """Turns errors of uses of None into errors of the argument.

    Args:
        annotated: the types of the parameters for which None is passed, by name.
    """
    try:
        yield
    except errors.CompileError as error:
        if "NoneType" in error.message:
            for name in _names_in(error.span):
                if name in annotated:
                    raise absent(name, annotated[name], error.span) from None
        raise


def _names_in(place: errors.Span | None) -> Iterator[str]:
    """The names in the expression or statement at a place of the source."""
    if place is None:
        return
    lines = linecache.getlines(place.file)[place.line - 1 : (place.end_line or place.line)]
    if lines and place.end_col and place.end_line == place.line:
        lines = [lines[0][place.col - 1 : place.end_col - 1]]
    try:
        tree = ast.parse("".join(lines).strip())
    except SyntaxError:
        return
    yield from (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
