"""The calls that rewritten kernels make: ``__tl.<method>``."""

from __future__ import annotations

import builtins
import contextlib
import functools
from collections.abc import Callable
from typing import Any

from ... import _ffi, errors
from ...ir import span
from ...ir.buffer import Buffer, Load, Region, plain
from ...ir.dtype import DType
from ...ir.expr import Call, Expr, Operand, as_expr, cast, condition, select
from ...ir.span import Span
from ...ir.stmt import emit
from .. import scalar
from ..builder import Builder
from ..early_return import leave_kernel
from ..loops import leave_loop, serial
from ..variable import Poison, Ref, Unset
from ..vector_tile import VectorVariable
from . import names as values
from .blocks import COMPARISONS, IN_PLACE, For, If, While, known
from .rewrite import BlockNames, Tables

_evaluate = _ffi.get("ir.Evaluate")
_assert = _ffi.get("ir.Assert")

_NO_NAMES = BlockNames((), frozenset(), frozenset())


def _range_of_launches(*bounds: Any) -> Any:
    """The numbers of a `range` outside of kernels; the host runs no loops that it has to count."""
    constants = [plain(bound) for bound in bounds]
    known = all(isinstance(bound, int) for bound in constants)
    return range(*constants) if known else serial(*bounds)


class Tracer:
    """Traces one call of one rewritten function into a builder."""

    def __init__(self, builder: Builder, tables: Tables, spans: list[Span | None]) -> None:
        self._builder = builder
        self._file = tables.file
        self._places = tables.places
        self._hints = tables.hints
        self._blocks = tables.blocks
        self._spans = spans
        self._number = 0
        self._depth = len(builder.blocks)
        self._loops = len(builder.loops)

    # Places ---------------------------------------------------------------------------------

    def at(self, number: int) -> None:
        """Says which statement is executed now."""
        self._number = number
        self._builder.hints = self._hints[number]

    def span(self) -> Span:
        number = self._number
        found = self._spans[number]
        if found is None:
            found = self._spans[number] = span.make(self._file, *self._places[number])
        return found

    def _block_names(self) -> BlockNames:
        return self._blocks[self._number] or _NO_NAMES

    # Names ----------------------------------------------------------------------------------

    def unset(self, name: str) -> Unset:
        return Unset(name)

    def bind(self, name: str, value: Any) -> Any:
        return values.bind(self._builder, name, value)

    def assign(self, name: str, value: Any, old: Any) -> Any:
        return values.assign(self._builder, name, value, old)

    def in_place(self, operator: str, old: Any, value: Any) -> Any:
        return IN_PLACE[operator](old, value)

    def unpack(self, value: Any, size: int, star: int | None = None) -> list[Any]:
        """Returns the ``size`` items of ``value``; elements of memory are read now.

        The item with the number ``star`` is the list of those that the others leave.
        """
        if isinstance(value, (Operand, Buffer)):
            raise errors.UnsupportedSyntaxError(
                f"`{value}` is one value and cannot be unpacked into {size} names",
                span=span.here(),
            )
        items = list(value)
        if len(items) != size if star is None else len(items) < size - 1:
            least = "" if star is None else "at least "
            raise errors.SemanticsError(
                f"{len(items)} values cannot be unpacked into {least}"
                f"{size if star is None else size - 1} names",
                span=span.here(),
            )
        hints = self._hints[self._number]
        names = hints if len(hints) == len(items) else [f"item_{n}" for n in range(len(items))]
        found = [self._snapshot(name, item) for name, item in zip(names, items, strict=True)]
        if star is None:
            return found
        end = star + len(found) - size + 1
        return [*found[:star], found[star:end], *found[end:]]

    def _snapshot(self, name: str, item: Any) -> Any:
        if getattr(item, "fresh", False) or isinstance(item, (Buffer, Region)):
            return item
        return values.bind(self._builder, name, item)

    def annotated(self, annotation: Any, value: Any) -> Any:
        """``name: annotation = value``: a data type converts the value."""
        return cast(value, annotation) if isinstance(annotation, DType) else value

    def declare(self, name: str, annotation: Any, value: Any) -> Any:
        """``name: annotation``, without a value: declares a parameter."""
        if self._depth:
            raise errors.UnsupportedSyntaxError(
                f"parameter {name} of a macro is declared in its body",
                span=span.here(),
                notes=["parameters of a macro need no type: take the declaration away"],
            )
        if len(self._builder.blocks) > 1:
            raise errors.ScopeError(
                f"parameter {name} is declared under control flow that is not known yet",
                span=span.here(),
                notes=[
                    "conditions of declarations may use Python values, such as whether an argument "
                    "is None, but nothing that follows from tensors: no T.const, no T.dynamic"
                ],
            )
        return self._builder.parameters.declare(name, annotation, value)

    def context(self, value: Any) -> Any:
        """What `with` enters: a value of the kernel stands for itself, as of T.launch_thread."""
        return contextlib.nullcontext(value) if isinstance(value, Expr) else value

    def leave_with(self, number: int, *after: Any) -> tuple[Any, ...]:
        """Takes away, after T.Kernel or T.ws, the values that existed only in it."""
        left, self._builder.left = self._builder.left, None
        if left is None:
            return after
        block = self._blocks[number] or _NO_NAMES
        return tuple(
            value if self._lives_on(value) else values.out_of_scope(name, left, value)
            for name, value in zip(block.names, after, strict=True)
        )

    def _lives_on(self, value: Any) -> bool:
        """Returns whether a value exists after the block that has just been closed."""
        if isinstance(value, (Ref, VectorVariable)):
            return value.home is None or value.home in self._builder.blocks
        return not values.is_traced(value)

    # Control flow ---------------------------------------------------------------------------

    def if_(self, test: Any, has_else: bool, *before: Any) -> If:
        return If(self._builder, _scalar(test), has_else, self._block_names(), before)

    def loop(self, iterable: Any) -> For:
        return For(self._builder, iterable, self._block_names())

    def while_(self, test: Callable[[], Any], literal: bool) -> While:
        return While(self._builder, lambda: _scalar(test()), literal, self._block_names())

    def range_(self, function: Any) -> Any:
        """Returns the loop that `range` makes: the kernel's, or Python's between launches."""
        if function is not range:
            return function
        return serial if self._builder.kernel is not None else _range_of_launches

    def break_(self) -> bool:
        return leave_loop(self._builder, "break")

    def continue_(self) -> bool:
        return leave_loop(self._builder, "continue")

    def _outside_traced(self, keyword: str) -> None:
        blocks = self._builder.blocks[max(self._depth, 1) :]
        if any(block.kind != "kernel" for block in blocks):
            raise errors.UnsupportedSyntaxError(
                f"{keyword} under control flow known only at run time",
                span=span.here(),
                notes=["put the rest of the body under `else`"],
            )

    def leaves(self, has_value: bool) -> bool:
        """Handles return; true if the whole function is left, false if only some threads do."""
        blocks = self._builder.blocks[max(self._depth, 1) :]
        if has_value or self._depth or all(block.kind == "kernel" for block in blocks):
            return True
        leave_kernel(self._builder)
        return False

    def return_(self, value: Any) -> Any:
        self._outside_traced("return")
        if value is not None and not self._depth:
            self._builder.parameters.check_return(value)
        return value

    def raise_(self) -> None:
        self._outside_traced("raise")

    def assert_(self, test: Any, message: Callable[[], Any], text: str) -> None:
        test = _scalar(test)
        if known(test):
            if not test:
                raise errors.SemanticsError(
                    f"assertion failed: {message() or text}", span=span.here()
                )
            return
        emit(_assert(condition(test), str(message() or text), span.current()))

    # Expressions ----------------------------------------------------------------------------

    def evaluate(self, value: Any) -> None:
        """An expression as a statement: calls are made for their effect."""
        if isinstance(value, Call):
            emit(_evaluate(value, span.current()))
        elif isinstance(value, Poison):
            value._raise()

    def _lazily(self, operand: Callable[[], Any]) -> Any:
        """Evaluates an operand on which a run-time condition depends: it may have no effect."""
        block = self._builder.push("lazy")
        result = operand()
        self._builder.pop(block)
        return result

    def _logical(self, decided: bool, op: int, a: Any, b: Callable[[], Any]) -> Any:
        """``and`` (``or``), decided when an operand is known to be false (true)."""
        a = _scalar(a)
        if known(a):
            return a if bool(a) == decided else b()
        right = _scalar(self._lazily(b))
        if not known(right):
            return scalar.logical(op, a, right)
        return decided if bool(right) == decided else condition(a)

    def and_(self, a: Any, b: Callable[[], Any]) -> Any:
        return self._logical(False, scalar.AND, a, b)

    def or_(self, a: Any, b: Callable[[], Any]) -> Any:
        return self._logical(True, scalar.OR, a, b)

    def not_(self, value: Any) -> Any:
        value = _scalar(value)
        return not value if known(value) else scalar.logical_not(value)

    def compare(self, left: Any, *others: tuple[str, Callable[[], Any]]) -> Any:
        """A chained comparison, ``a < b <= c``."""
        result: Any = True
        for name, other in others:
            right = other()
            single = COMPARISONS[name](left, right)
            result = self._logical(False, scalar.AND, result, functools.partial(_identity, single))
            if known(result) and not result:
                return result
            left = right
        return result

    def if_exp(self, test: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        """``body if test else orelse``."""
        test = _scalar(test)
        if known(test):
            return body() if test else orelse()
        then, other = self._lazily(body), self._lazily(orelse)
        if values.same(then, other):
            return then
        return select(test, then, other)

    def builtin(self, function: Any) -> Any:
        """Returns the meaning of a builtin function in a kernel."""
        return _BUILTINS.get(function, function) if callable(function) else function


def _identity(value: Any) -> Any:
    return value


def _scalar(value: Any) -> Any:
    """A condition: expressions in place of what reads as one."""
    return as_expr(value) if isinstance(value, Operand) else value


def _extreme(python: Callable[..., Any], traced: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        items = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if kwargs or not any(isinstance(item, Operand) for item in items):
            return python(*args, **kwargs)
        result = items[0]
        for item in items[1:]:
            result = traced(result, item)
        return result

    return function


def _print(*args: Any, **kwargs: Any) -> None:
    from ..debug import print as print_in_kernel

    if any(isinstance(arg, (Operand, Buffer)) for arg in args):
        text = [arg for arg in args if isinstance(arg, str)]
        for arg in args:
            if not isinstance(arg, str):
                print_in_kernel(arg, msg=" ".join(text))
    else:
        builtins.print(*args, **kwargs)


def _bool(value: Any = False) -> Any:
    return condition(_scalar(value)) if isinstance(value, Operand) else bool(value)


_BUILTINS: dict[Any, Any] = {
    builtins.min: _extreme(builtins.min, scalar.min),
    builtins.max: _extreme(builtins.max, scalar.max),
    builtins.print: _print,
    builtins.bool: _bool,
}

__all__ = ["Expr", "Load", "Tracer"]
