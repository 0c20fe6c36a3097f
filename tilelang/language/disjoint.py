"""Promises that the turns of a loop store to places of their own."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer
from ..ir.expr import Operand
from ..ir.stmt import Stmt
from .builder import Block, in_kernel

_for = _ffi.get("ir.For")
_KINDS = frozenset({"T.serial", "T.unroll", "T.Pipelined", "T.Persistent"})


def assume_disjoint(tensor: Buffer, index: Any) -> None:
    """States that the turns of a loop around store to elements of their own of a tensor.

    What the tensor memory accelerator stores in one turn need not be complete before the next turn
    stores. The compiler finds most such loops by itself; this is for those whose rows it cannot
    know: that a table gives, or that come from sizes known only at run time. It is not checked
    where the kernel runs on a GPU; the emulator reports two turns that store to one element.

    Args:
        tensor: what the loop stores to.
        index: the loop's variable; of ``T.Persistent``, one of the coordinates.

    Raises:
        ScopeError: no tensor in global memory, or no variable of a loop around.
    """
    builder = in_kernel("T.assume_disjoint")
    if not isinstance(tensor, Buffer) or tensor.scope != "global":
        raise errors.ScopeError(
            f"T.assume_disjoint takes a tensor in global memory, but `{tensor}` is not one",
            span=span.here(),
        )
    for block in reversed(builder.blocks):
        if _is_target(block, index):
            block.disjoint.append((tensor.name, span.current()))
            return
    raise errors.ScopeError(
        f"T.assume_disjoint takes the variable of an enclosing T.serial, T.unroll, T.Pipelined or "
        f"T.Persistent loop, but `{index}` is not one",
        span=span.here(),
        notes=["write for i in T.serial(n): T.assume_disjoint(Y, i)"],
    )


def _is_target(block: Block, index: Any) -> bool:
    if block.kind not in _KINDS or not isinstance(index, Operand):
        return False
    targets: list[Any] = [each for each in block.targets if isinstance(each, Operand)]
    return any(each.same_as(index) for each in targets)


def with_promises(loop: Stmt, promises: list[tuple[str, Any]]) -> Stmt:
    """The loop with an annotation: tensors, and where each was promised."""
    form: Any = loop
    notes = {**form.annotations, "disjoint_stores": [list(promise) for promise in promises]}
    return _for(form.var, form.min, form.extent, form.for_kind, form.body, notes, form.span)
