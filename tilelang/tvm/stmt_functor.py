"""``tvm.tir.stmt_functor``: walking over a piece of IR."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _ffi
from ..ir.buffer import Buffer
from ..ir.buffer import Region as BufferRegion
from ..ir.expr import Expr, as_expr
from ..ir.stmt import Func, Stmt
from ..layout import Fragment, Layout


def post_order_visit(node: Any, visit: Callable[[Any], None]) -> None:
    """Calls ``visit`` once on every node of a piece of IR, those inside before those around."""
    seen: list[Any] = []

    def once(value: Any) -> None:
        if not isinstance(value, (Expr, Stmt, Buffer, BufferRegion, Func)):
            return
        if not any(value.same_as(other) for other in seen):
            seen.append(value)
            visit(value)

    _ffi.tvm_ffi.structural_walk(node, once)


def ir_transform(
    node: Any,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Sequence[str] | None = None,
) -> Any:
    """Returns a piece of IR with some of its nodes replaced.

    Args:
        node: the piece.
        preorder: called on a node before those inside; what it returns takes the place of the node,
            and is not walked over. None: the node is.
        postorder: called on a node with those inside replaced; what it returns takes its place,
            if that is not None.
        only_enable: names of the nodes that both are called on, as "tir.For"; all by default.
    """
    enabled = None if only_enable is None else {name.rsplit(".", 1)[-1] for name in only_enable}

    def replaced(value: Any, mutator: Any) -> Any:
        if isinstance(value, (Layout, Fragment)):
            return value  # of T.annotate_layout: no part of it is a node
        chosen = isinstance(value, (Expr, Stmt, Func)) and (
            enabled is None or type(value).__name__ in enabled
        )
        if not chosen:
            return mutator.default_mutate(value)
        found = None if preorder is None else preorder(value)
        if found is not None:
            return found
        inner = mutator.default_mutate(value)
        found = None if postorder is None else postorder(inner)
        return inner if found is None else found

    return _ffi.tvm_ffi.structural_mutate(node, replaced)


def substitute(node: Any, values: Mapping[Any, Any]) -> Any:
    """Returns a piece of IR with values in place of variables."""

    def value_of(part: Any) -> Any:
        found = [value for name, value in values.items() if part.same_as(name)]
        return as_expr(found[0]) if found else None

    return ir_transform(node, value_of, None, ["tir.Var"])


__all__ = ["ir_transform", "post_order_visit", "substitute"]
