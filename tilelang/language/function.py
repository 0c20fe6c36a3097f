"""``@T.prim_func`` and ``@T.macro``: Python functions that are traced into the IR."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any, overload

from .. import errors
from ..ir import span
from ..ir.stmt import Func
from .builder import Builder, active, current
from .outputs import function_of
from .parameters import parameters_of, remember_scope
from .parser.compiled import bind_tracer, compiled
from .parser.names import bind
from .parser.source import definition
from .tracing import definition_span, explained, tracer_of, tracing
from .variable import Ref

# Macros inside macros; each takes several frames of Python's stack.
_DEEPEST_MACRO = 64


def _trace(function: FunctionType, frame: FrameType | None) -> Func:
    builder = Builder()
    where = definition_span(function)
    with explained(), tracing(builder, lambda: where):
        code = compiled(function)
        if code.tables.declared:
            remember_scope(function, definition(function), frame)
        tracer = tracer_of(code, builder)
        builder.parameters, values = parameters_of(function, frame, code.tables)
        builder.push("function")
        span.set_place(tracer.span)
        result = bind_tracer(function, code, tracer)(**values)
        span.set_place(lambda: where)
        return function_of(builder, function.__name__, result, where)[0]


@overload
def prim_func(func: Callable[..., Any]) -> Func: ...
@overload
def prim_func(
    func: None = None, *, private: bool = ..., eager_jit: bool = ...
) -> Callable[[Callable[..., Any]], Func]: ...
@errors.boundary
def prim_func(
    func: Callable[..., Any] | None = None, *, private: bool = False, eager_jit: bool = False
) -> Any:
    """Traces a Python function into the IR: ``@T.prim_func``.

    Parameters are annotated with ``T.Tensor((M, N), dtype)`` (tensors) or a data type (scalars);
    one without an annotation keeps its default, a Python value. The body is executed once:
    Python values are computed while tracing, everything that depends on tensors, scalar
    parameters or thread and block indices becomes IR. It may return what ``T.empty`` allocates:
    those are outputs, as if ``out_idx`` named them.

    Args:
        func: the function.
        private: accepted for compatibility.
        eager_jit: refused: decorate the function with ``@tilelang.jit`` instead.

    Returns:
        The traced function.

    Raises:
        CompileError: the function is not a valid kernel.
    """
    if eager_jit:
        raise errors.UnsupportedError(
            "eager_jit=True is not supported for T.prim_func",
            notes=["decorate a function whose body is the kernel with @tilelang.jit alone"],
        )
    if func is None:
        return prim_func
    # Frames: this function, errors.boundary, the decorated definition's scope.
    return _trace(python_function(func), sys._getframe(2))


def python_function(function: Any) -> FunctionType:
    """Returns the function under decorators that keep what they wrap.

    Raises:
        UnsupportedSyntaxError: there is none.
    """
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        raise errors.UnsupportedSyntaxError(
            f"{function!r} is not a Python function", notes=["decorate a `def`"]
        )
    return function


class Macro:
    """A function whose body is traced into each kernel that calls it."""

    def __init__(self, function: Any) -> None:
        self.function = python_function(function)
        functools.update_wrapper(self, self.function)
        self._by_reference: frozenset[str] | None = None

    def _references(self) -> frozenset[str]:
        """The parameters annotated with T.Ref."""
        if self._by_reference is None:
            notes = self.function.__annotations__
            self._by_reference = frozenset(
                name
                for name, note in notes.items()
                if note is RefType or (isinstance(note, str) and note.split(".")[-1] == "Ref")
            )
        return self._by_reference

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        builder = current(f"macro {self.function.__name__}")
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError as error:
            raise errors.SemanticsError(
                f"macro {self.function.__name__}: {error}",
                span=span.here(),
                notes=errors.arguments_of(self.function),
            ) from None
        for name, value in bound.arguments.items():
            by_reference = name in self._references()
            bound.arguments[name] = (
                _reference(name, value) if by_reference else bind(builder, name, value)
            )
        code = compiled(self.function)
        tracer = tracer_of(code, builder)
        caller = span.here()
        if builder.macro_depth >= _DEEPEST_MACRO:
            raise errors.SemanticsError(
                f"macro {self.function.__name__} is called at a depth of {_DEEPEST_MACRO} macros",
                span=caller,
                notes=["a macro that calls itself must end while it is traced: by a Python value"],
            )
        builder.macro_depth += 1
        call_place = span.set_place(tracer.span)
        try:
            return bind_tracer(self.function, code, tracer)(*bound.args, **bound.kwargs)
        except errors.TileLangError as error:
            text = f"in macro {self.function.__name__}, called here"
            error.span = error.span or span.here()
            note = errors.Note(text, caller)
            if note not in error.notes:  # of a recursion
                error.notes.append(note)
            raise
        finally:
            builder.macro_depth -= 1
            span.set_place(call_place)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _reference(name: str, value: Any) -> Ref:
    if isinstance(value, Ref):
        return value
    if hasattr(value, "buffer") and hasattr(value, "indices"):
        return Ref(value)
    raise errors.SemanticsError(
        f"parameter {name} is a T.Ref: pass a T.alloc_var or an element A[i], not `{value}`",
        span=span.here(),
    )


class RefType:
    """Annotation of a macro's parameter that is written through: ``x: T.Ref``."""


def macro(func: Callable[..., Any] | None = None, **_options: Any) -> Any:
    """Marks a function to be inlined where a kernel calls it: ``@T.macro``.

    Buffers are passed by reference, scalars by value unless annotated ``T.Ref``. Python values
    are passed as they are. The function may return anything.
    """
    return macro if func is None else Macro(func)


def is_tracing() -> bool:
    """Returns whether a kernel is being traced in this thread."""
    return active() is not None


__all__ = ["Macro", "RefType", "is_tracing", "macro", "prim_func"]
