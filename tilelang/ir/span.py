"""Source places, and the place of the statement being traced in this thread."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

from .. import _ffi, errors

tvm_ffi = _ffi.tvm_ffi
_PACKAGE = str(Path(errors.__file__).parent) + os.sep


@tvm_ffi.register_object("tl.ir.Span")
class Span(tvm_ffi.Object):
    """A range of source text: lines and columns count from 1, the end column is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


make: Callable[[str, int, int, int, int], Span] = _ffi.get("ir.Span")


class _Place(threading.local):
    span: Callable[[], Span] | None = None


_place = _Place()


def current() -> Span | None:
    """Returns the place of the statement being traced, or None outside a kernel."""
    span = _place.span
    return None if span is None else span()


def set_place(span: Callable[[], Span] | None) -> Callable[[], Span] | None:
    """Makes ``span`` tell the current place in this thread; returns what did before."""
    previous, _place.span = _place.span, span
    return previous


def for_error(span: Span | None) -> errors.Span | None:
    """Returns the place in the form that errors carry."""
    if span is None:
        return None
    return errors.Span(span.file, span.line, span.column, span.end_line, span.end_column)


def here() -> errors.Span | None:
    """The place of an error: the statement being traced; outside of kernels the user's line."""
    return _line_of_caller() if _place.span is None else for_error(current())


def _line_of_caller() -> errors.Span | None:
    """The innermost line outside of this package, such as that of an annotation."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        return None
    exact = of_instruction(frame.f_code, frame.f_lasti)
    return exact or errors.Span(frame.f_code.co_filename, frame.f_lineno)


def of_instruction(code: CodeType, offset: int) -> errors.Span | None:
    """The expression that an instruction of a function evaluates; None before Python 3.11."""
    if sys.version_info >= (3, 11):
        line, end_line, column, end_column = list(code.co_positions())[offset // 2]
        if line is not None and column is not None and end_column is not None:
            return errors.Span(code.co_filename, line, column + 1, end_line or line, end_column + 1)
    return None
