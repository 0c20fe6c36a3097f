"""The tensors that kernels are tuned with, where the user gives them."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

_inputs: contextvars.ContextVar[tuple[Any, ...] | None] = contextvars.ContextVar(
    "autotune_inputs", default=None
)


@contextlib.contextmanager
def set_autotune_inputs(*args: Any) -> Iterator[None]:
    """Lets kernels that are tuned inside be measured with these arguments.

    Args:
        args: what a call of the kernel takes, one by one or as one list or tuple; without the
            outputs that ``out_idx`` names.
    """
    given = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    token = _inputs.set(tuple(given))
    try:
        yield
    finally:
        _inputs.reset(token)


def get_autotune_inputs() -> tuple[Any, ...] | None:
    """Returns the arguments of the innermost :func:`set_autotune_inputs`, or None."""
    return _inputs.get()
