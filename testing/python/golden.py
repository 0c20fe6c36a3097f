"""Golden texts: what the compiler prints, compared with a file that a person has read.

A test takes the ``golden`` fixture and calls ``golden("name", text)``; the expected text lies in
``golden/name.txt`` beside the test. ``pytest --update-golden`` writes the files anew; the
difference is then reviewed like any other change. Keep the texts small enough to read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

Golden = Callable[[str, str], None]


def normalized(text: str) -> str:
    """Returns ``text`` without trailing blanks and with one newline at its end."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"


def compare(expected_file: Path, text: str, update: bool) -> None:
    """Fails with a unified diff when ``text`` is not what ``expected_file`` holds."""
    actual = normalized(text)
    if update:
        expected_file.parent.mkdir(exist_ok=True)
        expected_file.write_text(actual)
        return
    if not expected_file.exists():
        pytest.fail(f"{expected_file} is missing; write it with pytest --update-golden", False)
    expected = expected_file.read_text()
    if actual != expected:
        diff = difflib.unified_diff(
            expected.splitlines(), actual.splitlines(), str(expected_file), "actual", lineterm=""
        )
        pytest.fail("\n".join([*diff, "accept it with pytest --update-golden"]), False)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """A function ``golden(name, text)`` that compares ``text`` with ``golden/<name>.txt``."""
    folder = request.path.parent / "golden"
    update = request.config.getoption("--update-golden")
    return lambda name, text: compare(folder / f"{name}.txt", text, update)


_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPCODE = re.compile(r"(?:@!?%?\w+\s+)?([a-z][\w.:]*)(?=\s|$)")


def ptx_opcodes(ptx: str, pattern: str = "") -> list[str]:
    """Returns the opcodes of PTX text in order, with modifiers: ``tcgen05.wait::st.sync.aligned``.

    Only those in which the regular expression ``pattern`` is found; directives and labels are not
    opcodes.
    """
    opcodes = []
    for statement in re.split(r"[;{}\n]", _NOT_CODE.sub("", ptx)):
        statement = re.sub(r"^\s*[$\w]+:(?!:)", "", statement).strip()
        found = _OPCODE.match(statement)
        if found and re.search(pattern, found.group(1)):
            opcodes.append(found.group(1))
    return opcodes
