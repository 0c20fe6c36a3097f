"""Compiles a program, runs it under several schedules, and compares with the reference."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fuzz.outcome import Outcome, judged, load
from fuzz.programs import generate, model, source
from fuzz.programs.formats import TORCH, Inexact, is_float
from fuzz.programs.interpret import Rejected, expected, input_values

import tilelang
from tilelang import emulator
from tilelang.runtime.code import assembling

SCHEDULES: tuple[str | int, ...] = ("late", "eager", 1)
INSTRUCTION_LIMIT = 50_000_000


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
        schedule=schedule, lint=lint, letters="fail", instruction_limit=INSTRUCTION_LIMIT,
        threads=1, progress=False,
    ):  # fmt: skip
        kernel(*given.values())
    for buffer, values in want.items():
        got = given[buffer.name]
        for part in got if program.in_pairs and buffer.scope == "output" else [got]:
            if text := _difference(buffer, part, values):
                return Outcome("wrong", "wrong numbers", f"schedule {schedule}: {text}")
    return Outcome("right")


def run_file(
    path: Path, program: model.Program, want: dict, schedules: Sequence[str | int]
) -> Outcome:
    """Compiles and runs the kernel that a file defines."""

    def outcome() -> Outcome:
        with assembling():  # ptxas takes it, too
            kernel = tilelang.compile(
                load(path), target=program.target, pass_configs=program.pass_configs or None
            )
        for schedule in schedules:
            result = _launch(kernel, program, want, schedule)
            if result.kind != "right":
                return result
        return Outcome("right")

    return judged(path, outcome)


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


def of_seed(seed: int, size: int, in_pairs: bool) -> Outcome:
    """What becomes of the program of a seed."""
    return run(generate.generate(seed, size, in_pairs), name=f"seed_{seed}")
