"""Judges a kernel of a file outside of the process of its program.

The program compiles and calls the kernel once, with inputs that nobody judges. What it launches is
noted, and runs here again for each schedule and each kind of inputs, with inputs that the program
has never seen. The reference runs in a third process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..algebra import Elements
from ..checks.processes import Other
from ..checks.wire import packed, unpacked
from ..errors import UserError
from ..profiler.exact import Expected
from ..profiler.judge import Comparison
from ..profiler.supply import supplied
from . import trials
from .programs import Program, Request, Trial, seeded
from .recording import Recording, asked, merged, raise_end
from .references import apart, together
from .verdict import Failed, current_recorder


class OutsideReference:
    """A reference that runs in a process of its own."""

    def __init__(
        self, process: Other, name: str = "", parameters: int | None = None, **order: Any
    ) -> None:
        """Takes a process that serves it; ``order`` has further fields of each order."""
        self._process, self.name, self.parameters = process, name, parameters
        self._order = order

    def expect(self, inputs: Sequence[Any], step: Callable[[torch.dtype], float]) -> list[Expected]:
        """Returns what is expected of each output, as :func:`tilelang.profiler.exact.expect`."""
        arrays: list[np.ndarray] = []
        leaves = torch.utils._pytree.tree_leaves(list(inputs))
        kinds = {each.dtype for each in leaves if isinstance(each, torch.Tensor)}
        steps = {str(kind).removeprefix("torch."): step(kind) for kind in kinds
                 if kind.is_floating_point}  # fmt: skip
        order = {"do": "expected", "inputs": packed(list(inputs), arrays), "steps": steps,
                 **self._order}  # fmt: skip
        answer, results = asked(self._process, order, arrays)
        return [Expected(*unpacked(each, results)) for each in answer["outputs"]]

    def on_elements(self, inputs: list[Any]) -> list[Elements]:
        """Returns the outputs over the field, from inputs that are elements where floats are."""
        arrays: list[np.ndarray] = []
        given = [apart(each) if isinstance(each, Elements) else each for each in inputs]
        order = {"do": "elements", "inputs": packed(given, arrays), **self._order}
        answer, results = asked(self._process, order, arrays)
        return [together(unpacked(each, results)) for each in answer["outputs"]]


def outside_program(request: Request) -> Program:
    """Returns what judges one kernel of a file."""
    judge = _Judge(request)
    reference = judge.reference
    how = f"compared with {reference.name}" if reference is not None else ""
    return Program(judge.run, how, judge.trials() if reference is not None else ())


class _Judge:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._program = Other("tilelang.cli.judged:serve")
        self._other = Other("tilelang.cli.references:serve")
        self._recordings: dict[tuple[str, tuple[tuple[str, int], ...]], Recording] = {}
        self._fixed: list[str] | None = None
        self._failed: Failed | None = None
        self.reference: OutsideReference | None = None
        file = {"path": str(request.path), "name": request.name, "argv": list(request.argv)}
        # A file of its own is read before the program can change it.
        first = "::" in request.reference
        try:
            if first:
                self._find_reference(file)
            answer, _ = asked(self._program, {"do": "load", "seed": request.seed, **file})
            self._fixed = answer["fixed"]
            if not first:
                self._find_reference(file)
        except Failed as error:
            self._failed = error

    def _find_reference(self, file: dict[str, Any]) -> None:
        order = {"do": "find", "reference": self._request.reference, **file}
        answer, _ = asked(self._other, order)
        if answer["name"]:
            name, parameters = answer["name"], answer["parameters"]
            self.reference = OutsideReference(self._other, name, parameters)

    def trials(self) -> tuple[Trial, ...]:
        """Returns the runs with inputs that break kernels."""
        kinds = [Trial(kind, kind, functools.partial(self.run, kind=kind)) for kind in trials.KINDS]
        shapes = trials.ragged(self._fixed, self._request.shapes)
        if shapes != self._request.shapes:
            sizes = ", ".join(f"{name}={value}" for name, value in shapes.items())
            run = functools.partial(self.run, shapes=shapes)
            kinds.append(Trial("ragged", f"ragged ({sizes})", run))
        return tuple(kinds)

    def run(
        self, target: str, kind: str = "", shapes: Mapping[str, int] | None = None
    ) -> list[Comparison]:
        """Runs the launches of the kernel once with new inputs.

        Args:
            target: of the kernel.
            kind: of :data:`~.trials.KINDS`; "" for random inputs.
            shapes: other values of dimensions and parameters than those of the request.
        """
        if self._failed is not None:
            raise self._failed
        recording = self._recording(target, self._request.shapes if shapes is None else shapes)
        if "not tried" in recording.end:
            raise trials.NotTried(recording.end["not tried"])
        if recording.wanted is None:  # it has ended before its kernel was compiled
            raise_end(recording.end)
        seeded(self._request.seed + recording.seed)
        inputs = [supplied(each) for each in recording.wanted]
        inputs = merged(inputs, self._offered(recording.wanted))
        inputs = trials.changed(inputs, kind, self._request.seed)
        given = inputs[: int(recording.end.get("count", len(inputs)))]  # a refused call counts none
        recorder = current_recorder()
        if recorder is not None:
            recorder.draw(given)
        if self._request.outputs:  # the kernel reads them, too
            given = [each.clone() if isinstance(each, torch.Tensor) else each for each in given]
        results = recording.again(inputs)
        if self.reference is None:
            return []
        if not results:
            raise UserError(
                f"{self.reference.name} takes all arguments of the kernel, so nothing is left to "
                "compare: --outputs names the arguments that the kernel writes"
            )
        return [Comparison(results, given, self.reference, special=kind in trials.SPECIAL)]

    def _offered(self, wanted: list[Any]) -> list[Any]:
        """Makes the inputs that the program sees."""
        seeded(self._request.seed)
        return [supplied(each) for each in wanted]

    def _recording(self, target: str, shapes: Mapping[str, int]) -> Recording:
        key = target, tuple(shapes.items())
        if key not in self._recordings:
            order = {
                "do": "call", "target": target, "shapes": dict(shapes),
                "may be refused": shapes != self._request.shapes,
                "parameters": self.reference.parameters if self.reference else None,
                "outputs": list(self._request.outputs),
            }  # fmt: skip
            self._recordings[key] = Recording(self._program, order, self._offered)
        return self._recordings[key]
