"""Reducers: tiles that iterations of T.Parallel add to, whichever thread runs them."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer, Load, plain, shape_text
from ..ir.expr import BinaryOp, Call, Cast, Expr, as_expr, cast, tvm_ffi
from .allocate import alloc_contributions
from .atomics import atomic_add, atomic_and, atomic_max, atomic_min, atomic_or, atomic_xor
from .builder import in_block, in_kernel
from .copy import copy, fill
from .ignored import remark_ignored
from .scalar import max_value, min_value
from .sync import sync_threads

# Operation -> the operator that contributes, the atomic operation, and what changes nothing.
_OPERATIONS: dict[str, tuple[BinaryOp, Any, Any]] = {
    "sum": (BinaryOp.ADD, atomic_add, lambda dtype: 0),
    "max": (BinaryOp.MAX, atomic_max, min_value),
    "min": (BinaryOp.MIN, atomic_min, max_value),
    "bitand": (BinaryOp.BIT_AND, atomic_and, lambda dtype: ~as_expr(cast(0, dtype))),
    "bitor": (BinaryOp.BIT_OR, atomic_or, lambda dtype: 0),
    "bitxor": (BinaryOp.BIT_XOR, atomic_xor, lambda dtype: 0),
}


def chunk_size(what: str, chunk: Any) -> int:
    """``chunk``, a constant.

    Raises:
        SemanticsError: it is not positive.
    """
    number = plain(chunk)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise errors.SemanticsError(
            f"chunk of {what} is a positive number, not `{chunk}`", span=span.here()
        )
    return number


class Reducer:
    """A tile in shared memory that iterations contribute to.

    ``r[i] += x`` (of maxima ``r[i] = T.max(r[i], x)``) adds a contribution; after
    ``T.finalize_reducer(r)`` it is a tile like others. Where loop variables are the indices, the
    threads keep their contributions in registers, and exchange them once when the loop is done;
    elsewhere each contribution is an atomic operation.

    Attributes:
        buffer: the tile.
        op: "sum", "max", "min", "bitand", "bitor" or "bitxor".
    """

    def __init__(self, buffer: Buffer, op: str) -> None:
        self.buffer = buffer
        self.op = op
        self.done = False
        self.contributions = 0

    shape = property(lambda self: self.buffer.shape)
    dtype = property(lambda self: self.buffer.dtype)
    name = property(lambda self: self.buffer.name)

    def __getitem__(self, index: Any) -> Any:
        return self.buffer[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.done:
            self.buffer[index] = value
            return
        target = self.buffer[index]
        added = _contribution(self.op, target, value)
        if added is None:
            operator = {"sum": "r[i] += x", "max": "r[i] = T.max(r[i], x)"}.get(self.op)
            raise errors.SemanticsError(
                f"`{target}` of a reducer ({self.op}) is assigned `{value}`, which is no "
                "contribution to it",
                span=span.here(),
                notes=[f"write {operator}" if operator else "combine it with the operation"],
            )
        self.contribute(target, added)

    def contribute(self, target: Any, value: Any) -> None:
        """Adds a contribution to an element."""
        self.contributions += 1
        _OPERATIONS[self.op][1](target, value)

    def __tl_tile__(self) -> Buffer:
        return self.buffer

    def __str__(self) -> str:
        return self.buffer.describe()


def _contribution(op: str, target: Any, value: Any) -> Expr | None:
    """What is combined with the old value of an element; None where it is something else."""
    if isinstance(value, Cast) and value.dtype == target.dtype:
        value = value.value
    if isinstance(value, Call) and value.name in ("min_nan", "max_nan"):
        sides: tuple[Any, ...] = tuple(value.args)
    elif getattr(value, "op", None) == _OPERATIONS[op][0]:
        sides = value.a, value.b
    elif op == "sum" and getattr(value, "op", None) == BinaryOp.SUB and _is(value.a, target):
        return -value.b
    else:
        return None
    for own, other in (sides, sides[::-1]):
        if _is(own, target):
            return other
    return None


def _is(value: Any, target: Load) -> bool:
    if isinstance(value, Cast):
        value = value.value
    return isinstance(value, Load) and bool(tvm_ffi.structural_equal(value, target, True))


def _reducer(what: str, value: Any) -> Reducer:
    if isinstance(value, Reducer):
        return value
    raise errors.SemanticsError(
        f"{what} of `{value}`, which T.alloc_reducer did not make", span=span.here()
    )


def alloc_reducer(
    shape: Any,
    dtype: Any,
    op: str = "sum",
    replication: Any = None,
    *,
    chunk: int | None = None,
) -> Reducer:
    """A tile that iterations of T.Parallel contribute to: see :class:`Reducer`.

    Args:
        shape, dtype: of the tile.
        op: "sum", "max", "min", "bitand", "bitor" or "bitxor".
        replication: accepted; the compiler decides how threads share the work.
        chunk: values of what is reduced that one turn of a loop takes at most; the compiler
            decides if it is not given.

    Raises:
        SemanticsError: there is no such operation, or ``chunk`` is no positive number.
    """
    builder = in_block("T.alloc_reducer")
    if op not in _OPERATIONS:
        raise errors.SemanticsError(
            f"unknown operation {op!r} of T.alloc_reducer",
            span=span.here(),
            notes=[f"known: {', '.join(_OPERATIONS)}"],
        )
    remark_ignored("T.alloc_reducer", replication=replication)
    notes: dict[str, Any] = {"reducer": op}
    if chunk is not None:
        notes["reduction_chunk"] = chunk_size("T.alloc_reducer", chunk)
    reducer = Reducer(alloc_contributions(shape, dtype, notes), op)
    builder.reducers.append(reducer)
    reducer_init(reducer)
    return reducer


def reducer_init(reducer: Any, init: Any = None) -> None:
    """Sets a reducer to ``init``, by default to what changes nothing, and opens it again."""
    target = _reducer("T.reducer_init", reducer)
    start = _OPERATIONS[target.op][2](target.dtype) if init is None else init
    target.done = False
    fill(target.buffer, start)


def reducer_update(target: Any, value: Any) -> None:
    """Adds a contribution to an element ``r[i]`` of a reducer.

    Raises:
        SemanticsError: no element of a reducer.
    """
    builder = in_kernel("T.reducer_update")
    owners = [
        each
        for each in builder.reducers
        if isinstance(target, Load) and each.buffer.same_as(target.buffer)
    ]
    if not owners:
        raise errors.SemanticsError(
            f"T.reducer_update of `{target}`, which is no element of a reducer", span=span.here()
        )
    owners[0].contribute(target, value)


def finalize_reducer(reducer: Any, dst: Any = None, batch: int = 1) -> None:
    """Completes a reducer: all contributions of the block are in it, and it is an ordinary tile.

    Args:
        reducer: of :func:`alloc_reducer`.
        dst: a tile that gets the result.
        batch: accepted.

    Raises:
        ShapeError: ``dst`` has another shape.
    """
    del batch
    target = _reducer("T.finalize_reducer", reducer)
    if dst is not None and tuple(map(plain, dst.shape)) != tuple(target.shape):
        raise errors.ShapeError(
            f"T.finalize_reducer of {shape_text(target.shape)} into {shape_text(dst.shape)}",
            span=span.here(),
        )
    sync_threads()
    target.done = True
    if dst is not None:
        copy(target.buffer, dst)
