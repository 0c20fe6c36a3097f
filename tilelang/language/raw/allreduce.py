"""``T.tvm_thread_allreduce``: a reduction over the threads along a dimension of the block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _ffi, errors
from ...ir import span
from ...ir.buffer import Load, load
from ...ir.expr import Expr, Var, as_expr, cast
from ...ir.stmt import emit, store
from ..allocate import alloc_scratch
from ..builder import Builder, in_block
from ..pointer import element_of
from ..variable import allocate
from .buffers import known_true

_seq = _ffi.get("ir.Seq")
_if = _ffi.get("ir.If")


class CommReducer:
    """A commutative and associative operation with its identity.

    Attributes:
        combine: takes the values of two sides, gives those of both.
        identity: of each value.
    """

    def __init__(self, combine: Callable[..., Any], identity: Sequence[Any]) -> None:
        self.combine = combine
        self.identity = list(identity)

    def __call__(self, a: Sequence[Expr], b: Sequence[Expr]) -> list[Any]:
        found = self.combine(*a, *b)
        return list(found) if isinstance(found, (list, tuple)) else [found]


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> CommReducer:
    """Names an operation for ``T.attr(..., "reduce_scope", ...)``.

    Args:
        combiner: e.g. ``lambda x, y: x + y``; with several values, of twice as many arguments.
        identity: what changes nothing, one for each value.
    """
    return CommReducer(combiner, identity)


def tvm_thread_allreduce(size: Any, *args: Any, dtype: Any = None) -> None:
    """Combines a value of each thread along a dimension of the block; all of them get the result.

    Args:
        size: number of values, as ``T.uint32(1)``.
        args: the values, whether to take part (a constant ``True``), an element to store each
            result to, and the indices of the threads to reduce over.
        dtype: accepted.

    Raises:
        SemanticsError: no ``T.attr(T.comm_reducer(...), "reduce_scope", ...)`` before, or the
            arguments are not these.
    """
    del dtype
    builder = in_block("T.tvm_thread_allreduce")
    reducer, count = builder.reducer, int(as_expr(size))
    if reducer is None:
        raise errors.SemanticsError(
            "T.tvm_thread_allreduce without an operation",
            span=span.here(),
            notes=['say it before: T.attr(T.comm_reducer(...), "reduce_scope", ...)'],
        )
    values, results = args[:count], args[count + 1 : 2 * count + 1]
    threads = [each for each in args[2 * count + 1 :] if not _is_zero(each)]
    if not known_true(args[count]) or len(results) != count:
        raise errors.SemanticsError(
            "T.tvm_thread_allreduce takes a number of values, the values, True, the results and "
            "the indices of threads",
            span=span.here(),
        )
    _reduce(builder, reducer, [as_expr(v) for v in values], list(map(element_of, results)), threads)


def _is_zero(index: Any) -> bool:
    return isinstance(index, int) and index == 0


def _dimensions(
    builder: Builder, threads: Sequence[Any]
) -> tuple[list[Expr], list[int], list[int]]:
    """The indices of the block's threads, their extents, and which of them are reduced over."""
    kernel = builder.kernel
    indices, extents = list(kernel.thread_vars), list(kernel.threads)
    reduced = []
    for thread in threads:
        found = [n for n, each in enumerate(indices) if _same(builder, each, thread)]
        if not found:
            raise errors.SemanticsError(
                f"`{thread}` of T.tvm_thread_allreduce is not the index of a thread",
                span=span.here(),
                notes=["T.get_thread_binding(n), or the variable of T.launch_thread"],
            )
        reduced.append(found[0])
    return indices, extents, reduced


def _same(builder: Builder, index: Expr, thread: Any) -> bool:
    known = builder.definitions.get(thread, thread) if isinstance(thread, Var) else thread
    return isinstance(known, Expr) and known.same_as(index)


def _reduce(
    builder: Builder,
    reducer: CommReducer,
    values: list[Expr],
    results: list[Load],
    threads: list[Any],
) -> None:
    """Halves the distance between the threads whose values are combined, in shared memory."""
    indices, extents, reduced = _dimensions(builder, threads)
    total = 1
    for n in reduced:
        total *= extents[n]
    kept = [n for n in range(len(extents)) if n not in reduced]
    row = _linear(indices, extents, kept)
    column = builder.bind("lane", _linear(indices, extents, reduced))
    others = 1
    for n in kept:
        others *= extents[n]
    scratch = [alloc_scratch((others, total), value.dtype) for value in values]
    where = span.current()
    for buffer, value in zip(scratch, values, strict=True):
        emit(store(load(buffer, [row, column]), value))
    distance = 1
    while distance < total:
        distance *= 2
    while distance > 1:
        distance //= 2
        own = [load(buffer, [row, column]) for buffer in scratch]
        far = [load(buffer, [row, column + distance]) for buffer in scratch]
        joined = [allocate("joined", each.dtype, init=0, implicit=True) for each in own]
        inside = column < min(distance, total - distance)
        _emit_if(inside, joined, reducer(own, far), where)
        _emit_if(inside, own, joined, where)
    for result, buffer in zip(results, scratch, strict=True):
        emit(store(result, cast(load(buffer, [row, 0]), result.dtype)))


def _emit_if(inside: Expr, targets: Sequence[Any], values: Sequence[Any], where: Any) -> None:
    stmts = [
        store(getattr(target, "target", target), value)
        for target, value in zip(targets, values, strict=True)
    ]
    emit(_if(inside, _seq(stmts, where), None, where))


def _linear(indices: list[Expr], extents: list[int], chosen: list[int]) -> Expr:
    """A number for the coordinates of the chosen dimensions, the first fastest."""
    result: Any = 0
    for n in reversed(chosen):
        result = result * extents[n] + indices[n]
    return as_expr(result)


__all__ = ["CommReducer", "comm_reducer", "tvm_thread_allreduce"]
