"""Runs a program on the emulator, and collects the findings on each kernel that it launches."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import io
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..algebra import Algebra
from ..algebra.elements import Elements
from ..algebra.verdict import compare, is_floats
from ..checks.progress import expect, step
from ..emulator import EmulatorError, options
from ..emulator.levels import BREAKS
from ..emulator.timing import Report
from ..emulator.timing.accuracy import accuracy_text
from ..emulator.timing.text import shares
from ..emulator.watch import Launch, watching
from ..errors import TileLangError
from ..jit.kernel import JITKernel, compiling
from ..runtime import poison
from ..runtime.code import assembling
from .findings import ORDER, Findings, fails
from .programs import Ended, Program, Trial, judged, raised
from .receipt import Receipt
from .trials import NotTried

if TYPE_CHECKING:
    from ..profiler.judge import Comparison

#: Engines that do the work of a kernel; the busiest one gives its share of the speed of light.
_WORK = ("tensor pipe", "HBM")
_SHOWN = 3


class Failed(Exception):
    """A program has ended without results.

    Attributes:
        outcome: one of :data:`_OUTCOMES`.
        message: what is not right.
    """

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome, self.message = outcome, message


class Recorder:
    """Collects findings, times and PTX in the runs of a program.

    Attributes:
        kernels: by name, documents as ``check --json`` prints them.
        reports: of the launches that were timed, in order.
        texts: the PTX of all modules whose kernels ran.
    """

    def __init__(self, timed: bool, repeats: bool = True, algebra: bool = False) -> None:
        """Makes a recorder; ``repeats`` says that all runs have equal inputs."""
        self._timed, self._repeats = timed, repeats
        #: The mode of the last launches, where floats carry elements of a field.
        self.algebra = Algebra() if algebra else None
        self._drawn: dict[int, Elements] = {}  # inputs of the last run, by their positions
        self._followed: list[str] = []  # what a program has said of its own elements
        self._unwritten: dict[tuple[str, int, int], _Unwritten] = {}
        self._calls: collections.Counter[tuple[str, int]] = collections.Counter()
        self.texts: set[str] = set()
        self.kernels: dict[str, dict[str, Any]] = {}
        self.reports: list[Report] = []
        self._schedule: str | int = "late"
        self._remarks: dict[str, list[dict[str, str]]] = {}
        self._found: dict[str, Findings] = collections.defaultdict(Findings)
        self._certain: dict[str, list[dict[str, Any]]] = {}

    @contextlib.contextmanager
    def recording(
        self, schedule: str | int, quiet: bool = True, second: bool = False
    ) -> Iterator[None]:
        """Runs the launches of the block with this schedule, and keeps what they find.

        ``second`` chooses the pattern that outputs hold beforehand; see ``runtime.poison``.
        """
        self._schedule = schedule
        self._calls.clear()
        stack = contextlib.ExitStack()
        token = _recorder.set(self)
        with stack:
            stack.callback(_recorder.reset, token)
            stack.enter_context(
                options(schedule=schedule, sanitize="report", letters="count", progress=False)
            )
            if self.algebra is not None:
                self.algebra, self._drawn = Algebra(), {}
                stack.enter_context(self.algebra.mode(seed=0))
            stack.enter_context(watching(self._launched))
            stack.enter_context(poison.watching(poison.Watch(self._ended, second)))
            stack.enter_context(compiling(self._compiled_one))
            if self._timed:
                stack.enter_context(assembling())  # registers and spills are part of the answer
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")  # they are in the reports
            if quiet:
                stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            yield

    def compiled(self, names: Iterable[str], remarks: list[dict[str, str]]) -> None:
        """Takes the remarks of the compiler on kernels of these names; see :func:`remarks_of`."""
        for name in names:
            self._remarks[name] = remarks

    def _compiled_one(self, kernel: JITKernel) -> None:
        self.compiled(kernel.resource_usage, remarks_of(kernel))

    def _ended(self, name: str, output: int, unwritten: np.ndarray, size: int) -> None:
        """Keeps the elements that no run has written."""
        if size == 1 and not self._repeats:
            return  # many results for other inputs have these values
        call = self._calls[name, output]
        self._calls[name, output] += 1
        kept = self._unwritten.setdefault((name, call, output), _Unwritten())
        kept.add(unwritten)

    def compare(self, comparisons: Sequence[Comparison]) -> None:
        """Compares outputs over the field.

        Raises:
            AssertionError: one differs.
        """
        assert self.algebra is not None
        for each in comparisons:
            reference = each.reference
            if not callable(reference):
                reference = reference.on_elements  # type: ignore[attr-defined]
            inputs = [self._drawn.get(i, value) for i, value in enumerate(each.inputs)]
            verdict = compare(self.algebra, each.actual, reference, inputs)
            if not verdict.equal:
                raise AssertionError(verdict.message)

    def draw(self, inputs: Sequence[Any], seed: int = 0) -> None:
        """Gives inputs that are tensors of floats random elements, in the algebraic mode."""
        if self.algebra is None:
            return
        for number, value in enumerate(inputs):
            if is_floats(value):
                self.algebra.draw(value, seed, number)
                self._drawn[number] = self.algebra.read(value)

    def algebra_remarks(self) -> list[str]:
        """Returns what instructions of the last launches did to elements."""
        own = [str(remark) for remark in self.algebra.remarks] if self.algebra else []
        return own + self._followed

    def followed(self, remarks: list[str]) -> None:
        """Takes what a program says of elements that it has followed in its own process."""
        self._followed = remarks

    def unwritten(self) -> list[dict[str, Any]]:
        """Returns the outputs with elements that none of at least two runs has written."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for (name, _, output), kept in self._unwritten.items():
            if kept.runs > 1 and kept.where is not None and kept.where.any():
                entry = {
                    "kernel": name, "output": output, "count": int(kept.where.sum()),
                    "elements": kept.where.size,
                    "first": [int(i[0]) for i in kept.where.nonzero()],
                }  # fmt: skip
                found.setdefault((name, output), entry)
        return list(found.values())

    def _launched(self, launch: Launch) -> Any:
        self.texts.add(launch.kernel.module.text)
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
            self._keep(entry, [*error.findings, *error.letters, error])
            raise
        self._keep(entry, [*report.findings, *report.letters])
        for warning in report.warnings:
            text = f"PTX line {warning['ptx_line']}: {warning['message']}"
            if text not in entry["warnings"]:
                entry["warnings"].append(text)
        return report

    def _described(self, launch: Launch) -> dict[str, Any]:
        remarks = self._remarks.get(launch.kernel.name, [])
        certain = [_certain(each) for each in remarks if each["topic"] == "uninitialized"]
        self._certain.setdefault(launch.kernel.name, certain)
        return {
            "name": launch.kernel.name, "grid": list(launch.grid), "block": list(launch.block),
            "cluster": list(launch.cluster), "launches": 0, "findings": certain, "warnings": [],
            "time": None, "remarks": [remark["text"] for remark in remarks],
        }  # fmt: skip

    def _keep(self, entry: dict[str, Any], errors: Sequence[EmulatorError]) -> None:
        found = self._found[entry["name"]]
        found.add(errors, self._schedule)
        entry["findings"] = [*self._certain[entry["name"]], *found.document()]


_recorder: contextvars.ContextVar[Recorder | None] = contextvars.ContextVar(
    "recorder", default=None
)


def current_recorder() -> Recorder | None:
    """Returns the recorder of the innermost block of :meth:`Recorder.recording`."""
    return _recorder.get()


class _Unwritten:
    """The elements of an output that each of several runs has left unchanged."""

    def __init__(self) -> None:
        self.runs = 0
        self.where: np.ndarray | None = None

    def add(self, where: np.ndarray) -> None:
        self.runs += 1
        if self.where is None:
            self.where = where
        elif self.where.shape == where.shape:
            self.where = self.where & where
        else:
            self.where = None  # calls of another run do other things


def remarks_of(kernel: JITKernel) -> list[dict[str, str]]:
    """Returns the remarks of the compiler as texts."""
    return [
        {"text": str(each), "topic": each.topic, "message": each.message,
         "place": f"{each.span.file}:{each.span.line}" if each.span else ""}
        for each in kernel.remarks
    ]  # fmt: skip


def _certain(remark: dict[str, str]) -> dict[str, Any]:
    """Returns a finding for a fault that the compiler proves; it does not depend on a schedule."""
    return {
        "kind": remark["topic"], "level": BREAKS, "text": remark["message"],
        "place": remark["place"],
        "earlier": "", "others": [], "count": 1, "schedules": [],
    }  # fmt: skip


def _times(report: Report) -> dict[str, Any]:
    """Returns the document of the predicted time of a launch, and its parts."""
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


def examine(
    program: Program, target: str, schedules: Sequence[str | int], kinds: Collection[str] = (),
    letters: str = "count", algebra: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Runs a program once with each schedule, and then with inputs that break kernels.

    Args:
        program: the program to run.
        target: name of the target, such as "sm_90a".
        schedules: schedules of its asynchronous operations.
        kinds: names of trials; names that the program does not have are ignored.
        letters: one of :data:`.findings.CHOICES`.
        algebra: compare over a finite field; there is no predicted time then.

    Returns:
        The document of the target, as ``check --json`` prints it.

    Raises:
        UserError: the program could not be run.
    """
    recorder = Recorder(timed=not algebra, repeats=program.repeats, algebra=algebra)
    receipt = Receipt()

    def run(target: str) -> list[Comparison]:
        comparisons = program.run(target)
        receipt.compared(comparisons)
        return comparisons

    runs: list[dict[str, Any]] = []
    for number, schedule in enumerate(schedules):
        step(f"{target}: schedule {schedule}")
        outcome, message = _outcome(recorder, run, target, schedule, number % 2 == 1)
        runs.append(
            {"schedule": schedule, "ok": not message, "outcome": outcome, "message": message}
        )
    kernels, unwritten = list(recorder.kernels.values()), recorder.unwritten()
    found = [each for kernel in kernels for each in kernel["findings"] if fails(each, letters)]
    outcomes = {run["outcome"] for run in runs}
    verdict = next(each for each in _OUTCOMES if each in outcomes)
    if verdict == "right" and unwritten:
        verdict = "wrong"
    if verdict == "right" and found:
        verdict = "racy" if all(each["kind"] in ORDER for each in found) else "wrong"
    inputs = []
    if verdict == "right" and program.compared:
        chosen = [each for each in program.trials if each.name in kinds]
        expect(len(chosen))
        inputs = [_tried(trial, target, letters) for trial in chosen]
        if any(each["ok"] is False for each in inputs):
            verdict = "wrong"
    if verdict == "right" and not program.compared:
        verdict = "ran"
    return {
        "target": target, "verdict": verdict, "ok": verdict == "right", "runs": runs,
        "inputs": inputs, "unwritten": unwritten, "kernels": kernels,
        "algebra": recorder.algebra_remarks(),
        "receipt": receipt.document(recorder.texts, schedules),
    }  # fmt: skip


#: Outcomes of a run, the worst first.
_OUTCOMES = ("failed", "wrong", "incomplete", "right")
#: Errors of the emulator that say nothing about the program.
_NOT_TRIED = ("target", "syntax", "too-large", "out-of-memory")


def _outcome(
    recorder: Recorder, run: Callable[[str], list[Comparison]], target: str,
    schedule: str | int, second: bool = False,
) -> tuple[str, str]:  # fmt: skip
    """Runs a program and compares its outputs.

    Returns:
        One of :data:`_OUTCOMES`, and what is not right, or "".
    """
    try:
        with recorder.recording(schedule, second=second), contextlib.redirect_stdout(io.StringIO()):
            comparisons = run(target)
        if recorder.algebra is None:
            judged(comparisons, recorder.texts)
        else:
            recorder.compare(comparisons)
    except Failed as error:
        return error.outcome, error.message
    except AssertionError as error:
        return "wrong", str(error) or "an assertion of the program failed"
    except EmulatorError as error:
        if error.kind in _NOT_TRIED:
            raise
        at = f" (PTX line {error.ptx_line})" if error.ptx_line else ""
        incomplete = error.kind == "unsupported"
        return "incomplete" if incomplete else "wrong", f"{error.kind}: {error.reason}{at}"
    except Ended as error:
        return "failed", f"{error}, before its results were compared"
    except (TileLangError, OSError, NotTried):
        raise  # the program cannot be tried
    except SystemExit as error:
        return "failed", f"the program ended itself with status {error.code}"
    except Exception as error:  # whatever the program does
        return "failed", raised(error)
    return "right", ""


def _tried(trial: Trial, target: str, letters: str) -> dict[str, Any]:
    """Returns the outcome of a trial; ``ok`` is None if it could not run, and the message why."""
    recorder = Recorder(timed=False)
    step(f"{target}: inputs {trial.name}")
    try:
        _, message = _outcome(recorder, trial.run, target, "late")
    except (NotTried, TileLangError) as error:
        return {"name": trial.name, "text": trial.text, "ok": None, "message": _first_line(error)}
    for kernel in recorder.kernels.values():
        for found in kernel["findings"]:
            if fails(found, letters):
                message = message or f"{found['kind']} at {found['place']}: {found['text']}"
    return {"name": trial.name, "text": trial.text, "ok": not message, "message": message}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
