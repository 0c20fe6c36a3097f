"""Every name of the language works, and a test runs it, or is refused by name with its reason."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest
from conformance.surface import Name, modules, names, page, users

import tilelang.language as T
from tilelang import errors
from tilelang._missing import REASONS as MISSING
from tilelang.language.unsupported import REASONS


def _status(name: str) -> str:
    try:
        getattr(T, name)
    except errors.UnsupportedError:
        return "refused"
    return "works"


@pytest.mark.parametrize("name", names(), ids=lambda each: each.name)
def test_name(name: Name) -> None:
    if _status(name.name) == "works":
        assert name.name in users(), "no test runs it"
        return
    with pytest.raises(errors.UnsupportedError, match="is not supported") as refusal:
        getattr(T, name.name)
    assert refusal.value.notes, "no reason is given"


def test_share_of_names_that_work() -> None:
    """Of the names that programs use; what is missing is listed by the reason."""
    used = [each for each in names() if each.programs]
    working = [each for each in used if _status(each.name) == "works"]
    assert len(working) >= LEAST_WORKING * len(used), sorted(
        each.name for each in set(used) - set(working)
    )


LEAST_WORKING = 0.95


def test_the_page_of_names_has_all_of_them() -> None:
    lines = page().splitlines()
    for name in names():
        assert any(line.startswith(f"| `T.{name.name}` |") for line in lines)
    assert not [line for line in lines if line.startswith("| `T.") and line.count(" | ") < 2]


def test_the_page_of_names_is_for_readers() -> None:
    """It shows no markup of Sphinx and no paths of tests, and it links to the reference."""
    text = page()
    assert ":func:" not in text and ":class:" not in text and ".py::" not in text
    assert "| `T.Pipelined` |" in text and "](../reference/loops.md)" in text


def test_every_refused_name_has_one_reason() -> None:
    listed = [name for group in REASONS.values() for name in group]
    assert len(listed) == len(set(listed))
    assert not [name for name in listed if name in T.__all__]


def _lookup(path: str) -> Any:
    parts = path.split(".")
    found: Any = importlib.import_module(parts[0])
    for at, part in enumerate(parts[1:], start=2):
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(".".join(parts[:at]))
    return found


@pytest.mark.parametrize("path", modules())
def test_module(path: str) -> None:
    if "autotune" in path:
        pytest.importorskip("tilelang.autotuner")
    inside = path.removeprefix("tilelang.")
    reasons = [why for name, why in MISSING.items() if f"{inside}.".startswith(f"{name}.")]
    if not reasons:
        assert _lookup(path) is not None
        return
    with pytest.raises(ModuleNotFoundError, match=re.escape(reasons[0])):
        _lookup(path)
