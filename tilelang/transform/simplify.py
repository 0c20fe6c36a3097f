"""Functions simplified by hand; compiling simplifies, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..ir.stmt import ir_function
from .passes import run_pass


def apply_simplify(func: Any) -> Any:
    """Returns a ``T.prim_func`` with its expressions simplified.

    Args:
        func: what ``@T.prim_func`` gives.
    """
    return run_pass("simplify", ir_function(func))


def simplify_prim_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function that returns a ``T.prim_func``: the result is simplified."""

    @functools.wraps(func)
    def simplified(*args: Any, **kwargs: Any) -> Any:
        return apply_simplify(func(*args, **kwargs))

    return simplified


__all__ = ["apply_simplify", "simplify_prim_func"]
