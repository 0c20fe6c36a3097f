"""``tvm.tir.stmt_functor``: walking over a piece of IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _ffi
from ..ir.buffer import Buffer
from ..ir.buffer import Region as BufferRegion
from ..ir.expr import Expr
from ..ir.stmt import Func, Stmt


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


__all__ = ["post_order_visit"]
