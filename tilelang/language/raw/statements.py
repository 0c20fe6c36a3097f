"""Statements of TIR: blocks, attributes, branches as frames, barriers by their older names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _ffi, errors
from ... import target as targets
from ...ir import span
from ...ir.buffer import plain
from ...ir.expr import Expr, Var, as_expr, cast, condition
from ...ir.stmt import emit
from ..builder import Block, Builder, current, in_kernel
from ..ignored import remark_ignored
from ..scalar import AND, if_then_else, logical
from ..sync import (
    mbarrier_arrive,
    mbarrier_arrive_expect_tx,
    mbarrier_wait_parity,
    sync_threads,
    sync_warp,
)
from .allreduce import CommReducer
from .launch import IterVar, launch_thread

_if = _ffi.get("ir.If")
_while = _ffi.get("ir.While")


class _Frame:
    """A `with` block whose body becomes one statement."""

    def __init__(self, kind: str, close: Callable[[Block], None]) -> None:
        self._kind, self._close = kind, close
        self._block: Block | None = None

    def __enter__(self) -> None:
        self._block = current(self._kind).push(self._kind)

    def __exit__(self, error: Any, *_: Any) -> None:
        if error is None and self._block is not None:
            current(self._kind).end(self._block)
            self._close(self._block)


class _Nothing:
    """A `with` block that only groups statements."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


def attr(node: Any, attr_key: str, value: Any) -> Any:
    """An attribute of TIR, as a `with` block or for the rest of the block.

    ``"reduce_scope"`` with :func:`comm_reducer` says how ``T.tvm_thread_allreduce`` combines,
    ``"thread_extent"`` with ``T.iter_var`` binds a dimension; others leave a remark.
    """
    builder = current("T.attr")
    if attr_key == "reduce_scope" and isinstance(node, CommReducer):
        builder.reducer = node
    elif attr_key == "thread_extent" and isinstance(node, IterVar):
        launch_thread(node.place, value)
    else:
        remark_ignored("T.attr", attr_key=attr_key)
    return _Nothing()


def func_attr(attrs: dict[str, Any]) -> None:
    """Attributes of the function; they change nothing and leave a remark."""
    current("T.func_attr")
    remark_ignored("T.func_attr", attrs=sorted(attrs))


def target(target_config: Any = "auto", host: Any = None) -> Any:
    """The architecture that a description names, for :func:`func_attr`."""
    del host  # no host code is generated
    return targets.resolve(target_config)


class _BlockFrame:
    """``with T.sblock("name"):``; its reduction axes tell where ``T.init`` runs."""

    def __init__(self) -> None:
        self.starts: list[Expr] = []
        self._open: Block | None = None

    def __enter__(self) -> None:
        builder = current("T.sblock")
        builder.tir_blocks.append(self)
        self._open = builder.push("T.sblock")

    def __exit__(self, error: Any, *_: Any) -> None:
        if error is not None or self._open is None:
            return
        builder = current("T.sblock")
        builder.end(self._open)
        builder.tir_blocks.pop()
        for stmt in self._open.stmts:
            builder.emit(stmt)


def sblock(name_hint: str = "", no_realize: bool = False) -> _BlockFrame:
    """A block of TIR: its statements, in order; the compiler finds what it reads and writes."""
    del name_hint, no_realize
    return _BlockFrame()


block = sblock


def reads(*regions: Any) -> None:
    """States what a block reads; the compiler finds it itself."""
    del regions


def writes(*regions: Any) -> None:
    """States what a block writes; the compiler finds it itself."""
    del regions


def sblock_attr(attrs: dict[str, Any]) -> None:
    """Attributes of a block; they change nothing and leave a remark."""
    current("T.sblock_attr")
    remark_ignored("T.sblock_attr", attrs=sorted(attrs))


block_attr = sblock_attr


def _innermost(what: str) -> _BlockFrame:
    blocks = current(what).tir_blocks
    if not blocks:
        raise errors.ScopeError(f"{what} is outside of `with T.sblock(...)`", span=span.here())
    return blocks[-1]


class _Axis:
    """``T.axis``: the variables of a block, which are the values that they are given."""

    def spatial(self, dom: Any, value: Any = None, dtype: str = "int32") -> Any:
        """An axis whose iterations are independent."""
        del dtype
        return dom if value is None else value

    def reduce(self, dom: Any, value: Any, dtype: str = "int32") -> Any:
        """An axis that is reduced over: ``T.init`` runs where it is at its start."""
        del dtype
        start = dom[0] if isinstance(dom, (tuple, list)) else 0
        _innermost("T.axis.reduce").starts.append(condition(as_expr(value) == start))
        return value

    def remap(self, kinds: str, bindings: Sequence[Any], dtype: str = "int32") -> Any:
        """Several axes, ``"S"`` or ``"R"`` each."""
        del dtype
        found = [
            self.reduce(0, value) if kind == "R" else self.spatial(0, value)
            for kind, value in zip(kinds, bindings, strict=True)
        ]
        return found[0] if len(found) == 1 else found

    S, R = spatial, reduce


axis = _Axis()


def init() -> _Frame:
    """``with T.init():`` runs where the reduction axes of the block are at their start."""
    starts = _innermost("T.init").starts
    where = span.current()

    def close(opened: Block) -> None:
        if not starts:
            for stmt in opened.stmts:
                emit(stmt)
            return
        first = starts[0]
        for start in starts[1:]:
            first = logical(AND, first, start)
        emit(_if(first, opened.body(), None, where))

    return _Frame("T.init", close)


def where(cond: Any, *values: Any) -> Any:
    """``T.where(c, t, f)``: as ``T.if_then_else``. ``T.where(c)``: the rest of a block needs it."""
    if values:
        return if_then_else(cond, *values)
    _innermost("T.where")
    builder, place = current("T.where"), span.current()
    rest = builder.push("if")

    def close() -> None:
        builder.end(rest)
        builder.emit(_if(condition(cond), rest.body(), None, place))

    rest.close = close
    return None


class _IfFrame:
    """``with T.If(c):`` around ``with T.Then():`` and ``with T.Else():``."""

    def __init__(self, cond: Any) -> None:
        self._condition = condition(cond)
        self.branches: dict[str, Block] = {}

    def __enter__(self) -> None:
        current("T.If").tir_ifs.append(self)

    def __exit__(self, error: Any, *_: Any) -> None:
        builder = current("T.If")
        builder.tir_ifs.pop()
        if error is not None:
            return
        then, other = self.branches.get("T.Then"), self.branches.get("T.Else")
        if then is None:
            raise errors.SemanticsError("T.If without T.Then", span=span.here())
        builder.emit(_if(self._condition, then.body(), other and other.body(), span.current()))


def If(condition: Any) -> _IfFrame:
    """A branch as a frame: ``with T.If(c): with T.Then(): ...; with T.Else(): ...``."""
    in_kernel("T.If")
    return _IfFrame(condition)


def _branch(what: str) -> _Frame:
    frames = current(what).tir_ifs
    if not frames:
        raise errors.ScopeError(f"{what} is outside of `with T.If(...)`", span=span.here())
    frame = frames[-1]

    def close(opened: Block) -> None:
        frame.branches[what] = opened

    return _Frame(what, close)


def Then() -> _Frame:
    """Opens the block that runs if the condition of ``T.If`` holds."""
    return _branch("T.Then")


def Else() -> _Frame:
    """Opens the block that runs if the condition of ``T.If`` does not hold."""
    return _branch("T.Else")


def While(condition: Any) -> _Frame:
    """A loop as a frame: ``with T.While(c):``; what it tests must be memory or a T.alloc_var."""
    in_kernel("T.While")
    test, where = as_expr(condition), span.current()

    def close(opened: Block) -> None:
        emit(_while(test, opened.body(), where))

    return _Frame("while", close)


def bind(value: Any, *, var: Any = None) -> Any:
    """Evaluates ``value`` here and names it; as an assignment."""
    del var
    builder: Builder = in_kernel("T.bind")
    return builder.bind(builder.take_hint("x"), as_expr(value))


def let(v: Any, value: Any, body: Any = None) -> Any:
    """``T.let(x, value, body)``: ``body`` with ``value`` for the variable ``x``.

    Without a body, ``value`` evaluated here, as an assignment: a variable ``x = T.int32()`` has it
    from here on.
    """
    variable = v if isinstance(v, Var) else None
    if body is None and variable is None:
        return bind(value)
    builder = in_kernel("T.let")
    value = as_expr(value) if variable is None else cast(value, variable.dtype)
    emit(_ffi.get("ir.Bind")(v, value, span.current()))
    if body is None:
        return v
    return builder.bind("let", as_expr(body))


Let = let


def tvm_storage_sync(scope: str = "shared") -> None:
    """Waits for the threads of the block (``"shared"``) or of the warp (``"warp"``).

    Raises:
        SemanticsError: another scope.
    """
    name = str(plain(scope)).strip('"')
    if name not in ("shared", "shared.dyn", "warp"):
        raise errors.SemanticsError(
            f'T.tvm_storage_sync({name!r}): the scopes are "shared" and "warp"', span=span.here()
        )
    if name == "warp":
        sync_warp()
    else:
        sync_threads()


ptx_arrive_barrier = mbarrier_arrive
ptx_arrive_barrier_expect_tx = mbarrier_arrive_expect_tx
ptx_wait_barrier = mbarrier_wait_parity
ptx_arrive_cluster_barrier = mbarrier_arrive


def buffer_store(buffer: Any, value: Any, indices: Any, predicate: Any = None) -> None:
    """``buffer[indices] = value``, where ``predicate`` holds."""
    in_kernel("T.buffer_store")
    index = tuple(indices) if isinstance(indices, (list, tuple)) else indices
    with guarded(predicate):
        buffer[index] = value


def guarded(predicate: Any) -> Any:
    """A `with` block whose statements run where ``predicate`` holds; None: everywhere."""
    if predicate is None:
        return _Nothing()
    test, where = condition(predicate), span.current()
    return _Frame("if", lambda opened: emit(_if(test, opened.body(), None, where)))
