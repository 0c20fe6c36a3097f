"""Executes rewritten functions: where statements go, and what errors say of their place."""

from __future__ import annotations

import enum
import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, TracebackType

from .. import _ffi, errors
from ..ir import span
from ..ir.expr import Operand
from ..ir.span import Span
from ..ir.stmt import set_sink
from .builder import Builder, set_active
from .parser.compiled import CODES, Compiled
from .parser.rewrite import TRACER
from .parser.tracer import Tracer
from .region import AS_PARAMETER

# Where the code lies that arguments of a kernel's statements reach.
_OUR_FOLDERS = (
    *(str(Path(file).parent) + os.sep for file in (errors.__file__, _ffi.tvm_ffi.__file__)),
    *(enum.__file__, inspect.__file__),
)

_spans: dict[int, list[Span | None]] = {}


def tracer_of(code: Compiled, builder: Builder) -> Tracer:
    """Returns what the rewritten ``code`` calls while it is executed into ``builder``."""
    tables = code.tables
    spans = _spans.setdefault(id(tables), [None] * len(tables.places))
    return Tracer(builder, tables, spans)


def definition_span(function: FunctionType) -> Span:
    """The place of a function: the line of its first decorator, or of its ``def``."""
    code = function.__code__
    line = code.co_firstlineno
    return span.make(code.co_filename, line, 0, line, 0)


@contextmanager
def tracing(builder: Builder, place: Callable[[], Span]) -> Iterator[None]:
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


def _statement(trace: TracebackType) -> errors.Span | None:
    tracer: Tracer = trace.tb_frame.f_locals[TRACER]
    return span.for_error(tracer.span())


def _raised_by_us(trace: TracebackType) -> bool:
    """Returns whether an error of a kernel's statement arose in this package or below it.

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
    """Returns the message for an error caused by arguments that no check names."""
    text = str(error).split("\n")[0]
    return f"these arguments have no meaning here ({type(error).__name__}: {text})"


# What Python says of a call with other arguments than a function has, and what torch says of our
# operands.
_MISFIT = re.compile(r"(\w+)\(\) (?:got an unexpected keyword|missing|takes)")
_OF_TORCH = re.compile(r"(\w+)\(\): .* must be Tensor, not \w+")
_NO_METHOD = re.compile(r"'Buffer' object has no attribute '(\w+)'")
# Pieces of what others say of our operands, and what to do instead.
_PIECES = {
    "does not support ufuncs": "functions of NumPy take arrays, outside of kernels; of elements, "
    "use the functions of T, such as T.exp",
    "for @: 'Buffer'": "products of tiles are T.gemm(A, B, C)",
    "'module' object is not callable": "a file of the language has this name, no operator; "
    "the operators are listed in its reference, as T.gemm and T.reduce_sum",
    "and 'Buffer'": "tiles are computed element by element: "
    "for i, j in T.Parallel(M, N): C[i, j] = A[i, j] + B[i, j]",
    "'Buffer' and": "tiles are computed element by element: "
    "for i, j in T.Parallel(M, N): C[i, j] = A[i, j] * 2",
    "only integers, slices (": AS_PARAMETER,
    "define __round__": "use T.round",
}


def _advice(text: str) -> list[str]:
    """Returns what to do about an error that Python or torch raised."""
    from .. import language

    if misfit := _MISFIT.match(text):
        function = vars(language).get(misfit[1])
        return [] if function is None else errors.arguments_of(function)
    if torch := _OF_TORCH.match(text):
        has = f"T.{torch[1]}" if torch[1] in vars(language) else "the functions of T, such as T.exp"
        return [f"functions of torch take tensors, outside of kernels; of elements, use {has}"]
    if (method := _NO_METHOD.match(text)) and method[1] in vars(language):
        return [f"write T.{method[1]}(buffer, ...)"]
    if _NO_METHOD.match(text):
        return [
            "a buffer has .shape, .dtype, .scope and .ndim; elements are A[i, j], and what is done "
            "with tiles are functions of T, as T.copy and T.reduce_sum"
        ]
    return [advice for piece, advice in _PIECES.items() if piece in text][:1]


def _holds(statement: errors.Span, expression: errors.Span) -> bool:
    last = statement.end_line or statement.line
    return statement.file == expression.file and statement.line <= expression.line <= last


@contextmanager
def explained() -> Iterator[None]:
    """Turns errors of tracing into errors with a place in the kernel."""
    try:
        yield
    except errors.TileLangError as error:
        trace, _ = _innermost(error.__traceback__)
        if trace is not None:
            exact = span.of_instruction(trace.tb_frame.f_code, trace.tb_lasti)
            # The expression at fault says more than its statement.
            if exact is not None and (error.span is None or _holds(error.span, exact)):
                error.span = exact
            error.span = error.span or _statement(trace)
        raise
    except Exception as error:
        trace, direct = _innermost(error.__traceback__)
        if trace is None:
            raise
        place = span.of_instruction(trace.tb_frame.f_code, trace.tb_lasti) or _statement(trace)
        notes = _advice(str(error))
        if not direct:
            if _raised_by_us(trace):
                text = str(error).split("\n")[0] if notes else _refusal(error)
                raise errors.SemanticsError(text, span=place, notes=notes) from error
            raise
        text = str(error)
        if isinstance(error, KeyError) and error.args and isinstance(error.args[0], Operand):
            raise errors.UnsupportedSyntaxError(
                f"`{error.args[0]}` is known only when the kernel runs; it is no key of a dict",
                span=place,
                notes=["use T.if_then_else, or a tensor of the values"],
            ) from None
        of_index = isinstance(error, IndexError) and notes
        if isinstance(error, TypeError) or of_index or " values to unpack " in text:
            raise errors.SemanticsError(text, span=place, notes=notes) from None
        if isinstance(error, (NameError, AttributeError)):
            raise errors.UnknownNameError(text, span=place, notes=notes) from None
        raise
