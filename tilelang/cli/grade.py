"""``tilelang grade``: a solution of a benchmark's problem, on the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..profiler import compare
from .check import target_text
from .options import chosen_target, schedules
from .output import OK, WRONG, document, emit, guarded, json_option
from .problems import Problem, Workload, placed, read
from .programs import default_target, emulated, poisoned, tolerance
from .verdict import examine


@click.command()
@click.argument("problem")
@click.argument("solution")
@click.option("--workloads", metavar="FILE.jsonl", help="Of a problem of FlashInfer-Bench.")
@click.option("--target", help="sm_80, sm_90a or sm_100a.")
@click.option("--seeds", default=1, show_default=True, help="Random schedules to try.")
@json_option
@guarded
def grade(
    problem: str, solution: str, workloads: str | None, target: str | None, seeds: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Tells whether SOLUTION is right for every workload of PROBLEM, and what its kernels take.

    PROBLEM is a Python file as of KernelBench (Model, get_inputs, get_init_inputs; the solution has
    ModelNew) or a definition as of FlashInfer-Bench (.json, with --workloads). Solutions in Triton
    and those that say "cuda" run on the emulator, too. A solution that launches no kernel is wrong.
    The exit status is that of check.
    """
    chosen = chosen_target(target)
    read_problem = read(Path(problem), Path(solution), Path(workloads) if workloads else None)
    names = schedules(seeds)
    found = [_graded(read_problem, each, chosen, names) for each in read_problem.workloads]
    ok = all(each["ok"] for each in found)
    content = document(
        "grade", ok=ok, problem=problem, solution=solution, kind=read_problem.kind, target=chosen,
        workloads=found,
    )  # fmt: skip
    texts = [f"{each['workload']}: {target_text(each, 'its reference')}" for each in found]
    emit(content, "\n\n".join(texts), as_json)
    raise SystemExit(OK if ok else WRONG)


def _graded(
    problem: Problem, workload: Workload, target: str, names: list[str | int]
) -> dict[str, Any]:
    """The verdict on one workload; each schedule has inputs of its own."""
    count = 0

    def program(target: str) -> None:
        nonlocal count
        values = workload.inputs(count)
        count += 1
        wanted = compare.as_list(workload.expected([_copy(each) for each in values]))
        with default_target(target), emulated(problem.text, target), poisoned():
            returned = compare.as_list(problem.solution()([placed(each) for each in values]))
            actual = [each.cpu() if hasattr(each, "cpu") else each for each in returned]
        bound = max((tolerance(each.dtype) for each in wanted), default=0.0)
        compare.assert_close(actual, wanted, rtol=bound, atol=bound)

    found = examine(program, target, names)
    if found["ok"] and not found["kernels"]:
        found["ok"] = False
        found["runs"][0].update(ok=False, message="the solution launched no kernel")
    return {**found, "workload": workload.name, "shapes": dict(workload.shapes)}


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value
