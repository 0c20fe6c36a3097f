"""The schema of the documents: what it refuses, and that every command has one."""

from __future__ import annotations

import json
from pathlib import Path

import click
import jsonschema
import pytest
from cli.documents import command, document, validate

from tilelang.cli import main, schema

#: Commands that print no document: they print the schema or a script, or speak a protocol.
_WITHOUT = {"schema", "completion", "mcp", "stream"}


def _commands(group: click.Group, prefix: str = "") -> set[str]:
    found, context = set(), click.Context(group)
    for name in group.list_commands(context):
        each = group.get_command(context, name)
        nested = isinstance(each, click.Group)
        found |= _commands(each, f"{prefix}{name}.") if nested else {prefix + name}
    return found


def test_every_command_has_a_schema_and_takes_json() -> None:
    content = json.loads(schema.text())
    jsonschema.Draft202012Validator.check_schema(content)
    names = {each.removeprefix("tilelang.") for each in content["properties"]["schema"]["enum"]}
    assert names - {"checks"} == _commands(main) - _WITHOUT  # of check, for many files
    assert json.loads(command("schema").output) == content


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"schema": "tilelang.other"},
        {"subject": None},
        {"targets": [{"target": "sm_90a", "ok": True}]},
        {"ok": "yes"},
    ],
)
def test_what_is_no_document(change: dict) -> None:
    right = {"schema": "tilelang.check", "version": 1, "ok": True, "subject": "k.py",
             "verdict": "right", "compared": "", "targets": []}  # fmt: skip
    validate(right)
    with pytest.raises(jsonschema.ValidationError):
        validate(right | change)


def test_what_could_not_be_tried_is_a_document_of_its_command(tmp_path: Path) -> None:
    for line in ("check", "profile", "bench", "ir", "export", "run"):
        found = document(f"{line} {tmp_path}/nothing.py", 2)
        assert found["schema"] == f"tilelang.{line}" and found["error"]
    assert document(f"emulate {tmp_path}/no.ptx", 2)["schema"] == "tilelang.emulate"
    assert document(f"autotune {tmp_path}/no.py::f --try x=1", 2)["schema"] == "tilelang.autotune"
    assert document(f"grade {tmp_path}/no.py x.py", 2)["schema"] == "tilelang.grade"
    assert document(f"compare {tmp_path}/no.py x.py", 2)["schema"] == "tilelang.compare"
