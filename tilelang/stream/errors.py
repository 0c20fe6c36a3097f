"""Errors of streams."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import Note, Span, UserError


class StreamError(UserError, RuntimeError):
    """A stream that is used after its end, or one of whose writers failed.

    Attributes:
        cause: what the writer raised, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        cause: BaseException | None = None,
        span: Span | None = None,
        notes: Iterable[Note | str] = (),
    ) -> None:
        super().__init__(message, span=span, notes=notes)
        self.cause = cause


class WouldBlock(UserError, BlockingIOError):
    """Consumers hold all pools, so that an append would have to wait longer than it may.

    Attributes:
        appended: elements of the append that were taken; the caller continues with the next one.
    """

    def __init__(
        self,
        message: str,
        *,
        appended: int = 0,
        span: Span | None = None,
        notes: Iterable[Note | str] = (),
    ) -> None:
        super().__init__(message, span=span, notes=notes)
        self.appended = appended


def missing_library(name: str, extra: str, purpose: str) -> ModuleNotFoundError:
    """Returns the error of an optional library that is not installed."""
    return ModuleNotFoundError(
        f"{purpose} needs {name}, which is not installed: pip install 'tilelang-sm100[{extra}]'",
        name=name,
    )
