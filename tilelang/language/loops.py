"""Loops: ``T.serial``, ``T.unroll``, ``T.vectorized``, ``T.Parallel``, ``T.Pipelined``, ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import difference, plain
from ..ir.dtype import INT32, INT64
from ..ir.expr import Expr, IntImm, Var, as_expr, cast, var
from ..ir.stmt import Stmt, emit
from .builder import Builder, current
from .divided_loop import Iterations, close_divided
from .ignored import remark_ignored
from .nested_parallel import inner_dimensions, may_open_inner
from .pipeline_order import order_of
from .scalar import ceildiv
from .ws_schedule import named

_for = _ffi.get("ir.For")
_if = _ffi.get("ir.If")
_parallel = _ffi.get("ir.ParallelFor")
_leaves = {"break": _ffi.get("ir.Break"), "continue": _ffi.get("ir.Continue")}

_SERIAL, _UNROLLED, _VECTORIZED, _PIPELINED = range(4)


def leave_loop(builder: Builder, keyword: str) -> bool:
    """Handles break and continue; true if the loop runs while tracing."""
    kind, depth = builder.loops[-1]
    if kind == "python":
        if len(builder.blocks) > depth:
            raise errors.UnsupportedSyntaxError(
                f"{keyword} under a condition known only at run time, in a loop that Python "
                "unrolls while the kernel is traced",
                span=span.here(),
                notes=["loop with T.serial, or make what a `while` tests a T.alloc_var"],
            )
        return True
    if kind not in ("T.serial", "T.unroll", "while", "T.Persistent", "T.Pipelined"):
        raise errors.ScopeError(
            f"{keyword} cannot be used in a {kind} loop",
            span=span.here(),
            notes=["use T.serial, or put the rest of the body under an `if`"],
        )
    emit(_leaves[keyword](span.current()))
    builder.blocks[-1].ended = True
    return False


def loop_break() -> None:
    """Leaves the innermost loop; as ``break``.

    Raises:
        ScopeError: no loop that can be left is around it.
        UnsupportedSyntaxError: in a loop that Python unrolls; a function cannot leave that.
    """
    builder = current("T.loop_break")
    if not builder.loops:
        raise errors.ScopeError("T.loop_break stands in no loop", span=span.here())
    if builder.loops[-1][0] == "python":
        raise errors.UnsupportedSyntaxError(
            "T.loop_break in a loop that Python unrolls while the kernel is traced",
            span=span.here(),
            notes=["write `break`, or loop with T.serial"],
        )
    leave_loop(builder, "break")


class Opened(NamedTuple):
    """An open loop: what its target is bound to, and how it is closed around its body."""

    value: Any
    close: Callable[[Stmt, Any], Stmt]


class Loop:
    """An iteration space; ``for`` over it inside a kernel makes a loop of the IR.

    Attributes:
        kind: its name in the language.
    """

    def __init__(self, kind: str, open_loop: Callable[[Sequence[str]], Opened]) -> None:
        self.kind = kind
        self._open = open_loop

    def open(self, hints: Sequence[str], builder: Builder) -> Opened:
        """Opens the loop with variables named after ``hints``."""
        if builder.kernel is None:
            raise errors.ScopeError(
                f"{self.kind} is outside of `with T.Kernel(...)`", span=span.here()
            )
        joins = self.kind == "T.Parallel" and may_open_inner(builder)
        shared = builder.inside("T.Parallel", "T.vectorized")
        if shared and self.kind in _NEVER_NESTED and not joins:
            raise errors.ScopeError(
                f"{self.kind} cannot stand inside T.Parallel or T.vectorized",
                span=span.here(),
                notes=[
                    "list all dimensions in one T.Parallel(m, n)"
                    if self.kind == "T.Parallel"
                    else "make the loop around it T.serial"
                ],
            )
        return self._open(hints)

    def __iter__(self) -> Any:
        raise errors.UnsupportedSyntaxError(
            f"{self.kind} cannot be iterated over here: this function is ordinary Python",
            span=span.here(),
            notes=["decorate the function that contains the loop with @T.macro"],
        )

    def __repr__(self) -> str:
        return f"<{self.kind} loop>"


_NEVER_NESTED = frozenset({"T.Parallel", "T.Pipelined", "T.Persistent"})


def integer(value: Any, what: str) -> Expr:
    result = as_expr(value)
    if not result.dtype.is_integer:
        raise errors.DTypeError(
            f"{what} `{result}` has type {result.dtype}; loops count integers",
            span=span.here(),
            notes=["divide integers with //"],
        )
    return result


def _bounds(kind: str, start: Any, stop: Any) -> tuple[Expr, Expr, Any]:
    """The start of a loop, its stop, and their difference, of one type (int32 or int64)."""
    if stop is None:
        start, stop = 0, start
    first, last = integer(start, f"start of {kind}"), integer(stop, f"extent of {kind}")
    wide = any(e.dtype not in ("int32", "int16", "int8", "uint8", "uint16") for e in (first, last))
    dtype = INT64 if wide else INT32
    first, last = cast(first, dtype), cast(last, dtype)
    return first, last, difference(last, plain(first))


def _counted(
    kind: str,
    number: int,
    start: Any,
    stop: Any,
    step: Any,
    notes: dict[str, Any],
    mark: Callable[[Stmt], Stmt] = lambda body: body,
) -> Loop:
    """A loop from ``start`` to ``stop`` by ``step``, a non-zero constant, with a marked body."""
    first, last, distance = _bounds(kind, start, stop)
    stride = plain(1 if step is None else step)
    if not isinstance(stride, int) or stride == 0:
        raise errors.UnsupportedSyntaxError(
            f"step `{step}` of {kind} is not a constant other than 0",
            span=span.here(),
            notes=["loop over the number of steps and compute the index in the body"],
        )
    if stride > 0:
        trips = distance if stride == 1 else (distance + (stride - 1)) // stride
    else:
        trips = (difference(first, plain(last)) + (-stride - 1)) // -stride
    count = as_expr(trips, first.dtype)

    def open_loop(hints: Sequence[str]) -> Opened:
        index = var(hints[0] if hints else "i", first.dtype)
        low = first if stride == 1 else as_expr(0, first.dtype)
        value = index if stride == 1 else first + index * stride

        def close(body: Stmt, where: Any) -> Stmt:
            return _for(index, low, count, number, mark(body), notes, where)

        return Opened(value, close)

    return Loop(kind, open_loop)


@named
def serial(start: Any, stop: Any = None, step: Any = None, **hints: Any) -> Loop:
    """An ordinary loop: ``for i in T.serial(n)``, ``T.serial(start, stop, step)``.

    ``range`` in a kernel means the same. The step is a constant.
    """
    remark_ignored("T.serial", hints=tuple(hints))
    return _counted("T.serial", _SERIAL, start, stop, step, {})


@named
def unroll(
    start: Any,
    stop: Any = None,
    step: Any = None,
    *,
    explicit: bool = False,
    unroll_factor: int | None = None,
) -> Loop:
    """A loop that the compiler unrolls (``unroll_factor`` times, if given).

    Between constants, without ``break``, ``continue`` and allocations of tiles in its body, its
    variable may choose what only a constant can: rows of tensor memory
    (``c[i * 128 : (i + 1) * 128, :]``) and slices of fragments.
    """
    notes: dict[str, Any] = {"unroll_factor": unroll_factor} if unroll_factor else {}
    if explicit:
        notes["explicit"] = True
    return _counted("T.unroll", _UNROLLED, start, stop, step, notes)


@named
def vectorized(start: Any, stop: Any = None) -> Loop:
    """A loop of constant extent whose iterations are independent: lanes of a vector.

    Raises:
        SemanticsError: the extent is not constant.
    """
    _, _, extent = _bounds("T.vectorized", start, stop)
    if not isinstance(plain(extent), int):
        raise errors.SemanticsError(
            f"extent `{extent}` of T.vectorized is not constant",
            span=span.here(),
            notes=["use T.serial, or T.Parallel, which is vectorized automatically"],
        )
    return _counted("T.vectorized", _VECTORIZED, start, stop, None, {})


@named
def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: Sequence[int] | None = None,
    stage: Sequence[int] | None = None,
    group: Sequence[Sequence[int]] | None = None,
    **unsupported: Any,
) -> Loop:
    """A loop whose loads run ahead of the work on what they bring: see docs/pipelining.md.

    Args:
        start, stop: as of ``T.serial``.
        num_stages: in how many slots each loaded tile is kept, and so how many iterations the
            loads can be ahead; 0 means no overlap. Shared memory holds all slots. In loops whose
            threads work between GEMMs of Blackwell it is a hint, and 1 asks for little memory; in
            other loops 1 means no overlap.
        order: the place of each statement of the body in one round of the loop;
            -1 for loads, which run ahead as far as their slots allow. The compiler decides if it
            is not given.
        stage: the pipeline stage of each statement, 0 or 1 (-1 for loads): a round runs
            stage 0 of its own iteration, and stage 1 of the previous iteration. Without
            ``num_stages``, tiles that are loaded have slots for the iterations between the first
            stage and the last.
        group: lists of statements that follow each other; ``order`` and ``stage`` then have a
            number for each of these.

    Names of values and allocations are not counted as statements; macros count as what is in them.

    Raises:
        SemanticsError: the numbers do not fit the body, or contradict each other or the order in
            which statements depend on each other.
    """
    refuse_extra("T.Pipelined", unsupported, {"sync": None})
    notes: dict[str, Any] = {"num_stages": constant("num_stages", num_stages, 0)}
    wanted = order_of(order, stage, group)
    if wanted is None:
        remark_ignored("T.Pipelined", group=group)
        return _counted("T.Pipelined", _PIPELINED, start, stop, None, notes)
    if notes["num_stages"] == 0:
        notes["num_stages"] = wanted.slots
    notes |= {"order": wanted.order, "stage": wanted.stage}
    return _counted("T.Pipelined", _PIPELINED, start, stop, None, notes, wanted.mark)


def refuse_extra(what: str, given: dict[str, Any], ignored: dict[str, Any]) -> None:
    """Raises for keyword arguments that ask for something this version does not have.

    Those in ``ignored`` are accepted with the value there, or None.
    """
    for name, value in given.items():
        if name in ignored and (value is None or value == ignored[name]):
            continue
        if name in ignored:
            raise errors.UnsupportedError(
                f"{what} does not support {name}={value!r}", span=span.here()
            )
        from .. import language

        raise errors.SemanticsError(
            f"{what} has no argument {name!r}",
            span=span.here(),
            notes=errors.arguments_of(vars(language)[what.removeprefix("T.")]),
        )


def constant(what: str, value: Any, least: int) -> int:
    """Returns an argument that is a constant integer of at least ``least``.

    Raises:
        SemanticsError: it is something else.
    """
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise errors.SemanticsError(
            f"{what} is `{value}`; it must be a constant integer of at least {least}",
            span=span.here(),
        )
    return number


@named
def Parallel(
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
) -> Loop:
    """Independent iterations, spread over the threads and their vector lanes.

    Args:
        extents: one for each loop variable; dynamic extents are worked off in chunks.
        coalesced_width: elements that one thread accesses together.
        loop_layout: a Fragment that maps iterations to threads.
        prefer_async: accepted; the compiler decides.

    Raises:
        SemanticsError: no extents.
    """
    if not extents:
        raise errors.SemanticsError(
            "T.Parallel needs at least one extent", span=span.here(), notes=["T.Parallel(m, n)"]
        )
    sizes = [integer(extent, "extent of T.Parallel") for extent in extents]
    remark_ignored("T.Parallel", prefer_async=prefer_async)
    notes: dict[str, Any] = {}
    if coalesced_width is not None:
        notes["coalesced_width"] = constant("coalesced_width", coalesced_width, 1)
    if loop_layout is not None:
        notes["loop_layout"] = loop_layout

    def open_loop(hints: Sequence[str]) -> Opened:
        names = hints if len(hints) == len(sizes) else [f"i{n}" for n in range(len(sizes))]
        reducers = current("T.Parallel").reducers
        before = sum(reducer.contributions for reducer in reducers)

        def contributes() -> bool:
            return sum(reducer.contributions for reducer in reducers) > before

        def once_more() -> tuple[list[Expr], Iterations]:
            if all(isinstance(plain(size), int) for size in sizes):
                return _at_once(names, sizes, notes)
            return _in_chunks(names, sizes, notes, contributes)

        values, iterations = once_more()

        def close(body: Stmt, where: Any) -> Stmt:
            return close_divided(body, where, iterations, lambda: once_more()[1])

        return Opened(values[0] if len(values) == 1 else tuple(values), close)

    return Loop("T.Parallel", open_loop)


def _chunks(sizes: Sequence[Expr]) -> list[int | None]:
    """How many iterations of each dimension are spread at once; None for all of a constant extent.

    The innermost dimension of unknown extent gets as many as make four for each thread.
    """
    constants = [plain(size) for size in sizes]
    static = 1
    for extent in constants:
        static *= extent if isinstance(extent, int) else 1
    threads = current("T.Parallel").kernel.thread_count
    chunk = max(1, 4 * threads // max(static, 1))
    found: list[int | None] = []
    for extent in reversed(constants):
        found.append(None if isinstance(extent, int) else chunk)
        chunk = chunk if isinstance(extent, int) else 1
    return found[::-1]


def _at_once(
    names: Sequence[str], sizes: Sequence[Expr], notes: dict[str, Any]
) -> tuple[list[Expr], Iterations]:
    """A parallel loop with constant extents: its variables, and the loop."""
    variables = [var(name, size.dtype) for name, size in zip(names, sizes, strict=True)]

    def close(body: Stmt, where: Any) -> Stmt:
        inner = inner_dimensions(body, notes)
        extents = [*sizes, *inner.extents]
        return _parallel([*variables, *inner.variables], extents, inner.body, inner.notes, where)

    return [*variables], Iterations(variables, close)


def _in_chunks(
    names: Sequence[str],
    sizes: Sequence[Expr],
    notes: dict[str, Any],
    contributes: Callable[[], bool],
) -> tuple[list[Expr], Iterations]:
    """A parallel loop with extents known at run time: chunks of it, one after the other.

    Args:
        names, sizes, notes: of the loop.
        contributes: whether its body contributes to a reducer.

    Returns:
        The values of its dimensions, and the loop.
    """
    variables: list[Var] = []
    extents: list[Expr] = []
    values: list[Expr] = []
    bounds: list[Expr] = []
    serial_loops: list[tuple[Var, Expr]] = []
    for name, size, chunk in zip(names, sizes, _chunks(sizes), strict=True):
        inner = var(name, size.dtype)
        variables.append(inner)
        extents.append(size if chunk is None else as_expr(chunk, size.dtype))
        if chunk is None:
            values.append(inner)
            continue
        outer = var(f"{name}_chunk", size.dtype)
        serial_loops.append((outer, ceildiv(size, chunk)))
        values.append(outer * chunk + inner)
        bounds.append(values[-1] < size)

    def close(body: Stmt, where: Any) -> Stmt:
        inner = inner_dimensions(body, notes)
        body = inner.body
        for bound in bounds:
            body = _if(bound, body, None, where)
        names = [*variables, *inner.variables]
        body = _parallel(names, [*extents, *inner.extents], body, inner.notes, where)
        marks = {"chunks_of_parallel": True} if contributes() else {}
        for index, count in reversed(serial_loops):
            body = _for(index, as_expr(0, index.dtype), count, _SERIAL, body, marks, where)
        return body

    return values, Iterations([*variables, *(index for index, _ in serial_loops)], close)


def grid(*extents: Any) -> Loop:
    """Nested serial loops, one for each extent, the last the innermost."""
    sizes = [integer(extent, "extent of T.grid") for extent in extents]

    def open_loop(hints: Sequence[str]) -> Opened:
        names = hints if len(hints) == len(sizes) else [f"i{n}" for n in range(len(sizes))]
        variables = [var(name, size.dtype) for name, size in zip(names, sizes, strict=True)]
        value = variables[0] if len(variables) == 1 else tuple(variables)

        def close(body: Stmt, where: Any) -> Stmt:
            for index, size in zip(reversed(variables), reversed(sizes), strict=True):
                body = _for(index, as_expr(0, size.dtype), size, _SERIAL, body, {}, where)
            return body

        return Opened(value, close)

    return Loop("T.grid", open_loop)


Serial, Unroll, Vectorized = serial, unroll, vectorized

__all__ = [
    "IntImm",
    "Loop",
    "Opened",
    "Parallel",
    "Pipelined",
    "Serial",
    "Unroll",
    "Vectorized",
    "grid",
    "refuse_extra",
    "serial",
    "unroll",
    "vectorized",
]
