"""How the kernels of right_kernels.py and wrong_kernels.py are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Case(NamedTuple):
    """A kernel with its arguments.

    Attributes:
        shapes: for ``check --shapes``.
        inputs: makes random arguments for ``grade``.
    """

    shapes: str
    inputs: Callable[[], list[Any]]


def normal(
    *shapes: tuple[int, ...], dtype: str = "float32", scale: float = 1.0, absolute: bool = False
) -> Callable[[], list[Any]]:
    """Makes tensors of normal random numbers."""

    def make() -> list[Any]:
        values = [torch.randn(shape) for shape in shapes]
        values = [each.abs() if absolute else each for each in values]
        return [(each * scale).to(getattr(torch, dtype)) for each in values]

    return make


def integers(*shapes: tuple[int, ...], dtype: str = "int32") -> Callable[[], list[Any]]:
    """Makes tensors of small random integers."""
    return lambda: [torch.randint(-3, 4, shape).to(getattr(torch, dtype)) for shape in shapes]
