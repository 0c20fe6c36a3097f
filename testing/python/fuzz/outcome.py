"""What becomes of a random program: right, refused, or a find."""

from __future__ import annotations

import importlib.util
import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilelang import errors


@dataclass(frozen=True)
class Outcome:
    """What became of a program.

    Attributes:
        kind: "right", "refused", "invalid" (no single right result; only the shrinker makes those),
            or a find: "wrong", "report" (of the emulator), "alarm" (of the verifier), "warning",
            "internal", "nowhere" (a refusal that names no line of the program), "exception".
        cause: what outcomes of one cause have in common: the message without names and numbers.
        detail: the whole message.
    """

    kind: str
    cause: str = ""
    detail: str = ""

    @property
    def is_find(self) -> bool:
        return self.kind not in ("right", "refused", "invalid")

    def same_cause(self, other: Outcome) -> bool:
        return (self.kind, self.cause) == (other.kind, other.cause)


def _cause(message: str) -> str:
    """A message without what differs from program to program."""
    text = re.sub(r"\S*?\w+\.py(:\d+)*:?", "", message.splitlines()[0] if message else "")
    text = re.sub(r"`[^`]*`", "`..`", text)
    text = re.sub(r"\b[A-Za-z]+_?\d+\w*\b(\[[^\]]*\])?", "_", text)
    return re.sub(r"-?\d+(\.\d+)?", "#", text).strip()[:160]


def _refusal(error: errors.UserError, path: Path) -> Outcome:
    text = str(error)
    if isinstance(error, errors.EmulatorError):
        return Outcome("report", f"{getattr(error, 'kind', '')}: {_cause(error.message)}", text)
    if isinstance(error, errors.SynchronizationError):
        return Outcome("alarm", _cause(error.message), text)
    named = error.span is not None and Path(error.span.file).name == path.name
    kind = "refused" if named else "nowhere"
    return Outcome(kind, f"{type(error).__name__}: {_cause(error.message)}", text)


def load(path: Path) -> Any:
    """The function ``kernel`` that a file defines."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def judged(path: Path, run: Callable[[], Outcome]) -> Outcome:
    """What ``run`` returns; of an exception or a warning, its outcome.

    Args:
        path: of the file that defines the kernel.
        run: compiles and launches it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return run()
    except errors.UserError as error:
        return _refusal(error, path)
    except errors.InternalError as error:
        return Outcome("internal", _cause(error.message), str(error))
    except Warning as warning:
        return Outcome("warning", _cause(str(warning)), str(warning))
    except Exception as error:
        return Outcome("exception", f"{type(error).__name__}: {_cause(str(error))}",
                       traceback.format_exc())  # fmt: skip
