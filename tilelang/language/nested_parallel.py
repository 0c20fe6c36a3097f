"""T.Parallel loops directly inside of each other, which are one loop over all their dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _ffi, errors, nodes
from ..ir import span
from ..ir.buffer import Load
from ..ir.expr import Call, Expr, Var
from ..ir.stmt import Stmt
from .builder import Builder

_seq = _ffi.get("ir.Seq")


class Dimensions(NamedTuple):
    """The dimensions that an inner loop adds to the loop around it.

    Attributes:
        variables: one for each dimension.
        extents: as many.
        body: the body of both loops.
        notes: the annotations of the inner loop.
    """

    variables: Sequence[Var]
    extents: Sequence[Expr]
    body: Stmt
    notes: dict[str, Any]


def may_open_inner(builder: Builder) -> bool:
    """Returns whether a T.Parallel loop that opens here is directly inside of another one.

    Definitions that read no memory may stand before it.
    """
    block = builder.blocks[-1]
    others = builder.blocks[:-1]
    return (
        block.kind == "T.Parallel"
        and all(_is_definition(stmt) for stmt in block.stmts)
        and not any(other.kind == "T.vectorized" for other in others)
    )


def inner_dimensions(body: Stmt, notes: dict[str, Any]) -> Dimensions:
    """Returns what the loop in a body of T.Parallel adds to it: nothing if there is none.

    Args:
        body: of the outer loop.
        notes: the annotations of the outer loop.

    Raises:
        SemanticsError: statements beside the inner loop, extents that are no constants, or layouts.
    """
    stmts = list(body.stmts) if isinstance(body, nodes.Seq) else [body]
    loops = [stmt for stmt in stmts if _holds_parallel(stmt)]
    if not loops:
        return Dimensions((), (), body, notes)
    inner = loops[0]
    beside = [stmt for stmt in stmts if not stmt.same_as(inner) and not _is_definition(stmt)]
    if beside:
        raise _not_one_loop("a statement stands beside the inner loop", beside[0])
    if not isinstance(inner, nodes.ParallelFor):
        raise _not_one_loop("the extents of the inner loop are known only at run time", inner)
    if "loop_layout" in notes or "loop_layout" in inner.annotations:
        raise _not_one_loop("a loop_layout describes all dimensions", inner)
    before = [stmt for stmt in stmts if not stmt.same_as(inner)]
    joined = _seq([*before, inner.body], inner.span) if before else inner.body
    return Dimensions(inner.vars, inner.extents, joined, {**notes, **inner.annotations})


def _is_definition(stmt: Stmt) -> bool:
    """Returns whether a statement only names a value that reads no memory."""
    if not isinstance(stmt, nodes.Bind):
        return False
    parts: list[Any] = []
    _ffi.tvm_ffi.structural_walk(stmt.value, parts.append)
    return not any(isinstance(part, (Load, Call)) for part in parts)


def _holds_parallel(stmt: Stmt) -> bool:
    parts: list[Any] = []
    _ffi.tvm_ffi.structural_walk(stmt, parts.append)
    return any(isinstance(part, nodes.ParallelFor) for part in parts)


def _not_one_loop(why: str, stmt: Stmt) -> errors.SemanticsError:
    return errors.SemanticsError(
        f"T.Parallel inside T.Parallel: {why}, so that they are not one loop",
        span=span.for_error(stmt.span),
        notes=["list all dimensions in one T.Parallel(m, n), or make the outer loop T.serial"],
    )


__all__ = ["Dimensions", "inner_dimensions", "may_open_inner"]
