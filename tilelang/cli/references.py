"""Computes what a reference expects, in a process of its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..algebra import Elements
from ..checks.wire import Message, Wire, packed, unpacked
from ..errors import TileLangError
from ..profiler.compare import as_list
from . import files_read
from .problems import Problem, problem_of
from .programs import Request, applied, names_of, raised, reference_of


def serve(wire: Wire) -> None:
    """Serves the orders of a judge until it closes the wire."""
    files_read.watch()
    references = _References()
    orders = {"find": references.find, "problem": references.problem,
              "inputs": references.inputs, "expected": references.expected,
              "count": references.count, "elements": references.elements}  # fmt: skip
    while True:
        fields, arrays = wire.receive()
        try:
            answer, results = orders[fields["do"]](fields, arrays)
        except (TileLangError, OSError) as error:
            answer, results = {"refused": str(error)}, []
        except Exception as error:
            answer, results = {"refused": f"the reference raised {raised(error)}"}, []
        wire.send({**answer, "files": files_read.found(Path.cwd())}, results)


class _References:
    """A function of a file, or a problem."""

    def __init__(self) -> None:
        self._function: Callable[..., Any] | None = None
        self._problem: Problem | None = None

    def find(self, fields: dict[str, Any], _: Any) -> Message:
        """Finds the function that computes what a kernel of a file should."""
        request = Request(Path(fields["path"]), fields["name"], tuple(fields["argv"]),
                          reference=fields["reference"])  # fmt: skip
        changed = fields.get("changed")  # of a kernel that no Python file defines
        names = {} if "::" in request.reference or changed else names_of(request)
        self._function = function = reference_of(request, names)
        if function is None:
            return {"name": ""}, []
        count = len(inspect.signature(function).parameters)
        if changed:
            self._function = functools.partial(_returned_or_changed, function, changed)
        return {"name": function.__name__, "parameters": count}, []

    def count(self, fields: dict[str, Any], given: list[np.ndarray]) -> Message:
        """Counts the outputs for inputs."""
        assert self._function is not None
        results = as_list(applied(self._function, unpacked(fields["inputs"], given)))
        return {"count": len(results)}, []

    def problem(self, fields: dict[str, Any], _: Any) -> Message:
        """Reads a problem; the solution is not loaded."""
        self._problem = problem = problem_of(fields)
        rows = [{"name": each.name, "shapes": dict(each.shapes)} for each in problem.workloads]
        return {"kind": problem.kind, "workloads": rows}, []

    def inputs(self, fields: dict[str, Any], _: Any) -> Message:
        """Makes inputs of a workload from a seed."""
        assert self._problem is not None
        arrays: list[np.ndarray] = []
        values = self._problem.workloads[fields["workload"]].inputs(fields["seed"])
        return {"values": packed(values, arrays)}, arrays

    def expected(self, fields: dict[str, Any], given: list[np.ndarray]) -> Message:
        """Computes what is expected for inputs."""
        import torch

        from ..profiler.exact import expect

        steps = fields["steps"]
        values = expect(
            self._reference(fields), unpacked(fields["inputs"], given),
            lambda dtype: float(steps[str(dtype).removeprefix("torch.")]),
        )  # fmt: skip
        arrays: list[np.ndarray] = []
        with torch.no_grad():
            rows = [packed(list(vars(each).values()), arrays) for each in values]
        return {"outputs": rows}, arrays

    def _reference(self, fields: dict[str, Any]) -> Callable[[list[Any]], Any]:
        """Returns the function that takes a list of inputs."""
        if self._function is not None:
            return functools.partial(applied, self._function)
        assert self._problem is not None
        return self._problem.workloads[fields["workload"]].expected

    def elements(self, fields: dict[str, Any], given: list[np.ndarray]) -> Message:
        """Computes the outputs over the field."""
        inputs = [
            together(each) if isinstance(each, tuple) else each
            for each in unpacked(fields["inputs"], given)
        ]
        arrays: list[np.ndarray] = []
        results = as_list(self._reference(fields)(inputs))
        return {"outputs": [packed(apart(Elements.of(each)), arrays) for each in results]}, arrays


def _returned_or_changed(function: Callable[..., Any], changed: list[int], *inputs: Any) -> Any:
    """Returns the results of a function, or the arguments that it has changed."""
    return as_list(function(*inputs)) or [inputs[i] for i in changed]


def apart(elements: Elements) -> tuple[Any, ...]:
    """Returns the parts of an array of elements, which a message can hold."""
    return elements.words.view(np.int32), elements.values


def together(parts: tuple[Any, ...]) -> Elements:
    """Returns the array of elements of its parts."""
    words, values = parts
    return Elements(words.numpy().view(np.uint32), values.numpy())
