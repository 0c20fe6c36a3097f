"""``tilelang emulate``: runs a kernel of a PTX or CUDA file with arguments of the command line."""

from __future__ import annotations

import argparse
import contextlib
import io
from typing import Any

import click
import numpy as np

from ..emulator import EmulatorError
from ..emulator import __main__ as emulator_command
from ..emulator.timing import command_line
from ..errors import UserError
from .findings import finding_of
from .output import OK, WRONG, document, emit, guarded, json_option


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@json_option
@guarded
def emulate(arguments: tuple[str, ...], as_json: bool) -> None:
    """Run one kernel of a PTX or CUDA C++ file on the emulator."""
    if not as_json:
        raise SystemExit(emulator_command.main(list(arguments)))
    options = emulator_command.parser().parse_args(list(arguments))
    if options.list or command_line.wanted(options):
        raise UserError("--json excludes --list and the timing options: use --report json")
    ran = _ran(options)
    emit(document("emulate", subject=options.ptx, **ran), "", True)
    raise SystemExit(OK if ran["ok"] else WRONG)


def _ran(options: argparse.Namespace) -> dict[str, Any]:
    """Launches the kernel, and returns the document with what the emulator found."""
    module = emulator_command.load(options, options.ptx)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # it is in the document
            report, args = emulator_command.launch(options, module)
    except EmulatorError as error:
        return {
            "ok": False, "message": error.reason,
            "findings": [finding_of(each) for each in (*error.findings, error, *error.letters)],
            "warnings": [], "instructions": 0, "seconds": 0.0, "output": "", "arguments": [],
        }  # fmt: skip
    return {
        "ok": not report.findings, "message": "",
        "findings": [finding_of(each) for each in (*report.findings, *report.letters)],
        "warnings": [f"PTX line {each['ptx_line']}: {each['message']}" for each in report.warnings],
        "instructions": report.instructions, "seconds": report.seconds, "output": report.output,
        "arguments": [
            _array(index, each) for index, each in enumerate(args) if isinstance(each, np.ndarray)
        ],
    }  # fmt: skip


def _array(index: int, values: np.ndarray) -> dict[str, Any]:
    """Returns the document of an array after the launch: its shape and a summary of its values."""
    numbers = values[np.isfinite(values)].astype(float)
    return {
        "index": index, "dtype": str(values.dtype), "shape": list(values.shape),
        "finite": int(numbers.size), "mean": float(numbers.mean()) if numbers.size else None,
        "min": float(numbers.min()) if numbers.size else None,
        "max": float(numbers.max()) if numbers.size else None,
    }  # fmt: skip
