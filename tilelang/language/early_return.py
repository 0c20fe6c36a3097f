"""``return`` under a condition known only at run time: the rest of the kernel is skipped.

A kernel's end is where all of its threads come together, so a thread does not really leave: what
follows, to the end of every block around, stands under the opposite condition.
"""

from __future__ import annotations

from .. import _ffi, errors
from ..ir import span
from ..ir.dtype import BOOL
from ..ir.expr import Expr, as_expr, const, unary
from ..ir.expr import UnaryOp as Unary
from ..ir.stmt import store
from .builder import Block, Builder, in_kernel
from .scalar import OR, logical
from .variable import allocate

_if = _ffi.get("ir.If")
ALWAYS = const(True, BOOL)
_THROUGH = ("function", "kernel", "if", "T.ws")


def leave_kernel(builder: Builder) -> None:
    """Ends the open block: its threads do nothing more.

    Raises:
        UnsupportedSyntaxError: in a loop, which would have to end as well.
    """
    for block in builder.blocks:
        if block.kind not in _THROUGH:
            kind = "a conditional expression" if block.kind == "lazy" else block.kind
            raise errors.UnsupportedSyntaxError(
                f"return under a condition known only at run time, in {kind}",
                span=span.here(),
                notes=["leave a loop by `break`, and put the rest of the body under `if`"],
            )
    block = builder.blocks[-1]
    block.leaves = ALWAYS
    block.ended = True


def _joined(op: int, a: Expr | None, b: Expr | None) -> Expr | None:
    """``a or b`` of conditions of which one may be missing."""
    if a is None or b is None:
        return a if b is None else b
    return logical(op, a, b)


def _under(condition: Expr, branch: Block) -> Expr | None:
    """The condition under which threads leave in a branch, to be used after it; None if never."""
    if branch.leaves is None or branch.leaves is ALWAYS:
        return branch.leaves and condition
    # What it consists of ends with the branch.
    left = allocate("left", BOOL, init=False, implicit=True)
    branch.stmts.append(store(left.target, branch.leaves))
    return as_expr(left)


def path_of(condition: Expr, branches: list[Block]) -> Expr | None:
    """The condition under which threads leave in a branch of an `if`; None if they never do."""
    first = _under(condition, branches[0])
    if len(branches) == 1:
        return first
    return _joined(OR, first, _under(unary(Unary.NOT, condition), branches[1]))


def skip_the_rest(builder: Builder, leaves: Expr | None) -> None:
    """Restricts the rest of the open block to threads that have not left."""
    if leaves is None:
        return
    outer = builder.blocks[-1]
    outer.leaves = _joined(OR, outer.leaves, leaves)
    if outer.ended:
        return
    stays = unary(Unary.NOT, leaves)
    rest = builder.push("if")

    def close() -> None:
        where = rest.where
        builder.end(rest)
        outer.leaves = _joined(OR, outer.leaves, _under(stays, rest))
        if rest.stmts:
            builder.emit(_if(stays, rest.body(), None, where))

    rest.close = close


def thread_return() -> None:
    """Ends the work of the threads that get here; as `return`.

    Raises:
        UnsupportedSyntaxError: in a loop.
    """
    leave_kernel(in_kernel("T.thread_return"))


__all__ = ["leave_kernel", "path_of", "skip_the_rest", "thread_return"]
