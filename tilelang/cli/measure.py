"""``tilelang bench`` and ``tilelang autotune``: times of kernels and of configurations."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..autotuner import AutotunedFunction, AutotuneResult, Trial
from ..autotuner import autotune as tuned
from ..checks import progress
from ..errors import UserError
from ..jit import EagerFunction, JITFunction, JITKernel
from ..jit.kernel import compiling
from ..target import device_target
from .options import chosen_target, request_of, request_options, shapes_option, target_option
from .output import document, emit, guarded, json_option
from .profile import reports_of
from .programs import Request, default_target, kernel_of, names_of, program_of
from .supervise import supervised


@click.command()
@request_options
@shapes_option
@target_option()
@click.option("--rep", default=100.0, show_default=True, metavar="MILLISECONDS",
              help="How long to measure each kernel on a GPU.")  # fmt: skip
@json_option
@supervised
@guarded
def bench(subject: str, target: str | None, rep: float, as_json: bool, **options: Any) -> None:
    """Measure the kernels in FILE on the GPU, or predict their times if there is none.

    A measured kernel runs with random inputs, and the L2 cache is flushed before each run. FILE
    must then be a Python file, and --shapes must give all dynamic dimensions.
    """
    request = request_of(subject, options)
    chosen = chosen_target(target, request.path)
    on_gpu = request.path.suffix == ".py" and str(device_target()) == chosen
    with progress.shown():
        rows = _measured(request, chosen, rep) if on_gpu else _predicted(request, chosen)
    lines = [f"{row['us']:10.2f} us {row['how']}  {row['kernel']}" for row in rows]
    emit(document("bench", ok=True, subject=subject, target=chosen, kernels=rows),
         "\n".join(lines), as_json)  # fmt: skip


def _predicted(request: Request, target: str) -> list[dict[str, Any]]:
    reports = reports_of(request, target)
    return [
        {"kernel": report.timing.kernel, "us": report.timing.grid_us, "how": "predicted",
         "gpu": report.timing.gpu}
        for report in reports
    ]  # fmt: skip


def _measured(request: Request, target: str, rep: float) -> list[dict[str, Any]]:
    import torch

    kernels: list[JITKernel] = []
    if request.name:
        kernels.append(kernel_of(names_of(request)[request.name], request, target))
    else:
        with compiling(kernels.append):
            program_of(request).run(target)
    rows = []
    for kernel in {kernel.name: kernel for kernel in kernels}.values():
        profiler = kernel.get_profiler().with_symbols(request.shapes)
        milliseconds = profiler.do_bench(rep=rep, return_mode="median")
        rows.append({"kernel": kernel.name, "us": 1e3 * milliseconds, "how": "measured",
                     "gpu": torch.cuda.get_device_name()})  # fmt: skip
    if not rows:
        raise UserError(
            f"{request.path.name} compiles no kernel when it runs",
            notes=[f"name a kernel of the file: {request.path}::NAME --shapes M=128,..."],
        )
    return rows


# Configurations -------------------------------------------------------------------------------


class Values(click.ParamType):
    """A parameter and the values to try for it: ``block_M=64,128``."""

    name = "NAME=VALUE,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, list[Any]]:
        if isinstance(value, tuple):
            return value
        name, equals, values = value.partition("=")
        if not equals or not values:
            self.fail(f"{value!r}: expected a name and values, like block_M=64,128", param, ctx)
        return name.strip(), [_value(part.strip()) for part in values.split(",")]


def _value(text: str) -> Any:
    """Returns the value of a JSON literal (number, true, false, null), else the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


@click.command()
@click.argument("subject", metavar="FILE::NAME")
@shapes_option
@click.option("--try", "values", type=Values(), multiple=True,
              help="Values to try for one parameter. Repeat it: all combinations are "
                   "tried.")  # fmt: skip
@click.option("--budget", type=float, metavar="SECONDS",
              help="End the search after this time with the best one so far.")  # fmt: skip
@target_option()
@json_option
@supervised
@guarded
def autotune(
    subject: str, shapes: dict[str, int], values: tuple[tuple[str, list[Any]], ...],
    budget: float | None, target: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Find the fastest configuration of the kernel NAME in FILE.

    The configurations come from @tilelang.autotune, or are all combinations of --try. They are
    measured on the GPU, or ranked by their predicted times if there is none.
    """
    path, _, name = subject.partition("::")
    request = Request(Path(path), name, shapes=shapes)
    chosen = chosen_target(target)
    with default_target(chosen):
        result = _search(request, dict(values), budget)
    trials = [_trial(trial) for trial in result.trials]
    content = document(
        "autotune", ok=True, subject=subject, target=chosen, config=result.config,
        us=1e3 * result.latency, how="predicted" if "predicted" in result.unit else "measured",
        trials=trials,
    )  # fmt: skip
    emit(content, str(result), as_json)


def _search(
    request: Request, values: Mapping[str, list[Any]], budget: float | None
) -> AutotuneResult:
    found = names_of(request).get(request.name)
    if values:
        if isinstance(found, AutotunedFunction):
            found = found.function
        if not isinstance(found, EagerFunction | JITFunction):
            raise UserError(f"{request.name or 'NAME'} is no function with @tilelang.jit")
        configs = [
            dict(zip(values, combination, strict=True))
            for combination in itertools.product(*values.values())
        ]
        found = tuned(found, configs, budget=budget)
    if not isinstance(found, AutotunedFunction):
        raise UserError(
            f"{request.name or 'NAME'} has no @tilelang.autotune: give values by --try NAME=VALUES"
        )
    return found.tune(**request.shapes)


def _trial(trial: Trial) -> dict[str, Any]:
    us = None if trial.latency is None else 1e3 * trial.latency
    return {"config": trial.config, "us": us, "reason": trial.reason}
