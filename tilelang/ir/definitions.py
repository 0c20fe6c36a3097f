"""The values of the names of a traced kernel."""

from __future__ import annotations

import threading

from .expr import Binary, Expr, IntImm, Var

Definitions = dict[Var, Expr]


class _Traced(threading.local):
    definitions: Definitions | None = None


_traced = _Traced()


def set_definitions(definitions: Definitions | None) -> Definitions | None:
    """Makes ``definitions`` those of this thread; returns what were before."""
    previous, _traced.definitions = _traced.definitions, definitions
    return previous


def define(variable: Var, value: Expr) -> None:
    """Notes that ``variable`` is ``value`` for good: arithmetic, which reads no memory."""
    if _traced.definitions is not None and _is_arithmetic(value):
        _traced.definitions[variable] = value


def definition(variable: Var) -> Expr | None:
    """Returns what ``variable`` is known to be."""
    return (_traced.definitions or {}).get(variable)


def _is_arithmetic(value: Expr) -> bool:
    if isinstance(value, Binary):
        return _is_arithmetic(value.a) and _is_arithmetic(value.b)
    return isinstance(value, (IntImm, Var))
