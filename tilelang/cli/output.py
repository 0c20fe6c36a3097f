"""What commands print, and how they end."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import click

from ..errors import InternalError, TileLangError

#: Of every document (schema.json); one that lacks or renames a field has another number.
SCHEMA_VERSION = 1
#: Exit statuses: all is right; the kernel is not; it could not be tried; our own
#: defect; it ran, but was compared with nothing.
OK, WRONG, REFUSED, INTERNAL, RAN = 0, 1, 2, 3, 4

#: Where documents go; what programs print beside them is no part of them.
_documents: contextvars.ContextVar[Any] = contextvars.ContextVar("documents", default=None)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def document(command: str, **fields: Any) -> dict[str, Any]:
    """Returns a document of a command, with its schema's name and number."""
    return {"schema": f"tilelang.{command}", "version": SCHEMA_VERSION, **fields}


_tell: Callable[[], Any] | None = None


def telling(tell: Callable[[], Any]) -> None:
    """Calls ``tell`` when a command has printed its result."""
    global _tell
    _tell = tell


def emit(content: dict[str, Any], text: str, as_json: bool) -> None:
    """Prints a document, or the text that stands for it."""
    printed = json.dumps(content, indent=1) if as_json else text.rstrip("\n")
    click.echo(printed, file=_documents.get() if as_json else None)
    _told()


def _told() -> None:
    sys.stdout.flush()
    if _tell is not None:
        _tell()


def refuse(message: str, as_json: bool, status: int = REFUSED) -> NoReturn:
    """Ends the command that runs with an error."""
    if as_json:
        emit(document(_running(), ok=False, error=message), "", True)
    else:
        click.echo(f"{click.style('error', fg='red', bold=True)}: {message}", err=True)
        _told()
    sys.exit(status)


def _running() -> str:
    """Returns the command that runs, as documents name it."""
    context, names = click.get_current_context(), []
    while context.parent is not None:
        names.append(context.info_name or "")
        context = context.parent
    return ".".join(reversed(names))


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Programs print to the standard error; the standard output is the document's."""
    token = _documents.set(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _documents.reset(token)


def guarded(function: Callable[..., None]) -> Callable[..., None]:
    """Errors of the user end the command with a message, ours with a traceback as well."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            with _apart() if as_json else contextlib.nullcontext():
                function(*args, **kwargs)
        except InternalError as error:
            refuse(f"a defect of tilelang: {error}", as_json, INTERNAL)
        except (TileLangError, OSError) as error:
            refuse(str(error), as_json)

    return call


def good(text: str) -> str:
    """Text in green, on a terminal."""
    return click.style(text, fg="green", bold=True)


def bad(text: str) -> str:
    """Text in red, on a terminal."""
    return click.style(text, fg="red", bold=True)


def faint(text: str) -> str:
    """Text that matters less, on a terminal."""
    return click.style(text, dim=True)
