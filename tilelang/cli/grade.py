"""``tilelang grade``: judges a solution of a benchmark's problem on the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..checks import progress
from ..profiler import compare
from .check import STATUS, overall, target_text
from .findings import letters_option
from .options import chosen_target, schedules, seeds_option, target_option
from .output import document, emit, guarded, json_option
from .problems import Problem, Workload, placed, read
from .programs import Program, default_target, emulated, poisoned
from .supervise import supervised
from .verdict import examine

if TYPE_CHECKING:
    from ..profiler.judge import Comparison


@click.command()
@click.argument("problem")
@click.argument("solution")
@click.option("--workloads", metavar="FILE.jsonl",
              help="Workloads of the problem (FlashInfer-Bench).")  # fmt: skip
@target_option()
@seeds_option
@click.option("--allow-torch", is_flag=True, help="Let operations of torch compute, too.")
@letters_option
@json_option
@supervised
@guarded
def grade(
    problem: str, solution: str, workloads: str | None, target: str | None, seeds: int,
    allow_torch: bool, letters: str, as_json: bool,
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
    read_problem = read(Path(problem), Path(solution), Path(workloads) if workloads else None)
    names = schedules(seeds)
    with progress.shown():
        progress.expect(len(read_problem.workloads) * len(names))
        found = [
            _graded(read_problem, each, chosen, names, allow_torch, letters)
            for each in read_problem.workloads
        ]
    verdict = overall(found)
    content = document(
        "grade", ok=verdict == "right", verdict=verdict, problem=problem, solution=solution,
        kind=read_problem.kind, target=chosen, workloads=found,
    )  # fmt: skip
    emit(content, "\n\n".join(_text(each, letters) for each in found), as_json)
    raise SystemExit(STATUS[verdict])


def _text(found: dict[str, Any], letters: str) -> str:
    lines = [f"{found['workload']}: {target_text(found, 'compared with its reference', letters)}"]
    lines += [
        f"  outside of kernels: {each['operation']} at {each['place']} ({each['count']} times)"
        for each in found["outside"]
    ]
    return "\n".join(lines)


def _graded(
    problem: Problem, workload: Workload, target: str, names: list[str | int], allow_torch: bool,
    letters: str,
) -> dict[str, Any]:  # fmt: skip
    """Returns the verdict on one workload; each schedule has inputs of its own."""
    from ..profiler.judge import Comparison
    from .outside import Outside

    count, outside = 0, Outside()

    def run(target: str) -> list[Comparison]:
        nonlocal count
        values = workload.inputs(count)
        count += 1
        given = [_copy(each) for each in values]
        with default_target(target), emulated(problem.text, target), poisoned():
            solution, passed = problem.solution(), [placed(each) for each in values]
            with outside.watching():
                returned = compare.as_list(solution(passed))
            actual = [each.cpu() if hasattr(each, "cpu") else each for each in returned]
        return [Comparison(actual, given, workload.expected, exact_dtype=True)]

    program = Program(run, "compared with its reference", repeats=False)
    found = examine(program, target, names, letters=letters)
    message = ""
    if found["ok"] and not found["kernels"]:
        message = "the solution launched no kernel"
    elif found["ok"] and outside.found and not allow_torch:
        names_of = ", ".join(sorted({name for name, _ in outside.found}))
        message = f"the solution computes with {names_of}, outside of its kernels"
    if message:
        found.update(ok=False, verdict="wrong")
        found["runs"][0].update(ok=False, outcome="wrong", message=message)
    return {
        **found, "workload": workload.name, "shapes": dict(workload.shapes),
        "outside": outside.document(),
    }  # fmt: skip


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value
