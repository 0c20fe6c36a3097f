"""``tilelang profile`` and ``tilelang compare``: times of kernels by the timing model."""

from __future__ import annotations

import collections
import contextlib
import io
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..checks import progress
from ..emulator import Timing, TimingOptions, options
from ..emulator import compare as compare_reports
from ..emulator.timing import Report, profile_call
from ..emulator.watch import Launch, watching
from ..errors import UserError
from ..runtime.code import assembling
from .options import (
    Shapes,
    chosen_target,
    pair_of,
    pair_options,
    request_of,
    request_options,
    shapes_option,
    target_option,
)
from .output import document, emit, guarded, json_option
from .programs import Program, Request, answering, program_of
from .supervise import supervised
from .verdict import Recorder

if TYPE_CHECKING:
    from ..emulator.device import LaunchReport


#: Sampled launches of one kernel after which the loop around them may wait for its results.
_MOST_LAUNCHES = 1000


class _NeedsResults(BaseException):
    """The program needs results of blocks that did not run; no program catches it by accident."""


class _Sampler:
    """Runs only the blocks that are timed in detail, in the first launch of each kernel.

    Attributes:
        reports: of the first launches, in order.
    """

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self._first: dict[str, LaunchReport] = {}
        self._counts: collections.Counter[str] = collections.Counter()

    @contextlib.contextmanager
    def sampling(self) -> Iterator[None]:
        """Samples the launches inside the block."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(options(schedule="late", sanitize="report", progress=False))
            stack.enter_context(watching(self._launched))
            stack.enter_context(assembling())  # registers bound how many blocks an SM holds
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")  # they are in the reports
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            yield

    def _launched(self, launch: Launch) -> LaunchReport:
        """Times the first launch of a kernel; later launches of it do not run.

        Raises:
            _NeedsResults: the time of the launch may depend on results of an earlier one, or the
                program launches a kernel so often that it may wait for a result.
        """
        name = launch.kernel.name
        self._counts[name] += 1
        if self._counts[name] > _MOST_LAUNCHES:
            raise _NeedsResults
        if name not in self._first:
            if self._first and launch.kernel.memory_decides:
                raise _NeedsResults
            self._time(launch)
        return self._first[name]

    def _time(self, launch: Launch) -> None:
        def call(how: TimingOptions) -> list[Timing | None]:
            report = launch.run(timing=how)
            self._first.setdefault(name, report)
            return [report.timing]

        name = launch.kernel.name
        progress.step(f"timing {name}")
        report = profile_call(call, None)
        progress.step(f"trying advice for {name}")
        report.explain()  # times the launch again, for which its memory must still be there
        self.reports.append(report)


def reports_of(request: Request, target: str) -> list[Report]:
    """Runs a program, and returns the report of the first launch of each of its kernels.

    Only the blocks that are timed in detail run. If the program needs the results of a kernel, to
    check them or for a launch whose time depends on them, it runs again with all blocks.

    Raises:
        UserError: it launches no kernel on the emulator.
    """
    program = program_of(request)
    progress.step(f"running {request.path.name}")
    sampler = _Sampler()
    try:
        with answering(), sampler.sampling(), contextlib.redirect_stdout(io.StringIO()):
            program.run(target)
    except (_NeedsResults, Exception):
        if not sampler.reports:
            raise
        return _reports_of_whole_launches(program, target)
    if not sampler.reports:
        raise UserError(
            f"{request.path.name} launches no kernel on the emulator",
            notes=[
                f"name a kernel of the file: {request.path}::NAME --shapes M=128,...",
                "kernels with CUDA tensors run on the GPU; with CPU tensors they are emulated",
            ],
        )
    return sampler.reports


def _reports_of_whole_launches(program: Program, target: str) -> list[Report]:
    """Runs all blocks of all launches, and returns the reports as ``reports_of`` does."""
    progress.step("running all blocks, since the program needs results")
    recorder = Recorder(timed=True)
    quiet = contextlib.redirect_stdout(io.StringIO())
    with answering(), recorder.recording("late"), quiet:
        program.run(target)
    return recorder.reports


def _slowest(request: Request, target: str) -> Report:
    return max(reports_of(request, target), key=lambda report: report.timing.grid_us)


@click.command()
@request_options
@shapes_option
@target_option()
@click.option("--html", metavar="FILE", help="Write the report of the slowest kernel as a page.")
@click.option(
    "--trace", metavar="FILE", help="Write the trace of the slowest kernel for ui.perfetto.dev."
)
@click.option(
    "--picture",
    metavar="FILE",
    help="Write the timeline of one block of the slowest kernel as SVG.",
)
@json_option
@supervised
@guarded
def profile(
    subject: str, target: str | None, html: str | None, trace: str | None, picture: str | None,
    as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Predict how long the kernels in FILE take on a GPU, and explain why.

    The report covers the first launch of each kernel. Only the blocks that the model times in
    detail run, unless the program needs the results of a kernel.
    """
    with progress.shown():
        request = request_of(subject, given)
        found = reports_of(request, chosen_target(target, request.path))
    slowest = max(found, key=lambda report: report.timing.grid_us)
    if html:
        Path(html).write_text(slowest.html(), encoding="utf-8")
    if trace:
        slowest.save_trace(trace)
    if picture:
        slowest.plot().save(picture)
    kernels = [json.loads(report.json()) for report in found]
    content = document("profile", ok=True, subject=subject, kernels=kernels)
    emit(content, "\n".join(map(str, found)), as_json)


@click.command()
@click.argument("first", metavar="FILE[::NAME]")
@click.argument("second", metavar="FILE[::NAME]")
@click.option("--shapes", "given", type=Shapes(), multiple=True,
              help="Sizes and parameters of the kernels NAME. Give it twice if they "
                   "differ.")  # fmt: skip
@pair_options
@target_option()
@json_option
@supervised
@guarded
def compare(
    first: str, second: str, given: tuple[dict[str, int], ...], target: str | None, as_json: bool,
    **launches: Any,
) -> None:  # fmt: skip
    """Compare the predicted times of two files, each by its slowest kernel.

    The target is that of the first file, if it is PTX.
    """
    if len(given) > 2:
        raise UserError(f"--shapes is for both kernels, or once for each; got {len(given)}")
    chosen = chosen_target(target, Path(first.partition("::")[0]))
    shapes = given * 2 if len(given) == 1 else given or ({}, {})
    reports = []
    with progress.shown():
        pairs = zip((first, second), shapes, pair_of(launches), strict=True)
        for subject, values, launch in pairs:
            path, _, name = subject.partition("::")
            reports.append(_slowest(Request(Path(path), name, shapes=values, **launch), chosen))
    times = [report.timing.grid_us for report in reports]
    content = document(
        "compare", ok=True, subjects=[first, second], us=times, ratio=times[1] / times[0],
        kernels=[json.loads(report.json()) for report in reports],
    )  # fmt: skip
    emit(content, str(compare_reports(*reports)), as_json)
