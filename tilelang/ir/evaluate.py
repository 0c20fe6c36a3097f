"""Expressions of sizes, computed with Python's numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from .. import _ffi, errors
from .expr import (
    Binary,
    BinaryOp,
    Cast,
    Expr,
    IntImm,
    Operand,
    Select,
    Unary,
    UnaryOp,
    Var,
    as_expr,
)

_solve_for = _ffi.get("runtime.SolveFor")

_OPERATORS: dict[int, Callable[[Any, Any], Any]] = {
    BinaryOp.ADD: operator.add,
    BinaryOp.SUB: operator.sub,
    BinaryOp.MUL: operator.mul,
    BinaryOp.FLOOR_DIV: operator.floordiv,
    BinaryOp.FLOOR_MOD: operator.mod,
    BinaryOp.MIN: min,
    BinaryOp.MAX: max,
    BinaryOp.EQ: operator.eq,
    BinaryOp.NE: operator.ne,
    BinaryOp.LT: operator.lt,
    BinaryOp.LE: operator.le,
    BinaryOp.GT: operator.gt,
    BinaryOp.GE: operator.ge,
}


def evaluate(expr: Any, values: Mapping[Var, Any]) -> Any:
    """Returns the value of a size.

    Args:
        expr: an int, or an expression of integers.
        values: of its variables: ints, or what behaves as such (symbolic sizes of torch).

    Raises:
        UnsupportedError: the expression is no size of a launch.
    """
    if not isinstance(expr, Operand):
        return expr
    expr = as_expr(expr)
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return values[expr]
    if isinstance(expr, Binary) and expr.op in _OPERATORS:
        return _OPERATORS[expr.op](evaluate(expr.a, values), evaluate(expr.b, values))
    if isinstance(expr, Unary) and expr.op == UnaryOp.NEG:
        return -evaluate(expr.a, values)
    if isinstance(expr, Select):
        chosen = evaluate(expr.condition, values)
        return evaluate(expr.true_value if chosen else expr.false_value, values)
    if isinstance(expr, Cast):
        return evaluate(expr.value, values)
    raise errors.UnsupportedError(f"`{expr}` is no size that the host can compute")


def variables(expr: Any) -> list[Var]:
    """Returns the variables of a size, each once, in the order of their appearance."""
    if isinstance(expr, Var):
        return [expr]
    if not isinstance(expr, Expr):
        return []
    found: list[Var] = []
    parts = ("a", "b", "condition", "true_value", "false_value", "value")
    for part in parts:
        for each in variables(getattr(expr, part, None)):
            if not any(each.same_as(other) for other in found):
                found.append(each)
    return found


def solve(expr: Any, unknown: Var, extent: int, values: Mapping[Var, int]) -> int | None:
    """Returns the value of ``unknown`` for which a size is ``extent``.

    Args:
        expr: the size: sums, differences and products, with ``unknown`` once in it.
        unknown: one of its variables.
        extent: what the size is.
        values: of the other variables.

    Returns:
        The value, rounded down where there is none exactly; None for other forms of ``expr``.
    """
    inverse = _solve_for(as_expr(expr), unknown, as_expr(extent))
    return None if inverse is None else int(evaluate(inverse, values))
