"""Reducers: tiles that iterations of T.Parallel add to, whichever thread runs them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer, Load, plain, shape_text
from ..ir.expr import Binary, BinaryOp, Call, Cast, Expr, as_expr, cast, tvm_ffi
from .allocate import alloc_contributions
from .atomics import atomic_add, atomic_and, atomic_max, atomic_min, atomic_or, atomic_xor
from .builder import in_block, in_kernel
from .copy import copy, fill
from .ignored import remark_ignored
from .record import Record
from .record_reducer import Element, RecordReducer
from .scalar import highest, lowest
from .sync import sync_threads

if TYPE_CHECKING:
    from .grid_reducer import GridStage

# Operation -> the operator that contributes, the atomic operation, and what changes nothing.
_OPERATIONS: dict[str, tuple[BinaryOp, Any, Any]] = {
    "sum": (BinaryOp.ADD, atomic_add, lambda dtype: 0),
    "max": (BinaryOp.MAX, atomic_max, lowest),
    "min": (BinaryOp.MIN, atomic_min, highest),
    "bitand": (BinaryOp.BIT_AND, atomic_and, lambda dtype: ~as_expr(cast(0, dtype))),
    "bitor": (BinaryOp.BIT_OR, atomic_or, lambda dtype: 0),
    "bitxor": (BinaryOp.BIT_XOR, atomic_xor, lambda dtype: 0),
}


# Operations that 0 leaves as it is.
_FROM_ZERO = ("sum", "bitor", "bitxor")


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
        # Of a reducer of the grid.
        self.stage: GridStage | None = None

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

    @property
    def tiles(self) -> list[Buffer]:
        """Returns the tiles that hold a part of the results."""
        return [self.buffer]

    def result_at(self, place: list[Any]) -> list[Expr]:
        """The results of an element."""
        return [self.buffer[tuple(place)]]

    def result_names(self) -> list[str]:
        return ["out"]

    def reopen(self) -> None:
        """Begins anew: no contribution was made."""
        reducer_init(self)

    def results_of_nothing(self) -> list[Expr]:
        """The results of an element without contributions."""
        return [cast(_OPERATIONS[self.op][2](self.dtype), self.dtype)]

    def combine(self, place: list[Any], values: list[Any]) -> None:
        """Contributes the part of others to an element."""
        self.contribute(self.buffer[tuple(place)], values[0])

    def atomics_obstacle(self) -> str:
        """Why atomic operations on memory that is zero do not collect its parts; "" if they do."""
        if self.op not in _FROM_ZERO:
            return f"{self.op} does not begin at 0"
        return "" if self.dtype.bits >= 32 else f"{self.dtype} is too narrow"

    def __tl_tile__(self) -> Buffer:
        return self.buffer

    def __str__(self) -> str:
        return self.buffer.describe()


def _contribution(op: str, target: Any, value: Any) -> Expr | None:
    """Returns the value that is combined with the old value of an element, or None."""
    if isinstance(value, Cast) and value.dtype == target.dtype:
        value = value.value
    used = value.op if isinstance(value, Binary) else None
    if isinstance(value, Call) and value.name in ("min_nan", "max_nan"):
        sides: tuple[Any, ...] = tuple(value.args)
    elif used == _OPERATIONS[op][0]:
        sides = value.a, value.b
    elif op == "sum" and used == BinaryOp.SUB and _is(value.a, target):
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


def _reducer(what: str, value: Any) -> Any:
    if isinstance(value, (Reducer, RecordReducer)):
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
    scope: str = "block",
    out: Any = None,
    deterministic: bool = False,
) -> Any:
    """A tile that iterations of T.Parallel contribute to: see :class:`Reducer`.

    With ``scope="grid"`` the contributions of all blocks end up in ``out``, when the kernel has
    ended: blocks whose ``out`` is the same region are reduced together. The compiler takes memory
    for their parts, and a remark and ``kernel.schedule()`` say what it does by which cost. In the
    tile is the block's own part.

    Args:
        shape, dtype: of the tile; a record (``T.argmax("float32")``, :func:`record`) in place of
            the type makes a tile of records, to which ``T.reducer_update`` contributes.
        op: "sum", "max", "min", "bitand", "bitor" or "bitxor".
        replication: accepted; the compiler decides how threads share the work.
        chunk: values of what is reduced that one turn of a loop takes at most; the compiler
            decides if it is not given.
        scope: "block", or "grid" for the results of all blocks.
        out: of a reducer of the grid, the tensor or region of one, of the tile's shape, that gets
            the results. Its indices may contain block indices, as ``DW[bx * 64 : bx * 64 + 64]``.
        deterministic: parts are combined in an order that depends on the program and its arguments
            alone: results are the same bit by bit in every run, and with any number of
            multiprocessors.

    Raises:
        SemanticsError: there is no such operation, ``chunk`` is no positive number, or ``out`` is
            missing, not of the grid, or reduced by blocks that share a part of it.
        ShapeError, ScopeError: ``out`` has another shape, or is no tensor.
    """
    builder = in_block("T.alloc_reducer")
    if op not in _OPERATIONS:
        raise errors.SemanticsError(
            f"unknown operation {op!r} of T.alloc_reducer",
            span=span.here(),
            notes=[f"known: {', '.join(_OPERATIONS)}"],
        )
    _check_scope(scope, out)
    remark_ignored("T.alloc_reducer", replication=replication)
    notes: dict[str, Any] = {"reducer": op, **({"reduction_order": True} if deterministic else {})}
    if chunk is not None:
        notes["reduction_chunk"] = chunk_size("T.alloc_reducer", chunk)
    reducer: Any
    if isinstance(dtype, Record):
        reducer = RecordReducer(shape, dtype, notes)
    else:
        reducer = Reducer(alloc_contributions(shape, dtype, notes), op)
    builder.reducers.append(reducer)
    reducer.reopen()
    if scope == "grid":
        _in_grid(builder.kernel, reducer, out, deterministic)
    return reducer


def _check_scope(scope: Any, out: Any) -> None:
    if scope not in ("block", "grid"):
        raise errors.SemanticsError(
            f"scope={scope!r} of T.alloc_reducer is neither 'block' nor 'grid'", span=span.here()
        )
    if scope == "block" and out is not None:
        raise errors.SemanticsError(
            'out= of T.alloc_reducer goes with scope="grid"',
            span=span.here(),
            notes=["T.finalize_reducer(reducer, dst) copies the result of a block"],
        )


def _in_grid(kernel: Any, reducer: Any, out: Any, deterministic: bool) -> None:
    from .empty_grid import finish_without_blocks
    from .grid_reducer import conclude_grid, open_stage

    reducer.stage = open_stage(reducer, out, deterministic)
    if not kernel.grid_stages:
        kernel.conclusions.append(lambda: conclude_grid(kernel.grid_stages))
        kernel.afterwards.append(lambda: finish_without_blocks(kernel))
    kernel.grid_stages.append(reducer.stage)


def reducer_init(reducer: Any, init: Any = None) -> None:
    """Sets a reducer to ``init``, by default to what changes nothing, and opens it again."""
    target = _reducer("T.reducer_init", reducer)
    if isinstance(target, RecordReducer):
        if init is not None:
            raise errors.SemanticsError(
                "T.reducer_init of records begins with their identity", span=span.here()
            )
        target.reopen()
        return
    start = _OPERATIONS[target.op][2](target.dtype) if init is None else init
    target.done = False
    fill(target.buffer, start)


def reducer_update(target: Any, *values: Any) -> None:
    """Adds a contribution to an element ``r[i]`` of a reducer.

    Args:
        target: the element.
        values: the contribution; to records, the arguments of the record, as value and index.

    Raises:
        SemanticsError: no element of a reducer, or another number of values.
        ScopeError: a contribution to records outside of T.Parallel.
    """
    builder = in_kernel("T.reducer_update")
    if isinstance(target, Element):
        target.contribute(values)
        return
    owners = [
        each
        for each in builder.reducers
        if isinstance(each, Reducer)
        and isinstance(target, Load)
        and each.buffer.same_as(target.buffer)
    ]
    if not owners:
        raise errors.SemanticsError(
            f"T.reducer_update of `{target}`, which is no element of a reducer", span=span.here()
        )
    if len(values) != 1:
        raise errors.SemanticsError(
            f"T.reducer_update of `{target}` with {len(values)} values; it takes one",
            span=span.here(),
        )
    owners[0].contribute(target, values[0])


def check_batch(what: str, batch: Any, shape: Sequence[Any]) -> None:
    """Refuses what no batch of a result of this shape is; any other changes nothing."""
    count, elements = plain(batch), prod(map(plain, shape))
    if not isinstance(count, int) or count < 1:
        text = f"batch must be >= 1, not {batch}"
    elif isinstance(elements, int) and count > elements:
        text = f"batch={count} exceeds total output elements, {elements}"
    elif isinstance(elements, int) and elements % count:
        text = f"batch={count} must evenly divide the {elements} elements of the result"
    else:
        remark_ignored(what, batch=count)
        return
    raise errors.ShapeError(f"{what}: {text}", span=span.here())


def finalize_reducer(reducer: Any, dst: Any = None, batch: int = 1) -> None:
    """Completes a reducer: all contributions of the block are in it, and it is an ordinary tile.

    Args:
        reducer: of :func:`alloc_reducer`.
        dst: a tile that gets the result.
        batch: elements of the result that are reduced together, a divisor of their number; the
            compiler decides.

    Raises:
        ShapeError: ``dst`` has another shape, or ``batch`` does not divide the elements.
    """
    target = _reducer("T.finalize_reducer", reducer)
    check_batch("T.finalize_reducer", batch, target.shape)
    if dst is not None and isinstance(target, RecordReducer):
        raise errors.SemanticsError(
            f"T.finalize_reducer of {target} into a tile: its results are "
            f"{', '.join(target.result_names())}",
            span=span.here(),
            notes=["read them in T.Parallel, as r.index[i]"],
        )
    if dst is not None and tuple(map(plain, dst.shape)) != tuple(target.shape):
        raise errors.ShapeError(
            f"T.finalize_reducer of {shape_text(target.shape)} into {shape_text(dst.shape)}",
            span=span.here(),
        )
    sync_threads()
    target.done = True
    if target.stage is not None:
        target.stage.store()
    if dst is not None:
        copy(target.buffer, dst)
