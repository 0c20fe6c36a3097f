"""``@T.prim_func`` and ``@T.macro``: Python functions that are traced into the IR."""

from __future__ import annotations

import enum
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, FunctionType, TracebackType
from typing import Any, overload

from .. import _ffi, errors
from ..ir import span
from ..ir.dtype import HANDLE, DType, dtype_of
from ..ir.expr import Var, var
from ..ir.span import Span
from ..ir.stmt import Func, set_sink
from .builder import Builder, active, current, set_active
from .parser.compiled import CODES, bind_tracer, compiled
from .parser.names import bind
from .parser.rewrite import TRACER, Tables
from .parser.tracer import Tracer
from .tensor import PointerType, TensorType
from .variable import Ref

_func = _ffi.get("ir.Func")

# Where the code lies that arguments of a kernel's statements reach.
_OUR_FOLDERS = (
    *(str(Path(file).parent) + os.sep for file in (errors.__file__, _ffi.tvm_ffi.__file__)),
    *(enum.__file__, inspect.__file__),
)

# Macros inside macros; each takes several frames of Python's stack.
_DEEPEST_MACRO = 64

_spans: dict[int, list[Span | None]] = {}


def _tracer(function: FunctionType, builder: Builder) -> Tracer:
    tables: Tables = compiled(function).tables
    spans = _spans.setdefault(id(tables), [None] * len(tables.places))
    return Tracer(builder, tables, spans)


def _annotations(function: FunctionType, frame: FrameType | None) -> dict[str, Any]:
    """The annotations of ``function``, evaluated where they are strings.

    Names are looked up in the closure, in the scopes around the definition and in the module.
    """
    found = dict(function.__annotations__)
    scope: dict[str, Any] = {}
    outer = []
    while frame is not None and frame.f_code.co_name != "<module>":
        outer.append(frame)
        frame = frame.f_back
        if len(outer) == 4:
            break
    for each in reversed(outer):
        if each.f_globals is function.__globals__:
            scope.update(each.f_locals)
    scope.update(inspect.getclosurevars(function).nonlocals)
    for name, annotation in found.items():
        if isinstance(annotation, str):
            found[name] = _evaluated(function, name, annotation, scope)
    return found


def _evaluated(function: FunctionType, name: str, text: str, scope: dict[str, Any]) -> Any:
    try:
        return dtype_of(text)
    except errors.TileLangError:
        pass
    try:
        return eval(text, function.__globals__, scope)
    except NameError as error:
        code = function.__code__
        raise errors.UnknownNameError(
            f"annotation `{text}` of parameter {name}: {error}",
            span=errors.Span(code.co_filename, code.co_firstlineno),
        ) from None


def _parameter(name: str, annotation: Any, symbols: dict[str, Var], where: errors.Span) -> Any:
    if isinstance(annotation, TensorType):
        return annotation.buffer(name, symbols)
    if isinstance(annotation, PointerType) or annotation in (PointerType, "handle"):
        return var(name, HANDLE)
    if callable(annotation) and not isinstance(annotation, (type, DType)):
        annotation = annotation()
        return _parameter(name, annotation, symbols, where)
    try:
        return var(name, dtype_of(annotation))
    except errors.TileLangError as error:
        raise errors.DTypeError(
            f"parameter {name} has annotation `{annotation}`, which is neither a tensor nor a "
            "scalar type",
            span=where,
            notes=[f"use {name}: T.Tensor((M, N), dtype) or {name}: T.int32", *error.notes],
        ) from None


def _parameters(function: FunctionType, frame: FrameType | None, tables: Tables) -> dict[str, Any]:
    annotations = _annotations(function, frame)
    symbols: dict[str, Var] = {}
    values: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        place = errors.Span(tables.file, *tables.arguments[name])
        span.set_place(functools.partial(span.make, tables.file, *tables.arguments[name]))
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise errors.UnsupportedSyntaxError(
                f"parameter *{name} of {function.__name__}: the parameters of a kernel are fixed",
                span=place,
            )
        if name in annotations:
            values[name] = _parameter(name, annotations[name], symbols, place)
        elif parameter.default is not parameter.empty:
            values[name] = parameter.default
        else:
            raise errors.UnsupportedSyntaxError(
                f"parameter {name} of {function.__name__} has no annotation",
                span=place,
                notes=[f"write {name}: T.Tensor((M, N), dtype), or {name}: T.int32 for a scalar"],
            )
    return values


def _definition_span(function: FunctionType) -> Span:
    code = function.__code__
    line = code.co_firstlineno
    return span.make(code.co_filename, line, 0, line, 0)


@contextmanager
def _tracing(builder: Builder, place: Callable[[], Span]) -> Iterator[None]:
    """Makes ``builder`` the one that operators and statements use, in this thread."""
    previous = set_active(builder), set_sink(builder.emit), span.set_place(place)
    try:
        yield
    finally:
        set_active(previous[0])
        set_sink(previous[1])
        span.set_place(previous[2])


def _innermost(trace: TracebackType | None) -> tuple[TracebackType | None, bool]:
    """The innermost frame of a traceback in a kernel, and whether the error arose right there."""
    found, last = None, False
    while trace is not None:
        last = trace.tb_frame.f_code in CODES
        found = trace if last else found
        trace = trace.tb_next
    return found, last


def _expression(trace: TracebackType) -> errors.Span | None:
    """The expression of a kernel being evaluated in a frame; None before Python 3.11."""
    code = trace.tb_frame.f_code
    if sys.version_info >= (3, 11):
        line, end_line, column, end_column = list(code.co_positions())[trace.tb_lasti // 2]
        if line is not None and column is not None and end_column is not None:
            return errors.Span(code.co_filename, line, column + 1, end_line or line, end_column + 1)
    return None


def _statement(trace: TracebackType) -> errors.Span | None:
    tracer: Tracer = trace.tb_frame.f_locals[TRACER]
    return span.for_error(tracer.span())


def _raised_by_us(trace: TracebackType) -> bool:
    """Whether an error of a kernel's statement arose in this package or below it.

    Not in a function of the user's, which the kernel or this package called.
    """
    rest = trace.tb_next
    while rest is not None:
        file = rest.tb_frame.f_code.co_filename
        if not file.startswith(_OUR_FOLDERS) and not file.endswith((".pyx", ".pxi")):
            return False
        rest = rest.tb_next
    return True


def _refusal(error: Exception) -> str:
    """What to say of an error that arguments caused which nothing checks by name."""
    text = str(error).split("\n")[0]
    return f"these arguments have no meaning here ({type(error).__name__}: {text})"


@contextmanager
def _explained() -> Iterator[None]:
    """Turns errors of tracing into errors with a place in the kernel."""
    try:
        yield
    except errors.TileLangError as error:
        trace, _ = _innermost(error.__traceback__)
        if trace is not None:
            exact = _expression(trace)
            # The expression at fault says more than its statement.
            if exact is not None and (error.span is None or error.span.file == exact.file):
                error.span = exact
            error.span = error.span or _statement(trace)
        raise
    except Exception as error:
        trace, direct = _innermost(error.__traceback__)
        if trace is None:
            raise
        place = _expression(trace) or _statement(trace)
        if not direct:
            if _raised_by_us(trace):
                raise errors.SemanticsError(_refusal(error), span=place) from error
            raise
        if isinstance(error, TypeError):
            raise errors.SemanticsError(str(error), span=place) from None
        if isinstance(error, (NameError, AttributeError)):
            raise errors.UnknownNameError(str(error), span=place) from None
        raise


def _trace(function: FunctionType, frame: FrameType | None) -> Func:
    builder = Builder()
    where = _definition_span(function)
    with _explained(), _tracing(builder, lambda: where):
        tracer = _tracer(function, builder)
        values = _parameters(function, frame, compiled(function).tables)
        block = builder.push("function")
        span.set_place(tracer.span)
        bind_tracer(function, tracer)(**values)
        span.set_place(lambda: where)
        params = [value for name, value in values.items() if name in function.__annotations__]
        return _func(function.__name__, params, builder.pop(block), builder.attrs, where)


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
    parameters or thread and block indices becomes IR.

    Args:
        func: the function.
        private, eager_jit: accepted for compatibility; eager functions are not supported.

    Returns:
        The traced function.

    Raises:
        CompileError: the function is not a valid kernel.
    """
    if eager_jit:
        raise errors.UnsupportedError(
            "functions of the eager style are not supported",
            notes=["return a T.prim_func from a function decorated with @tilelang.jit"],
        )
    if func is None:
        return prim_func
    # Frames: this function, errors.boundary, the decorated definition's scope.
    return _trace(_python_function(func), sys._getframe(2))


def _python_function(function: Any) -> FunctionType:
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        raise errors.UnsupportedSyntaxError(
            f"{function!r} is not a Python function", notes=["decorate a `def`"]
        )
    return function


class Macro:
    """A function whose body is traced into each kernel that calls it."""

    def __init__(self, function: Any) -> None:
        self.function = _python_function(function)
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
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            by_reference = name in self._references()
            bound.arguments[name] = (
                _reference(name, value) if by_reference else bind(builder, name, value)
            )
        tracer = _tracer(self.function, builder)
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
            return bind_tracer(self.function, tracer)(*bound.args, **bound.kwargs)
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
        f"argument {name} is a T.Ref; it takes a T.alloc_var or an element A[i], not `{value}`",
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
    """Whether a kernel is being traced in this thread."""
    return active() is not None


__all__ = ["Macro", "RefType", "is_tracing", "macro", "prim_func"]
