"""What is found out about the kernels that a program launches."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ..emulator import EmulatorError, options
from ..emulator.timing import Report
from ..emulator.timing.accuracy import accuracy_text
from ..emulator.timing.text import shares
from ..emulator.watch import Launch, watching
from ..errors import TileLangError
from ..jit.kernel import JITKernel, compiling
from ..runtime.code import assembling
from .programs import Program, raised

#: Engines whose work a kernel exists for: the busiest tells its share of the speed of light.
_WORK = ("tensor pipe", "HBM")
_SHOWN = 3


class Recorder:
    """Keeps what happens in the runs of a program.

    Attributes:
        kernels: by name, documents as ``check --json`` prints them.
        reports: of the launches that were timed, in order.
    """

    def __init__(self, timed: bool) -> None:
        self._timed = timed
        self.kernels: dict[str, dict[str, Any]] = {}
        self.reports: list[Report] = []
        self._schedule: str | int = "late"
        self._compiled: dict[str, JITKernel] = {}

    @contextlib.contextmanager
    def recording(self, schedule: str | int, quiet: bool = True) -> Iterator[None]:
        """Launches of the block run by this schedule, and are kept."""
        self._schedule = schedule
        stack = contextlib.ExitStack()
        with stack:
            stack.enter_context(options(schedule=schedule, sanitize="report", progress=False))
            stack.enter_context(watching(self._launched))
            stack.enter_context(compiling(self._compiled_one))
            stack.enter_context(assembling())  # registers and spills are part of the answer
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")  # they are in the reports
            if quiet:
                stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            yield

    def _compiled_one(self, kernel: JITKernel) -> None:
        for name in kernel.resource_usage:
            self._compiled[name] = kernel

    def _launched(self, launch: Launch) -> Any:
        first = launch.kernel.name not in self.kernels
        entry = self.kernels.setdefault(launch.kernel.name, self._described(launch))
        if first and self._timed:
            with launch.undone(), contextlib.suppress(EmulatorError):
                timed = launch.profile()
                entry["time"] = _times(timed)
                self.reports.append(timed)
        entry["launches"] += 1
        try:
            report = launch.run()
        except EmulatorError as error:
            self._keep(entry, [*error.findings, error])
            raise
        self._keep(entry, report.findings)
        for warning in report.warnings:
            text = f"PTX line {warning['ptx_line']}: {warning['message']}"
            if text not in entry["warnings"]:
                entry["warnings"].append(text)
        return report

    def _described(self, launch: Launch) -> dict[str, Any]:
        kernel = self._compiled.get(launch.kernel.name)
        return {
            "name": launch.kernel.name, "grid": list(launch.grid), "block": list(launch.block),
            "cluster": list(launch.cluster), "launches": 0, "findings": [], "warnings": [],
            "time": None, "remarks": [str(remark) for remark in kernel.remarks] if kernel else [],
        }  # fmt: skip

    def _keep(self, entry: dict[str, Any], errors: Sequence[EmulatorError]) -> None:
        for error in errors:
            found = finding_of(error)
            same = next((each for each in entry["findings"] if found.items() <= each.items()), None)
            if same is None:
                same = {**found, "count": 0, "schedules": []}
                entry["findings"].append(same)
            same["count"] += error.count
            if self._schedule not in same["schedules"]:
                same["schedules"].append(self._schedule)


def finding_of(error: EmulatorError) -> dict[str, Any]:
    """What the emulator found, as documents have it."""
    return {
        "kind": error.kind, "text": error.reason, "place": _place(error),
        "earlier": _earlier(error),
    }  # fmt: skip


def _place(error: EmulatorError) -> str:
    if error.span is not None:
        return f"{error.span.file}:{error.span.line}"
    return f"PTX:{error.ptx_line}" if error.ptx_line else ""


def _earlier(error: EmulatorError) -> str:
    if error.earlier_span is not None:
        return f"{error.earlier_span.file}:{error.earlier_span.line}"
    return f"PTX:{error.earlier_line}" if error.earlier_line else ""


def _times(report: Report) -> dict[str, Any]:
    """The predicted time of a launch and what it is made of."""
    timing = report.timing
    engines = dict(zip(timing.engine_name, map(float, timing.engine_share), strict=True))
    limit = max(_WORK, key=lambda name: engines.get(name, 0.0))
    lines = sorted(report.lines, key=lambda line: -line.cycles)[:_SHOWN]
    total = sum(line.cycles for line in report.lines) or 1
    return {
        "gpu": timing.gpu, "us": timing.grid_us, "tflops": timing.tflops,
        "dram_tbs": timing.dram_tbs, "error": accuracy_text(timing),
        "speed_of_light": {"share": engines.get(limit, 0.0), "engine": limit},
        "occupancy": {
            "ctas_per_sm": timing.ctas_per_sm, "limit": timing.occupancy_limit,
            "warps_per_sm": timing.ctas_per_sm * -(-timing.threads // 32),
            "registers": timing.registers, "shared_bytes": timing.shared_bytes,
        },
        "lines": [
            {"place": line.place, "text": line.text, "share": line.cycles / total,
             "reasons": shares(line.reasons, 3)}
            for line in lines
        ],
        "advice": [
            {"kind": each.kind, "text": str(each), "gain": each.gain} for each in report.explain()
        ],
    }  # fmt: skip


def examine(program: Program, target: str, schedules: Sequence[str | int]) -> dict[str, Any]:
    """Runs a program for a target, once by each schedule.

    Returns:
        The document of the target, as in ``check --json``.

    Raises:
        UserError: the program could not be run.
    """
    recorder = Recorder(timed=True)
    runs = []
    for schedule in schedules:
        message, printed = "", io.StringIO()
        try:
            with recorder.recording(schedule), contextlib.redirect_stdout(printed):
                program(target)
        except AssertionError as error:
            message = str(error) or "an assertion of the program failed"
        except EmulatorError as error:
            message = f"{error.kind}: {error.reason}"
        except (TileLangError, OSError):
            raise  # the program cannot be tried
        except Exception as error:  # whatever the program does
            message = raised(error)
        runs.append({"schedule": schedule, "ok": not message, "message": message})
    kernels = list(recorder.kernels.values())
    clean = not any(kernel["findings"] for kernel in kernels)
    return {
        "target": target, "ok": clean and all(run["ok"] for run in runs), "runs": runs,
        "kernels": kernels,
    }  # fmt: skip
