"""Memory that kernels reach by addresses that they find in tensors."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

_tensors: contextvars.ContextVar[tuple[Any, ...]] = contextvars.ContextVar("tensors", default=())


@contextlib.contextmanager
def reachable(*tensors: Any) -> Iterator[None]:
    """Launches inside of the block may access these CPU tensors at their own addresses.

    A GPU's kernel reaches all memory of its process; the emulator's only that of its arguments. A
    program with a tensor of pointers says here what they point to::

        with tilelang.emulator.reachable(a, b):
            kernel(torch.tensor([a.data_ptr(), b.data_ptr()]), out)

    Blocks nest. A block is seen by its own thread only.
    """
    token = _tensors.set((*_tensors.get(), *tensors))
    try:
        yield
    finally:
        _tensors.reset(token)


def current() -> tuple[Any, ...]:
    """Returns the tensors that launches may reach here."""
    return _tensors.get()
