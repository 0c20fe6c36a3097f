"""Branches and loops as the rewritten code sees them: run at once, or traced into IR."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from ... import _ffi, errors
from ...ir import span
from ...ir.expr import FloatImm, IntImm, Operand, as_expr, condition
from ...ir.stmt import Stmt, store
from ..builder import Block, Builder
from ..disjoint import with_promises
from ..early_return import path_of, skip_the_rest
from ..loops import Loop
from ..variable import Poison, Ref, Unset, allocate
from . import names as values
from .rewrite import BlockNames

_if = _ffi.get("ir.If")
_while = _ffi.get("ir.While")


def known(value: Any) -> bool:
    """Returns whether a condition is decided while tracing."""
    return not isinstance(value, Operand) or isinstance(value, (IntImm, FloatImm))


class If:
    """``if``: one branch is executed when the condition is known, else both are traced."""

    def __init__(
        self, builder: Builder, test: Any, has_else: bool, info: BlockNames, before: tuple[Any, ...]
    ) -> None:
        self._builder = builder
        self._where = span.current()
        self._place = span.current
        self._info = info
        self._before = before
        self._has_else = has_else
        self._traced = not known(test)
        self._condition = condition(test) if self._traced else None
        self.then = True if self._traced else bool(test)
        self.other = self._traced or not self.then
        self._block: Block | None = None
        self._branches: list[Block] = []
        self._results: list[tuple[Any, ...]] = []

    def __enter__(self) -> None:
        if self._traced:
            self._block = self._builder.push("if")

    def __exit__(self, error: Any, *_rest: Any) -> None:
        if self._block is None or error is not None:
            return
        self._builder.end(self._block)
        self._branches.append(self._block)
        if not self._info.names and len(self._branches) == 1 + self._has_else:
            self._emit()

    def _emit(self) -> None:
        test = self._condition
        assert test is not None
        if any(branch.leaves is not None for branch in self._branches):
            test = self._builder.bind("leaves", test)
        leaves = path_of(test, self._branches)
        bodies = [Block.body(branch) for branch in self._branches]
        other = bodies[1] if len(bodies) > 1 and self._branches[1].stmts else None
        self._builder.emit(_if(test, bodies[0], other, self._where))
        if self._has_else and all(branch.ended for branch in self._branches):
            self._builder.blocks[-1].ended = True
        skip_the_rest(self._builder, leaves)

    def branch_done(self, *after: Any) -> tuple[Any, ...]:
        """Takes the values of the names after a branch; returns those for the next one."""
        if not self._traced:
            return after
        self._results.append(after)
        return self._before

    def merge(self, *after: Any) -> tuple[Any, ...]:
        """Emits the statement and returns the values of the names after it."""
        if not self._traced:
            return after
        if len(self._results) == 1:
            self._results.append(self._before)
            self._branches.append(Block("if", self._where))
        merged = [
            self._merge(name, before, then, other)
            for name, before, then, other in zip(
                self._info.names, self._before, *self._results, strict=True
            )
        ]
        self._emit()
        return tuple(merged)

    def _merge(self, name: str, before: Any, then: Any, other: Any) -> Any:
        if name in self._info.local:
            return before
        live = [
            (value, branch)
            for value, branch in zip((then, other), self._branches, strict=True)
            if not branch.ended
        ]
        candidates = [value for value, _ in live]
        if not live:  # what follows is never executed
            return before
        first = candidates[0]
        if all(values.same(value, first) for value in candidates) and (
            values.same(first, before) or not values.is_traced(first)
        ):
            return first
        if values.is_tile_again(before, candidates):
            return before
        if not all(values.is_scalar(value) for value in candidates):
            return values.out_of_scope(name, "a branch whose condition is known only at run time")
        dtype = values.common_type(candidates)
        joined = allocate(name, dtype, implicit=True)
        for value, branch in live:
            branch.stmts.append(store(joined.target, as_expr(value, dtype)))
        return joined


class _LoopNames:
    """Names that change in a traced loop: made mutable before it, dropped after it."""

    def __init__(self, builder: Builder, info: BlockNames, kind: str) -> None:
        self._builder = builder
        self._info = info
        self._kind = kind
        self._where = span.here()
        self._before: tuple[Any, ...] = ()

    def enter(self, before: tuple[Any, ...]) -> tuple[Any, ...]:
        self._before = tuple(map(self._promoted, self._info.names, before))
        return self._before

    def _promoted(self, name: str, value: Any) -> Any:
        if name in self._info.local:
            return value
        if self._kind == "T.Parallel" and values.is_scalar(value):
            if not isinstance(value, Ref) and name not in self._info.carried:
                return value
            raise errors.SemanticsError(
                f"scalar `{name}` is carried from one iteration of T.Parallel to another",
                span=span.here(),
                notes=[
                    "iterations of T.Parallel are independent: use T.reduce_sum and the like, an "
                    "element of a buffer, or T.serial"
                ],
            )
        if isinstance(value, (Ref, Poison)) or not values.is_scalar(value):
            return value
        return allocate(name, values.common_type([value]), init=value, implicit=True)

    def leave(self, after: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self._left, self._info.names, self._before, after))

    def _left(self, name: str, before: Any, after: Any) -> Any:
        block = f"a {self._kind} loop"
        if name in self._info.local:
            return values.out_of_scope(name, block)
        if values.same(before, after):
            return after
        if name in self._info.carried and not isinstance(before, Unset):
            raise values.no_rebinding(name, block, self._where)
        if values.is_tile_again(before, [after]):
            return before
        return values.out_of_scope(name, block) if values.is_traced(after) else after


class For:
    """``for``: Python iterables run while tracing; loops of the language are traced once."""

    def __init__(self, builder: Builder, iterable: Any, info: BlockNames) -> None:
        self._builder = builder
        self._iterable = iterable
        self._traced = isinstance(iterable, Loop)
        kind = iterable.kind if self._traced else "python"
        self._names = _LoopNames(builder, info, kind)
        self._kind = kind
        self._hints = builder.hints

    def enter(self, *before: Any) -> tuple[Any, ...]:
        return self._names.enter(before) if self._traced else before

    def leave(self, *after: Any) -> tuple[Any, ...]:
        return self._names.leave(after) if self._traced else after

    def __iter__(self) -> Iterator[Any]:
        return self._trace() if self._traced else self._run()

    def _run(self) -> Iterator[Any]:
        loops = self._builder.loops
        loops.append(("python", len(self._builder.blocks)))
        try:
            yield from self._iterable
        finally:
            loops.pop()

    def _trace(self) -> Iterator[Any]:
        builder, where = self._builder, span.current()
        frame = self._iterable.open(self._hints, builder)
        block = builder.push(self._kind)
        builder.loops.append((self._kind, len(builder.blocks)))
        value = self._bound(frame.value)
        block.targets = value if isinstance(value, tuple) else (value,)
        yield value
        builder.loops.pop()
        loop = frame.close(builder.pop(block), where)
        builder.emit(with_promises(loop, block.disjoint) if block.disjoint else loop)

    def _bound(self, value: Any) -> Any:
        """Computes what the loop gives once, when it is more than its variables."""
        if self._kind != "T.Persistent":
            return value
        items = value if isinstance(value, tuple) else (value,)
        names = self._hints if len(self._hints) == len(items) else ["tile"] * len(items)
        bound = tuple(map(self._builder.bind, names, items))
        return bound if isinstance(value, tuple) else bound[0]


class While:
    """``while``: a known condition is tested while tracing; another makes a loop."""

    def __init__(
        self, builder: Builder, test: Callable[[], Any], literal: bool, info: BlockNames
    ) -> None:
        self._builder = builder
        self._test = test
        self._first: Any = test()
        self._traced = literal or not known(self._first)
        self._names = _LoopNames(builder, info, "while")
        self._where = span.current()
        self._place = span.here()
        self._iterations = 0
        self._condition: Any = None
        self._block: Block | None = None

    def enter(self, *before: Any) -> tuple[Any, ...]:
        return self._names.enter(before) if self._traced else before

    def leave(self, *after: Any) -> tuple[Any, ...]:
        return self._names.leave(after) if self._traced else after

    def again(self) -> bool:
        self._iterations += 1
        if self._traced:
            return self._iterations == 1
        test = self._first if self._iterations == 1 else self._test()
        if not known(test):
            raise errors.UnsupportedSyntaxError(
                "the condition of this loop is known in its first iteration and not in a later one",
                span=self._place,
                notes=["make the variables it tests T.alloc_var before the loop"],
            )
        return bool(test)

    def __enter__(self) -> None:
        builder = self._builder
        if self._traced:
            # Names that change are mutable by now: the condition reads them anew.
            self._condition = condition(self._test())
            self._block = builder.push("while")
        kind = "while" if self._traced else "python"
        builder.loops.append((kind, len(builder.blocks)))

    def __exit__(self, error: Any, *_rest: Any) -> None:
        self._builder.loops.pop()
        if self._block is None or error is not None:
            return
        body: Stmt = self._builder.pop(self._block)
        self._builder.emit(_while(self._condition, body, self._where))


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}
IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.iadd,
    "Sub": operator.isub,
    "Mult": operator.imul,
    "Div": operator.itruediv,
    "FloorDiv": operator.ifloordiv,
    "Mod": operator.imod,
    "Pow": operator.ipow,
    "LShift": operator.ilshift,
    "RShift": operator.irshift,
    "BitOr": operator.ior,
    "BitXor": operator.ixor,
    "BitAnd": operator.iand,
    "MatMult": operator.imatmul,
}
