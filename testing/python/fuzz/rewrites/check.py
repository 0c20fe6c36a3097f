"""Compiles a program, calls it under several schedules, and compares with the reference."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fuzz.outcome import Outcome, judged, load
from fuzz.programs.formats import TORCH, Inexact
from fuzz.rewrites import generate, model, source
from fuzz.rewrites.reference import Racy, Run, expected, initial_values, shape_of

import tilelang
from tilelang import emulator
from tilelang.target import resolve, with_sm_count

SCHEDULES: tuple[str | int, ...] = ("late", "eager", 1)
INSTRUCTION_LIMIT = 200_000_000


def _arguments(program: model.Program, call: model.Call) -> dict[str, torch.Tensor]:
    dtypes = {tensor.name: TORCH[tensor.dtype] for tensor in program.tensors}
    memories = {
        name: values.to(dtypes[name]) for name, values in initial_values(program, call).items()
    }
    result = {}
    for tensor in program.tensors:
        owner, first = call.places.get(tensor.name, (tensor.name, 0))
        shape = shape_of(tensor, call)
        result[tensor.name] = memories[owner][first : first + math.prod(shape)].view(shape)
    return result


def _difference(name: str, got: torch.Tensor, want: torch.Tensor) -> str:
    wrong = got.double() != want
    if not wrong.any():
        return ""
    first = tuple(int(n) for n in wrong.nonzero()[0])
    return (
        f"{int(wrong.sum())} of {wrong.numel()} elements of {name} are wrong; first at {first}: "
        f"{got[first].item()}, should be {want[first].item()}"
    )


def _call(
    kernel: Any, program: model.Program, call: model.Call, run: Run, schedule: str | int
) -> Outcome:
    given = _arguments(program, call)
    with emulator.options(
        schedule=schedule, instruction_limit=INSTRUCTION_LIMIT, threads=1, progress=False
    ):
        kernel(*given.values())
    for tensor in program.tensors:
        want = run.views[tensor.name].values()
        if text := _difference(tensor.name, given[tensor.name], want):
            return Outcome("wrong", "wrong numbers", f"schedule {schedule}, {call}: {text}")
    return Outcome("right")


def target_of(program: model.Program) -> Any:
    """The target that a program is compiled for."""
    target = resolve(program.target)
    return with_sm_count(target, program.sm_count) if program.sm_count else target


def run_file(
    path: Path, program: model.Program, runs: Sequence[Run], schedules: Sequence[str | int]
) -> Outcome:
    """Compiles and runs the kernel that a file defines; ``runs``: what each call must leave."""

    def outcome() -> Outcome:
        kernel = tilelang.compile(
            load(path), target=target_of(program), pass_configs=dict(program.options)
        )
        for call, run in zip(program.calls, runs, strict=True):
            for schedule in schedules:
                result = _call(kernel, program, call, run, schedule)
                if result.kind != "right":
                    return result
        return Outcome("right")

    return judged(path, outcome)


def run(
    program: model.Program, schedules: Sequence[str | int] = SCHEDULES, name: str = "program"
) -> Outcome:
    """What becomes of a program; every compilation is fresh."""
    try:
        runs = [expected(program, call) for call in program.calls]
    except (Racy, Inexact) as error:
        return Outcome("invalid", type(error).__name__)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.py"
        path.write_text(source.module(program))
        tilelang.disable_cache()
        try:
            return run_file(path, program, runs, schedules)
        finally:
            tilelang.enable_cache()


def of_seed(seed: int) -> Outcome:
    """What becomes of the program of a seed."""
    return run(generate.generate(seed), name=f"seed_{seed}")
