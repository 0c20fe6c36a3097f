"""T.Parallel loops whose body contains barriers.

The threads share the iterations of such a loop, and some threads have none, so no thread can wait
inside an iteration. The iterations are independent. Hence the loop is divided: all iterations up to
the barrier, the barrier, and the rest of all iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import _ffi, errors, nodes
from ..ir.buffer import Buffer, Load
from ..ir.expr import Call, Var, var
from ..ir.span import for_error
from ..ir.stmt import Stmt

_seq, _bind, _substitute = (_ffi.get(f"ir.{name}") for name in ("Seq", "Bind", "Substitute"))

_PRIVATE = ("local", "local.var")


class Iterations(NamedTuple):
    """A loop over all iterations.

    Attributes:
        variables: of its dimensions, and of their chunks.
        close: makes the loop of its body.
    """

    variables: Sequence[Var]
    close: Callable[[Stmt, Any], Stmt]


def close_divided(
    body: Stmt, where: Any, first: Iterations, again: Callable[[], Iterations]
) -> Stmt:
    """Closes a loop around its body, divided at the barriers in it.

    Args:
        body: in the variables of ``first``.
        where: the place of the loop.
        first: the loop.
        again: makes another loop over the same iterations.

    Raises:
        SemanticsError: a value of an iteration is used on both sides of a barrier.
    """
    stmts = list(body.stmts) if isinstance(body, nodes.Seq) else [body]
    places = [n for n, stmt in enumerate(stmts) if isinstance(stmt, nodes.Barrier)]
    if not places:
        return first.close(body, where)
    found: list[Stmt] = []
    begin = 0
    for end in [*places, len(stmts)]:
        part = stmts[begin:end]
        if part and begin == 0:
            found.append(first.close(_seq(part, where), where))
        elif part:
            loop = again()
            names: dict[Var, Any] = dict(zip(first.variables, loop.variables, strict=True))
            carried = _carried(stmts[:begin], part, stmts[begin - 1], names)
            found.append(loop.close(_substitute(_seq([*carried, *part], where), names), where))
        found.extend(stmts[end : end + 1])
        begin = end + 1
    return _seq(found, where)


def _carried(
    before: Sequence[Stmt], part: Sequence[Stmt], barrier: Stmt, names: dict[Var, Any]
) -> list[Stmt]:
    """Returns the definitions before a barrier that a part behind it needs, under new names.

    ``names`` gets the new names.
    """
    used = _inside(part)
    stores = [each for each in _inside(before) if isinstance(each, nodes.Store)]
    for store in stores:
        # A thread keeps one value, and may have several iterations.
        if store.buffer.scope in _PRIVATE and _contains(used, store.buffer):
            raise _crosses(store.buffer.name, barrier)
    carried: list[Stmt] = []
    for stmt in reversed(before):
        if isinstance(stmt, nodes.Alloc) and _contains(used, stmt.buffer):
            raise _crosses(stmt.buffer.name, barrier)
        if not isinstance(stmt, nodes.Bind) or not _contains(used, stmt.var):
            continue
        parts = _inside([stmt.value])
        if any(isinstance(each, (Load, Call)) for each in parts):
            raise _crosses(stmt.var.name, barrier)
        used += parts
        names[stmt.var] = var(stmt.var.name, stmt.var.dtype)
        carried.insert(0, _bind(names[stmt.var], stmt.value, stmt.span))
    return carried


def _inside(parts: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for part in parts:
        _ffi.tvm_ffi.structural_walk(part, found.append)
    return found


def _contains(used: Sequence[Any], wanted: Any) -> bool:
    return any(isinstance(each, (Var, Buffer)) and wanted.same_as(each) for each in used)


def _crosses(name: str, barrier: Stmt) -> errors.SemanticsError:
    return errors.SemanticsError(
        f"the barrier divides this T.Parallel loop, but `{name}` of an iteration has a value "
        "before it that is used after it",
        span=for_error(barrier.span),
        notes=["keep it in a fragment or a tile, one element for each iteration"],
    )


__all__ = ["Iterations", "close_divided"]
