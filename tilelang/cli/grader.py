"""Runs solutions of problems outside of their own process; see :mod:`.recording`."""

from __future__ import annotations

from typing import Any

from ..checks.processes import Other
from ..checks.wire import unpacked
from ..profiler.judge import Comparison
from .outside import is_move
from .outside_judge import OutsideReference
from .recording import Recording, asked, merged
from .verdict import current_recorder

#: The seed of the inputs that the solution sees.
_SEEN = 1


class Grader:
    """A solution with its problem.

    Attributes:
        kind: ``"kernelbench"`` or ``"flashinfer-bench"``.
        workloads: name and axes of each.
        allow_torch: operations of torch may compute, too.
    """

    def __init__(
        self, problem: str, solution: str, workloads: str | None, target: str, allow_torch: bool
    ) -> None:
        self.target, self.allow_torch = target, allow_torch
        self.reference = Other("tilelang.cli.references:serve")
        files = {"problem": problem, "solution": solution, "workloads": workloads}
        answer, _ = asked(self.reference, {"do": "problem", **files})
        self.kind: str = answer["kind"]
        self.workloads: list[dict[str, Any]] = answer["workloads"]
        self.solution = Other("tilelang.cli.judged:serve")
        asked(self.solution, {"do": "solution", **files})

    def workload(self, number: int) -> GradedWorkload:
        """Returns one workload."""
        return GradedWorkload(self, number, **self.workloads[number])

    def allows(self, name: str) -> bool:
        """Returns whether an operation of torch may run outside of kernels."""
        return self.allow_torch or is_move(name)


class GradedWorkload:
    """A solution that runs on one workload.

    Attributes:
        name, shapes: of the workload.
        outside: operations of torch outside of kernels, once it has run.
    """

    def __init__(self, grader: Grader, number: int, name: str, shapes: dict[str, int]) -> None:
        self.name, self.shapes = name, shapes
        self._grader, self._number, self._count = grader, number, 0
        self._seen = self._inputs(_SEEN)
        self._recording: Recording | None = None

    @property
    def outside(self) -> list[dict[str, Any]]:
        return list(self._recording.end.get("outside", ())) if self._recording else []

    def run(self, target: str) -> list[Comparison]:
        """Runs the launches of the solution with new inputs."""
        if self._recording is None:
            order = {"do": "grade", "workload": self._number, "target": target,
                     "allow torch": self._grader.allow_torch}  # fmt: skip
            self._recording = Recording(
                self._grader.solution, order, lambda _: self._seen, self._grader.allows
            )
        inputs = merged(self._inputs(self._recording.seed + self._count), self._seen)
        recorder = current_recorder()
        if recorder is not None:
            recorder.draw(inputs)
        self._count += 1
        results = self._recording.again(inputs)
        reference = OutsideReference(self._grader.reference, workload=self._number)
        return [Comparison(results, inputs, reference, exact_dtype=True)]

    def _inputs(self, seed: int) -> list[Any]:
        order = {"do": "inputs", "workload": self._number, "seed": seed}
        answer, arrays = asked(self._grader.reference, order)
        return list(unpacked(answer["values"], arrays))
