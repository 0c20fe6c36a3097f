"""Runs a program in a process of its own, for a process that judges it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

from ..algebra import Algebra
from ..checks.reporter import ReportedOperations, ReportedOutputs, Reporter, extent, reference
from ..checks.wire import Wire, unpacked
from ..emulator import EmulatorError, options
from ..emulator.watch import watching
from ..errors import TileLangError
from ..jit.kernel import JITKernel, compiling
from ..profiler import compare
from ..profiler.supply import described
from ..runtime import poison
from ..runtime.code import assembling
from . import files_read
from .outside import Outside, is_move
from .problems import Problem, placed, problem_of
from .programs import (
    Ended,
    Request,
    default_target,
    emulated,
    kernel_of,
    names_of,
    poisoned,
    raised,
    run_script,
    seeded,
    written_of,
)  # fmt: skip
from .trials import NotTried, parameters_of
from .verdict import remarks_of


def serve(wire: Wire) -> None:
    """Serves the orders of a judge until it closes the wire."""
    files_read.watch()
    program = _Program(wire)
    orders = {"script": program.script, "load": program.load, "call": program.call,
              "solution": program.solution, "grade": program.grade}  # fmt: skip
    while True:
        fields, _ = wire.receive()
        try:
            answer = orders[fields["do"]](fields)
        except BaseException as error:
            answer = _fault(error)
        wire.send({"event": "done", "files": files_read.found(Path.cwd()), **answer})


class _Program:
    """A program: a script, a kernel of a file, or the solution of a problem."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._found: Any = None
        self._request = Request(Path())
        self._problem: Problem | None = None
        self._kept: list[Any] = []  # memory that the judge knows by its address

    def script(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Runs a script once for a target."""
        request = Request(Path(fields["path"]), argv=tuple(fields["argv"]), seed=fields["seed"])
        reporter = Reporter(self._wire, follows=fields["algebra"])
        with contextlib.ExitStack() as stack:
            if fields["algebra"]:
                algebra = Algebra()
                stack.callback(self._followed, algebra)
                stack.enter_context(algebra.mode(seed=0, schedule=fields["schedule"]))
            stack.enter_context(assembling())
            stack.enter_context(compiling(self._compiled))
            stack.enter_context(_reporting(self._wire, reporter))
            run_script(request, fields["target"])
        return {}

    def _followed(self, algebra: Algebra) -> None:
        remarks = [str(each) for each in algebra.remarks]
        self._wire.send({"event": "followed", "remarks": remarks})

    def load(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Loads the file, and finds the kernel."""
        self._request = Request(Path(fields["path"]), fields["name"], tuple(fields["argv"]),
                                seed=fields["seed"])  # fmt: skip
        self._found = names_of(self._request)[fields["name"]]
        return {"fixed": None if (found := parameters_of(self._found)) is None else sorted(found)}

    def call(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Compiles the kernel for a target and sizes, and calls it once."""
        request = Request(self._request.path, self._request.name, shapes=fields["shapes"])
        seeded(self._request.seed)
        with assembling(), compiling(self._compiled):
            kernel = self._kernel(request, fields["target"], fields["may be refused"])
            outputs = kernel.out_idx or []
            params = [each for i, each in enumerate(kernel.params) if i not in outputs]
            specs = described(params, request.shapes)
        answer, arrays = self._wire.ask({"event": "inputs wanted", "inputs": specs})
        inputs = unpacked(answer["values"], arrays)
        count = len(inputs)
        if fields["parameters"] is not None and kernel.out_idx is None:
            # Without out_idx, the parameters that the reference does not take are outputs.
            count = fields["parameters"]
        reporter = Reporter(self._wire)
        reporter.place(inputs)
        with _reporting(self._wire, reporter), poison.call(kernel.name, inputs[count:]):
            written = written_of(inputs, fields["outputs"]) or inputs[count:]
            results = compare.as_list(kernel(*inputs)) or written
        self._kept.append((inputs, results))
        reporter.tell(map(extent, results))
        return {"count": count, "outputs": [reference(each) for each in results]}

    def solution(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Reads a solution of a problem."""
        self._problem = problem_of(fields)
        return {}

    def grade(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Runs the solution once on a workload."""
        problem, target = self._problem, fields["target"]
        assert problem is not None
        answer, arrays = self._wire.ask({"event": "inputs wanted", "inputs": None})
        values = unpacked(answer["values"], arrays)
        reporter, outside = Reporter(self._wire), Outside()
        reporter.place(values)
        allowed = (lambda _: True) if fields["allow torch"] else is_move
        with (
            default_target(target), emulated(problem.text, target), assembling(),
            compiling(self._compiled), _reporting(self._wire, reporter),
        ):  # fmt: skip
            solution = problem.solution()
            with ReportedOperations(reporter, allowed):
                passed = tree_map(placed, values)
                with outside.watching():
                    returned = compare.as_list(solution(passed))
                results = [torch.as_tensor(each).detach().cpu() for each in returned]
        self._kept.append((values, passed, results))
        reporter.tell(map(extent, results))
        return {"outputs": [reference(each) for each in results], "outside": outside.document()}

    def _kernel(self, request: Request, target: str, may_be_refused: bool) -> JITKernel:
        try:
            return kernel_of(self._found, request, target)  # type: ignore[no-any-return]
        except Exception as error:  # the sizes do not suit the kernel, and it says so
            if not may_be_refused:
                raise
            raise NotTried(str(error).splitlines()[0] or type(error).__name__) from None

    def _compiled(self, kernel: JITKernel) -> None:
        if self._wire.is_own:
            names = list(kernel.resource_usage)
            self._wire.send({"event": "compiled", "names": names, "remarks": remarks_of(kernel)})


@contextlib.contextmanager
def _reporting(wire: Wire, reporter: Reporter) -> Iterator[None]:
    with (
        options(sanitize="report", letters="count", progress=False),
        watching(reporter.launched),
        poison.watching(ReportedOutputs(wire, reporter)),
        poisoned(),
    ):
        yield


def _fault(error: BaseException) -> dict[str, Any]:
    """Returns what a program has raised, for the verdict."""
    if isinstance(error, AssertionError):
        return {"outcome": "wrong", "message": str(error) or "an assertion of the program failed"}
    if isinstance(error, EmulatorError):
        return {"emulator": error.fields}
    if isinstance(error, NotTried):
        return {"not tried": str(error)}
    if isinstance(error, Ended):
        return {"outcome": "failed", "message": f"{error}, before its results were compared"}
    if isinstance(error, TileLangError | OSError):
        return {"refused": str(error)}
    if isinstance(error, SystemExit):
        message = f"the program ended itself with status {error.code}"
        return {"outcome": "failed", "message": message}
    if isinstance(error, Exception):
        return {"outcome": "failed", "message": raised(error)}
    raise error
