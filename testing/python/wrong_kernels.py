"""Wrong kernels: each is refused with a message that says what is wrong, at the wrong line.

A ``case_`` function defines one wrong kernel; the line at fault ends in ``# WRONG``. Its docstring
names the class of the error and pieces of the printed message, in order, separated by ``...``.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from tilelang import errors

Case = Callable[[], Any]


def cases(namespace: dict[str, Any]) -> Any:
    """The decorator that gives a test the ``case_`` functions of its module, as ``case``."""
    found = {name[5:]: case for name, case in namespace.items() if name.startswith("case_")}
    return pytest.mark.parametrize("case", found.values(), ids=found.keys())


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def check(case: Case) -> None:
    """Fails unless ``case`` raises what its docstring says, at its marked line."""
    kind, pieces = _squeezed(case.__doc__ or "").split(": ", 1)
    with pytest.raises(getattr(errors, kind)) as caught:
        case()
    error = caught.value
    assert type(error).__name__ == kind
    printed = str(error)
    text, position = _squeezed(printed), 0
    for piece in pieces.split(" ... "):
        position = text.find(piece, position)
        assert position >= 0, f"missing: {piece}\n{printed}"
    source, first = inspect.getsourcelines(case)
    wrong = [first + n for n, line in enumerate(source) if "# WRONG" in line]
    if not wrong:
        return
    assert error.span is not None and error.span.file == inspect.getfile(case), printed
    assert [error.span.line] == wrong, printed
    assert "^" in printed and error.span.col > 0, printed
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    internal = [f for f in frames if "/tilelang/" in f and not f.endswith("/errors.py")]
    assert not internal, internal
