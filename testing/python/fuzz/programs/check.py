"""Compiles a program, runs it under several schedules, and compares with the reference."""

from __future__ import annotations

import importlib.util
import re
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fuzz.programs import model, source
from fuzz.programs.formats import TORCH, Inexact, is_float
from fuzz.programs.interpret import Rejected, expected, input_values

import tilelang
from tilelang import emulator, errors
from tilelang.runtime.code import assembling

SCHEDULES: tuple[str | int, ...] = ("late", "eager", 1)
INSTRUCTION_LIMIT = 50_000_000


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


def load(path: Path) -> Any:
    """The function ``kernel`` that a file defines."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def _poison(buffer: model.Buffer) -> torch.Tensor:
    value = torch.nan if is_float(buffer.dtype) else 77
    return torch.full(buffer.shape, value).to(TORCH[buffer.dtype])


def arguments(program: model.Program) -> dict[str, torch.Tensor | int]:
    """Inputs with their data, outputs poisoned, scalars; in the order of the parameters."""
    result: dict[str, torch.Tensor | int] = {}
    for buffer in model.buffers(program.body):
        bounds = program.ranges.get(buffer.name)
        if buffer.is_global and bounds is not None:
            values = input_values(buffer, bounds, program.seed)
            result[buffer.name] = values.to(TORCH[buffer.dtype])
        elif buffer.is_global:
            result[buffer.name] = _poison(buffer)
        if program.in_pairs and buffer.scope == "output":
            result[buffer.name] = torch.stack([result[buffer.name]] * 2)
    return {**result, **program.scalars}


def _difference(buffer: model.Buffer, got: torch.Tensor, want: torch.Tensor) -> str:
    """Where a tensor is wrong, or ""; untouched elements must still hold the poison."""
    untouched = want.isnan()
    poison = _poison(buffer).double()
    target = torch.where(untouched, poison, want)
    wrong = (got.double() != target) & ~(got.double().isnan() & target.isnan())
    if not wrong.any():
        return ""
    first = tuple(int(n) for n in wrong.nonzero()[0])
    return (
        f"{int(wrong.sum())} of {wrong.numel()} elements of {buffer.name} are wrong; first at "
        f"{first}: {got[first].item()}, should be {target[first].item()}"
    )


def _launch(kernel: Any, program: model.Program, want: dict, schedule: str | int) -> Outcome:
    given = arguments(program)
    lint = ["ld-before-wait"] if program.target == "sm_100a" else []
    with emulator.options(
        schedule=schedule, lint=lint, instruction_limit=INSTRUCTION_LIMIT, threads=1, progress=False
    ):
        kernel(*given.values())
    for buffer, values in want.items():
        got = given[buffer.name]
        for part in got if program.in_pairs and buffer.scope == "output" else [got]:
            if text := _difference(buffer, part, values):
                return Outcome("wrong", "wrong numbers", f"schedule {schedule}: {text}")
    return Outcome("right")


def _refusal(error: errors.UserError, path: Path) -> Outcome:
    text = str(error)
    if isinstance(error, errors.EmulatorError):
        return Outcome("report", f"{getattr(error, 'kind', '')}: {_cause(error.message)}", text)
    if isinstance(error, errors.SynchronizationError):
        return Outcome("alarm", _cause(error.message), text)
    named = error.span is not None and Path(error.span.file).name == path.name
    kind = "refused" if named else "nowhere"
    return Outcome(kind, f"{type(error).__name__}: {_cause(error.message)}", text)


def run_file(
    path: Path, program: model.Program, want: dict, schedules: Sequence[str | int]
) -> Outcome:
    """Compiles and runs the kernel that a file defines."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with assembling():  # ptxas takes it, too
                kernel = tilelang.compile(
                    load(path), target=program.target, pass_configs=program.pass_configs or None
                )
            for schedule in schedules:
                outcome = _launch(kernel, program, want, schedule)
                if outcome.kind != "right":
                    return outcome
    except errors.UserError as error:
        return _refusal(error, path)
    except errors.InternalError as error:
        return Outcome("internal", _cause(error.message), str(error))
    except Warning as warning:
        return Outcome("warning", _cause(str(warning)), str(warning))
    except Exception as error:
        return Outcome("exception", f"{type(error).__name__}: {_cause(str(error))}",
                       traceback.format_exc())  # fmt: skip
    return Outcome("right")


def run(
    program: model.Program, schedules: Sequence[str | int] = SCHEDULES, name: str = "program"
) -> Outcome:
    """What becomes of a program; every compilation is fresh."""
    try:
        want = expected(program)
    except (Rejected, Inexact) as error:
        return Outcome("invalid", str(error))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.py"
        path.write_text(source.module(program))
        tilelang.disable_cache()
        try:
            return run_file(path, program, want, schedules)
        finally:
            tilelang.enable_cache()
