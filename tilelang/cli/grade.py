"""``tilelang grade``: judges a solution of a benchmark's problem on the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..algebra.verdict import error_bound
from ..checks import progress
from . import files_read
from .check import STATUS, overall, target_text
from .findings import letters_option
from .grader import Grader
from .options import algebra_option, chosen_target, schedules, seeds_option, target_option
from .output import document, emit, guarded, json_option
from .programs import Program
from .supervise import supervised
from .verdict import examine


@click.command()
@click.argument("problem")
@click.argument("solution")
@click.option("--workloads", metavar="FILE.jsonl",
              help="Workloads of the problem (FlashInfer-Bench).")  # fmt: skip
@target_option()
@seeds_option
@click.option("--allow-torch", is_flag=True, help="Let operations of torch compute, too.")
@algebra_option
@letters_option
@json_option
@supervised
@guarded
def grade(
    problem: str, solution: str, workloads: str | None, target: str | None, seeds: int,
    allow_torch: bool, algebra: bool, letters: str, as_json: bool,
) -> None:  # fmt: skip
    """Judge a solution of a KernelBench or FlashInfer-Bench problem.

    PROBLEM is a Python file of KernelBench (Model, get_inputs, get_init_inputs; SOLUTION defines
    ModelNew) or a definition of FlashInfer-Bench (.json, with --workloads). Solutions in Triton and
    solutions that use the device "cuda" run on the emulator, too.

    A solution that launches no kernel is wrong. So is a solution that computes with torch outside
    of its kernels: torch may only allocate, view, copy and convert. The exit status is as for
    check.
    """
    chosen = chosen_target(target)
    files_read.watch()
    grader = Grader(problem, solution, workloads, chosen, allow_torch)
    names = schedules(seeds)
    with progress.shown():
        progress.expect(len(grader.workloads) * len(names))
        found = [
            _graded(grader, i, chosen, names, letters, algebra)
            for i in range(len(grader.workloads))
        ]
    verdict = overall(found)
    content = document(
        "grade", ok=verdict == "right", verdict=verdict, problem=problem, solution=solution,
        kind=grader.kind, target=chosen, files=files_read.of_programs(Path.cwd()), workloads=found,
    )  # fmt: skip
    emit(content, "\n\n".join(_text(each, letters) for each in found), as_json)
    raise SystemExit(STATUS[verdict])


def _text(found: dict[str, Any], letters: str) -> str:
    lines = [f"{found['workload']}: {target_text(found, found['compared'], letters)}"]
    lines += [
        f"  outside of kernels: {each['operation']} at {each['place']} ({each['count']} times)"
        for each in found["outside"]
    ]
    return "\n".join(lines)


def _graded(
    grader: Grader, number: int, target: str, names: list[str | int], letters: str, algebra: bool
) -> dict[str, Any]:
    """Returns the verdict on one workload; each schedule has inputs of its own."""
    workload = grader.workload(number)
    how = "compared with its reference"
    how += f", over a finite field ({error_bound()})" if algebra else ""
    program = Program(workload.run, how, repeats=False)
    found = examine(program, target, names, letters=letters, algebra=algebra)
    message, ended = "", found["verdict"] in ("right", "wrong")
    if ended and not found["kernels"]:
        message = "the solution launched no kernel"
    elif ended and workload.outside and not grader.allow_torch:
        names_of = ", ".join(sorted({each["operation"] for each in workload.outside}))
        message = f"the solution computes with {names_of}, outside of its kernels"
    if message:
        found.update(ok=False, verdict="wrong")
        found["runs"][0].update(ok=False, outcome="wrong", message=message)
    return {
        **found, "compared": how, "workload": workload.name, "shapes": workload.shapes,
        "outside": workload.outside,
    }  # fmt: skip
