"""``tilelang check``: whether kernels are right, and how long they take."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from ..algebra.verdict import error_bound
from ..checks import progress
from ..emulator import options as emulator_options
from ..emulator.levels import LETTER, times
from ..errors import UserError
from . import files_read
from .findings import letters_option
from .many import STATUS, CheckCommand, many_options
from .options import (
    Shapes,
    algebra_option,
    chosen_target,
    request_of,
    request_options,
    schedules,
    seeds_option,
    target_option,
)  # fmt: skip
from .output import WRONG, bad, document, emit, faint, good, guarded, json_option
from .programs import Program, Request, has_torch, program_of
from .supervise import supervised
from .trials import KINDS
from .verdict import examine

#: Most further places of one finding that the text names.
_PLACES = 3
_TRIALS = (*KINDS, "ragged")


class Trials(click.ParamType):
    """Names of trials, such as ``nan,ragged``; ``all`` or ``none``."""

    name = "NAME,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        if value in ("all", "none"):
            return _TRIALS if value == "all" else ()
        names = tuple(part.strip() for part in value.split(","))
        unknown = [name for name in names if name not in _TRIALS]
        if unknown:
            self.fail(f"{unknown[0]!r}: expected all, none, or some of {', '.join(_TRIALS)}")
        return names


@click.command(cls=CheckCommand)
@request_options
@target_option("targets", multiple=True)
@click.option("--shapes", "cases", type=Shapes(), multiple=True,
              help="Sizes and parameters of the kernel NAME. Repeat it for several "
                   "calls.")  # fmt: skip
@seeds_option
@click.option("--inputs", "kinds", type=Trials(), default="all", show_default=True,
              help="Further inputs to try after random ones: all, none, or some of "
                   f"{', '.join(_TRIALS)}.")  # fmt: skip
@algebra_option
@letters_option
@many_options
@click.option("--threads", default=0, metavar="NUMBER",
              help="Threads of the emulator. Default: one for each core.")  # fmt: skip
@json_option
@supervised
@guarded
def check(
    subject: str, targets: tuple[str, ...], cases: tuple[dict[str, int], ...], seeds: int,
    kinds: tuple[str, ...], algebra: bool, letters: str, threads: int, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Find wrong results, races and missing waits in FILE, and predict how long its kernels take.

    FILE is a Python script, CUDA C++ (.cu) or PTX (.ptx). A script runs as it stands, once for each
    schedule of its asynchronous operations. FILE::NAME selects one kernel of a script; it is called
    with random inputs, then with inputs that break kernels (NaN, infinities, ragged sizes, ...).
    Memory that no thread has written holds NaN.

    Several files, or @LIST (a file with the words of one check in each line), are checked at the
    same time, each in a process of its own.

    Findings have two levels. One that breaks makes the program wrong: a GPU can compute wrong
    numbers, hang or fault. A letter is forbidden by the PTX ISA, but every known GPU keeps the
    order; letters are counted in one line.

    With --algebra each float carries an element of a finite field, for which sums, products and
    casts are exact: a kernel that computes the formula of its reference in any order is equal to
    it, and every other one differs.

    The exit status is 0 if all results are right, 1 if something is wrong, 2 if the program could
    not run or does something that the emulator does not model, and 4 if it ran without a fault but
    there is nothing to compare the results with.
    """
    files_read.watch()
    request = request_of(subject, options)
    kinds = () if algebra else kinds
    targets = targets or (chosen_target(None, request.path),)
    cases, orders = cases or ({},), schedules(seeds)
    found, how = [], ""
    with progress.shown(), emulator_options(threads=threads):
        progress.expect(len(cases) * len(targets) * len(orders))
        for shapes in cases:
            program = _program(dataclasses.replace(request, shapes=shapes), algebra)
            how = program.compared
            if algebra and how:
                how += f", over a finite field ({error_bound()})"
            for target in targets:
                one = examine(program, target, orders, kinds, letters, algebra)
                found.append({**one, "shapes": shapes})
    verdict = overall(found)
    if verdict in ("right", "ran") and not any(each["kernels"] for each in found):
        raise UserError(f"{request.path.name} launches no kernel on the emulator: none is judged")
    content = document(
        "check", ok=verdict == "right", verdict=verdict, subject=subject, compared=how,
        seed=request.seed, files=files_read.of_programs(Path.cwd()), targets=found,
    )  # fmt: skip
    emit(content, "\n\n".join(target_text(each, how, letters) for each in found), as_json)
    raise SystemExit(STATUS[verdict])


def _program(request: Request, algebra: bool) -> Program:
    """Returns what runs a program: a script, or a kernel by its name, in a process of its own."""
    if request.path.suffix != ".py" or not has_torch():
        return program_of(request)
    from .outside_judge import outside_program
    from .outside_script import outside_script

    return outside_program(request) if request.name else outside_script(request, algebra)


def overall(found: list[dict[str, Any]]) -> str:
    """Returns the worst verdict of several targets or workloads."""
    verdicts = {each["verdict"] for each in found}
    return next(each for each in STATUS if each is not None and each in verdicts)


def _faults(runs: list[dict[str, Any]]) -> list[str]:
    """Returns a line for each fault, with the schedules that have it."""
    schedules: dict[str, list[str]] = {}
    for run in runs:
        if not run["ok"]:
            schedules.setdefault(run["message"], []).append(str(run["schedule"]))
    return [
        f"  every schedule: {message}"
        if len(having) == len(runs) > 1
        else f"  schedule {', '.join(having)}: {message}"
        for message, having in schedules.items()
    ]


def target_text(found: dict[str, Any], how: str, letters: str = "count") -> str:
    """Returns the text of the verdict of one target, with letters as ``--letters`` has it."""
    parts = [_headline(found, how)]
    parts += _faults(found["runs"])
    for each in found["unwritten"]:
        parts.append(
            f"  {each['kernel']}: {each['count']} of {each['elements']} elements of output "
            f"{each['output']} are never written; the first is at {each['first']}"
        )
    parts += _inputs_text(found["inputs"])
    if not found["kernels"]:
        parts.append("  no kernel was launched on the emulator")
    parts += [f"  {each}" for each in found["algebra"]]
    parts += [_kernel_text(kernel, letters) for kernel in found["kernels"]]
    return "\n".join(parts)


def _inputs_text(inputs: list[dict[str, Any]]) -> list[str]:
    lines = [f"  input {each['text']}: {each['message']}" for each in inputs if each["ok"] is False]
    tried = [each["text"] for each in inputs if each["ok"] is not None]
    if tried:
        lines.append(f"  inputs tried: random, {', '.join(tried)}")
    lines += [
        faint(f"  not tried: {each['text']} ({each['message']})")
        for each in inputs
        if each["ok"] is None
    ]
    return lines


def _headline(found: dict[str, Any], how: str) -> str:
    names = ", ".join(str(run["schedule"]) for run in found["runs"])
    verdict = found["verdict"]
    mark = bad(verdict.upper()) if STATUS[verdict] == WRONG else verdict
    if verdict == "right":
        mark = good(verdict)
    shapes = "".join(f", {name}={value}" for name, value in found["shapes"].items())
    where = f"on {found['target']}{shapes}, schedules {names}"
    return f"{mark} {where}: {how or 'results not compared'}"


def _kernel_text(kernel: dict[str, Any], letters: str) -> str:
    lines = [f"\n{click.style(kernel['name'], bold=True)}  grid {_extents(kernel['grid'])}, "
             f"block {_extents(kernel['block'])}"]  # fmt: skip
    folded = [each for each in kernel["findings"] if letters == "count" and each["level"] == LETTER]
    lines += [_finding_text(each) for each in kernel["findings"] if each not in folded]
    if folded:
        kinds = ", ".join(f"{each['kind']} ({times(each['count'])})" for each in folded)
        lines.append(
            faint(f"  {len(folded)} of level letter, right on known GPUs: {kinds}; --letters list")
        )
    lines += [f"  warning: {each}" for each in kernel["warnings"]]
    if kernel["time"]:
        lines += _time_lines(kernel["time"])
    lines += [faint(f"  remark: {each}") for each in kernel["remarks"]]
    return "\n".join(lines)


def _finding_text(found: dict[str, Any]) -> str:
    places = " and ".join(place for place in (found["place"], found["earlier"]) if place)
    name = f"letter: {found['kind']}" if found["level"] == LETTER else bad(found["kind"])
    others = ""
    if found["others"]:
        shown = ", ".join(found["others"][:_PLACES])
        more = ", ..." if len(found["others"]) > _PLACES else ""
        others = f", also at {shown}{more}"
    return f"  {name} at {places} ({times(found['count'])}{others}): {found['text']}"


def _extents(values: list[int]) -> str:
    return " x ".join(map(str, values))


def _time_lines(time: dict[str, Any]) -> list[str]:
    light, occupancy = time["speed_of_light"], time["occupancy"]
    lines = [
        f"  predicted  {time['us']:.4g} us on the {time['gpu']}, {100 * light['share']:.0f} % of "
        f"the speed of light ({light['engine']})",
        f"  error      {time['error']}",
        f"  occupancy  {occupancy['ctas_per_sm']} CTAs, {occupancy['warps_per_sm']} warps an SM "
        f"(limit: {occupancy['limit']}), {occupancy['registers']} registers",
    ]
    for each in time["lines"]:
        lines.append(f"  {100 * each['share']:5.1f} %    {each['place']}: {each['reasons']}")
    lines += [f"  advice     {each['text']}" for each in time["advice"]]
    return lines
