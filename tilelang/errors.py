"""The errors of TileLang: one family, with the user's mistakes apart from our own.

* :class:`UserError`: the program, an argument or a setting is wrong, or asks for something that
  does not exist. The message says what is wrong and what to do; the traceback stops at the
  user's call.
* :class:`InternalError`: a defect of TileLang. It keeps its full traceback and asks for a report.

Every error may carry a :class:`Span`, the place in the user's Python file; it then prints that
line with a caret. C++ code raises the same classes: an error of kind ``tilelang.<Class>`` whose
message may start with a line ``@span <file>:<line>:<col>:<end_line>:<end_col>`` and may contain
lines ``@note <text>`` or ``@note[<file>:<line>:<col>:<end_line>:<end_col>] <text>``.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SPAN = r"(?P<file>.*?):(?P<line>\d+):(?P<col>\d+):(?P<end_line>\d+):(?P<end_col>\d+)"
_SPAN_LINE = re.compile(rf"@span {_SPAN}")
_NOTE_LINE = re.compile(rf"@note(?:\[{_SPAN}\])? (?P<text>.*)")


class Span(NamedTuple):
    """A range of source text: lines and columns count from 1, the end column is exclusive.

    Column 0 means that only the line is known.
    """

    file: str
    line: int
    col: int = 0
    end_line: int = 0
    end_col: int = 0

    def __str__(self) -> str:
        column = f":{self.col}" if self.col else ""
        return f"{self.file}:{self.line}{column}"

    def excerpt(self) -> str:
        """Returns the source line with carets under the span; empty if the file is unreadable."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return ""
        number = f"{self.line:>5} | "
        lines = [number + text.expandtabs(4)]
        if self.col:
            lines.append(" " * (len(number) - 2) + "| " + self._carets(text))
        return "\n".join(lines)

    def _carets(self, text: str) -> str:
        one_line = self.end_line in (0, self.line)
        end = self.end_col - 1 if one_line and self.end_col else len(text)
        start = len(text[: self.col - 1].expandtabs(4))
        width = len(text[:end].expandtabs(4)) - start
        return " " * start + "^" * max(1, width)


class Note(NamedTuple):
    """An additional remark on an error: what to do, or the other place that takes part in it."""

    text: str
    span: Span | None = None

    def __str__(self) -> str:
        place = f"{self.span}: " if self.span else ""
        excerpt = self.span.excerpt() if self.span else ""
        return f"note: {place}{self.text}" + (f"\n{excerpt}" if excerpt else "")


class TileLangError(Exception):
    """Base of every error raised by TileLang.

    Attributes:
        message: what is wrong, without place and notes.
        span: the place in the user's source, or None.
        notes: what to do about it, and other places that take part.
    """

    def __init__(
        self, message: str, *, span: Span | None = None, notes: Iterable[Note | str] = ()
    ) -> None:
        text, encoded_span, encoded_notes = _decode(message)
        self.message = text
        self.span = span or encoded_span
        self.notes = [*encoded_notes, *(n if isinstance(n, Note) else Note(n) for n in notes)]
        super().__init__(text)

    def __str__(self) -> str:
        place = f"{self.span}: " if self.span else ""
        excerpt = self.span.excerpt() if self.span else ""
        parts = [place + self.message, excerpt, *map(str, self.notes)]
        return "\n".join(part for part in parts if part)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.span, self.notes)


class UserError(TileLangError):
    """Something that the user can put right."""


class CompileError(UserError):
    """The kernel cannot be compiled as written."""


class UnsupportedSyntaxError(CompileError):
    """A Python construct that has no meaning inside a kernel."""


class UnknownNameError(CompileError, AttributeError):
    """A name that the language does not have."""


class DTypeError(CompileError, TypeError, ValueError):
    """A data type that does not fit its use."""


class ShapeError(CompileError, ValueError, AssertionError):
    """A rank or an extent that does not fit its use; upstream TileLang asserts shapes."""


class BoundsError(CompileError, IndexError):
    """An index or a slice outside its buffer."""


class ScopeError(CompileError, ValueError):
    """A buffer in the wrong memory, or an operation at a place where it is not allowed."""


class LayoutError(CompileError, ValueError):
    """Two uses of a buffer demand layouts that cannot both hold."""


class ResourceError(CompileError):
    """More shared memory, tensor memory, registers or threads than the target has."""


class SynchronizationError(CompileError):
    """Barriers or asynchronous operations that cannot be ordered as written."""


class SemanticsError(CompileError, ValueError):
    """A kernel that breaks a rule of the language which no other class is about."""


class UnsupportedError(CompileError, NotImplementedError):
    """A meaningful program that this version, or this target, cannot compile."""


class TargetError(UserError, ValueError):
    """An unknown target, or one that does not fit the device."""


class ConfigError(UserError, ValueError):
    """An unknown or ill-typed option of the compiler, the cache or the profiler."""


class ArgumentError(UserError, ValueError):
    """An argument of a kernel call that does not fit its parameter; raised before the launch."""


class AssumptionError(UserError, RuntimeError):
    """A fact that a kernel states by ``T.assume``, and that a call does not fulfil."""


class DriverError(UserError, RuntimeError):
    """The CUDA driver is missing, or refused a module or a launch."""


class EmulatorError(UserError, RuntimeError):
    """A fault of a kernel found by the emulator, or PTX that it cannot execute."""


class InternalError(TileLangError):
    """A defect of TileLang itself."""

    _REQUEST = Note(
        "this is a defect of TileLang, not of your program; please report it with the kernel "
        "(TILELANG_DUMP_IR=<folder> writes the program after every pass)"
    )

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self._REQUEST}"


def _all_classes(base: type[TileLangError]) -> list[type[TileLangError]]:
    return [base, *(c for child in base.__subclasses__() for c in _all_classes(child))]


#: Every class of the family by the kind under which C++ raises it.
KINDS = {f"tilelang.{cls.__name__}": cls for cls in _all_classes(TileLangError)}


def _rebuild(
    cls: type[TileLangError], message: str, span: Span | None, notes: list[Note]
) -> TileLangError:
    return cls(message, span=span, notes=notes)


def _matched_span(match: re.Match[str]) -> Span | None:
    if match["file"] is None:
        return None
    numbers = (int(match[key]) for key in ("line", "col", "end_line", "end_col"))
    return Span(match["file"], *numbers)


def _decode(message: str) -> tuple[str, Span | None, list[Note]]:
    """Splits a message as C++ encodes it into text, span and notes."""
    span, notes, text = None, [], []
    for line in message.split("\n"):
        if match := _SPAN_LINE.fullmatch(line):
            span = _matched_span(match)
        elif match := _NOTE_LINE.fullmatch(line):
            notes.append(Note(match["text"], _matched_span(match)))
        else:
            text.append(line)
    return "\n".join(text), span, notes


def _keep_tracebacks() -> bool:
    return os.environ.get("TILELANG_FULL_TRACEBACK", "0") not in ("", "0")


def arguments_of(function: Callable[..., Any]) -> list[str]:
    """Returns the note that lists what a function can be called with; nothing if that is open."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    names = [
        f"{name}=" if parameter.kind is parameter.KEYWORD_ONLY else str(parameter).split(":")[0]
        for name, parameter in signature.parameters.items()
        if not name.startswith("_")
        and name != "self"
        and parameter.kind is not parameter.VAR_KEYWORD
    ]
    return [f"its arguments are {', '.join(names)}"] if names else []


def _is_of_the_call(error: Exception) -> bool:
    """Returns whether the caller's frame raised it: none of the function was entered."""
    trace = error.__traceback__
    return trace is not None and trace.tb_next is None


def boundary(function: _Function) -> _Function:
    """Marks a public entry point: user errors leave it without a trace through our internals.

    An error that C++ raised outside the family becomes an :class:`InternalError`.
    ``TILELANG_FULL_TRACEBACK=1`` keeps every frame.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            if _keep_tracebacks():
                raise
            raise error.with_traceback(None) from None
        except TileLangError:
            raise
        except Exception as error:
            raised = getattr(error, "__tvm_ffi_error__", None)
            if raised is None:
                if isinstance(error, TypeError) and _is_of_the_call(error):
                    raise ArgumentError(str(error), notes=arguments_of(function)) from None
                raise
            raise InternalError(f"{raised.kind}: {raised.message}") from error

    return call  # type: ignore[return-value]


# Files whose frames stand between the user's call and a warning.
_BETWEEN = os.path.dirname(os.path.abspath(__file__)) + os.sep, contextlib.__file__


def user_level() -> int:
    """Returns the ``stacklevel`` by which ``warnings.warn`` names the line of the user.

    It counts from the caller to the first frame outside of this package.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        level, frame = level + 1, frame.f_back
    return level


def described(value: object) -> str:
    """Describes a value for messages: its type, and the value, or the shape of a tensor."""
    name = type(value).__name__
    if isinstance(shape := getattr(value, "shape", None), tuple):
        return f"{name} of shape {tuple(shape)}"
    return f"{name} `{value}`"


def system_text(error: OSError) -> str:
    """Returns an error of the system as a sentence: the file, and what is wrong with it."""
    if error.filename is None or error.strerror is None:
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"no file or folder {error.filename}"
    return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
