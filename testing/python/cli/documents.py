"""Running the command line in this process, and reading its documents."""

from __future__ import annotations

import json
import shlex
from typing import Any

import jsonschema
from click.testing import CliRunner, Result

from tilelang.cli import main, schema

_VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema.text()))


def command(line: str) -> Result:
    """Runs ``tilelang LINE``; what is no exit status raises."""
    result = CliRunner().invoke(main, shlex.split(line))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def validate(content: dict[str, Any]) -> dict[str, Any]:
    """Returns a document that fits the schema."""
    _VALIDATOR.validate(content)
    return content


def document(line: str, status: int = 0) -> dict[str, Any]:
    """The valid document that ``tilelang LINE --json`` prints, with this exit status."""
    result = command(f"{line} --json")
    assert result.exit_code == status, result.output
    return validate(json.loads(result.stdout))
