"""``tilelang profile`` and ``tilelang compare``: what kernels take, by the timing model."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import click

from ..emulator import compare as compare_reports
from ..emulator.timing import Report
from ..errors import UserError
from .options import chosen_target, request_of, request_options, shapes_option
from .output import document, emit, guarded, json_option
from .programs import Request, answering, program_of
from .verdict import Recorder


def reports_of(request: Request, target: str) -> list[Report]:
    """Runs a program, and returns the report of the first launch of each of its kernels.

    Raises:
        UserError: it launches no kernel on the emulator.
    """
    program = program_of(request)
    recorder = Recorder(timed=True)
    quiet = contextlib.redirect_stdout(io.StringIO())
    with answering(), recorder.recording("late"), quiet:
        program.run(target)
    if not recorder.reports:
        raise UserError(f"{request.path.name} launches no kernel on the emulator")
    return recorder.reports


def _slowest(request: Request, target: str) -> Report:
    return max(reports_of(request, target), key=lambda report: report.timing.grid_us)


@click.command()
@request_options
@shapes_option
@click.option("--target", help="sm_80, sm_90a or sm_100a.")
@click.option("--html", metavar="FILE", help="Write the page of the slowest kernel.")
@click.option("--trace", metavar="FILE", help="Write its trace for ui.perfetto.dev.")
@click.option("--picture", metavar="FILE", help="Write the timeline of a CTA of it as SVG.")
@json_option
@guarded
def profile(
    subject: str, target: str | None, html: str | None, trace: str | None, picture: str | None,
    as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Tells what the kernels of FILE take on the GPU, and why; no GPU is needed.

    The first launch of each kernel is timed.
    """
    found = reports_of(request_of(subject, options), chosen_target(target))
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
@click.option("--target", help="sm_80, sm_90a or sm_100a.")
@json_option
@guarded
def compare(first: str, second: str, target: str | None, as_json: bool) -> None:
    """Compares the slowest kernels of two Python files by the timing model."""
    chosen = chosen_target(target)
    reports = []
    for subject in (first, second):
        path, _, name = subject.partition("::")
        reports.append(_slowest(Request(Path(path), name), chosen))
    times = [report.timing.grid_us for report in reports]
    content = document(
        "compare", ok=True, subjects=[first, second], us=times, ratio=times[1] / times[0],
        kernels=[json.loads(report.json()) for report in reports],
    )  # fmt: skip
    emit(content, str(compare_reports(*reports)), as_json)
