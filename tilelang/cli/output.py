"""Prints the results of commands, and ends commands."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import click

from ..checks.check import SCHEMA_VERSION
from ..errors import InternalError, TileLangError, system_text

#: Exit statuses: the results are right; they are wrong; the program could not run; tilelang has a
#: defect; the program ran, but its results were compared with nothing.
OK, WRONG, REFUSED, INTERNAL, RAN = 0, 1, 2, 3, 4

#: The stream for documents; programs print elsewhere.
_documents: contextvars.ContextVar[Any] = contextvars.ContextVar("documents", default=None)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def document(command: str, **fields: Any) -> dict[str, Any]:
    """Returns a document of a command, with the name and number of its schema."""
    return {"schema": f"tilelang.{command}", "version": SCHEMA_VERSION, **fields}


_tell: Callable[[], Any] | None = None


def telling(tell: Callable[[], Any]) -> None:
    """Calls ``tell`` when a command has printed its result."""
    global _tell
    _tell = tell


def emit(content: dict[str, Any], text: str, as_json: bool) -> None:
    """Prints a document, or the text instead of it."""
    printed = json.dumps(content, indent=1) if as_json else text.rstrip("\n")
    click.echo(printed, file=_documents.get() if as_json else None)
    _told()


def _told() -> None:
    sys.stdout.flush()
    if _tell is not None:
        _tell()


def refuse(message: str, as_json: bool, status: int = REFUSED) -> NoReturn:
    """Ends the running command with an error."""
    if as_json:
        emit(document(_running(), ok=False, error=message), "", True)
    else:
        click.echo(f"{click.style('error', fg='red', bold=True)}: {message}", err=True)
        _told()
    sys.exit(status)


def _running() -> str:
    """Returns the name of the running command in documents."""
    context, names = click.get_current_context(), []
    while context.parent is not None:
        names.append(context.info_name or "")
        context = context.parent
    return ".".join(reversed(names))


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Sends the output of programs to the standard error; documents keep the standard output."""
    token = _documents.set(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _documents.reset(token)


def guarded(function: Callable[..., None]) -> Callable[..., None]:
    """Ends the command with a message for user errors, and with a traceback for a defect."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            with _apart() if as_json else contextlib.nullcontext():
                function(*args, **kwargs)
        except InternalError as error:
            refuse(f"a defect of tilelang: {error}", as_json, INTERNAL)
        except TileLangError as error:
            refuse(str(error), as_json)
        except OSError as error:
            refuse(system_text(error), as_json)

    return call


def good(text: str) -> str:
    """Returns text that is green on a terminal."""
    return click.style(text, fg="green", bold=True)


def bad(text: str) -> str:
    """Returns text that is red on a terminal."""
    return click.style(text, fg="red", bold=True)


def faint(text: str) -> str:
    """Returns text that is faint on a terminal."""
    return click.style(text, dim=True)
