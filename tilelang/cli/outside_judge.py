"""Judges a kernel of a file outside of the process of its program.

The program compiles and calls the kernel once, with inputs that nobody judges. What it launches is
noted, and runs here again for each schedule and each kind of inputs, with inputs that the program
has never seen. The reference runs in a third process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..checks.processes import Died, Other
from ..checks.replica import Modules, Replica, refused
from ..checks.wire import Message, packed, unpacked
from ..emulator import options
from ..emulator.errors import error_of
from ..emulator.watch import watching
from ..errors import TileLangError, UserError
from ..profiler.exact import Expected
from ..profiler.judge import Comparison
from ..profiler.supply import supplied
from . import files_read, trials
from .programs import Program, Request, Trial, seeded
from .verdict import Failed, current_recorder

#: A number that makes inputs for the program differ from those that are judged.
_OTHER = 104729


@dataclasses.dataclass
class _Tape:
    """What a program has done with a kernel.

    Attributes:
        inputs: dtypes and shapes of its inputs, and values of its scalars.
        events: what it has told, in order.
        end: how it ended.
    """

    inputs: list[Any] = dataclasses.field(default_factory=list)
    events: list[Message] = dataclasses.field(default_factory=list)
    end: dict[str, Any] = dataclasses.field(default_factory=dict)


class OutsideReference:
    """A reference that runs in a process of its own."""

    def __init__(self, process: Other, name: str, parameters: int | None) -> None:
        self._process, self.name, self.parameters = process, name, parameters

    def expect(self, inputs: Sequence[Any], step: Callable[[torch.dtype], float]) -> list[Expected]:
        """Returns what is expected of each output, as :func:`tilelang.profiler.exact.expect`."""
        arrays: list[np.ndarray] = []
        kinds = {each.dtype for each in inputs if isinstance(each, torch.Tensor)}
        steps = {str(kind).removeprefix("torch."): step(kind) for kind in kinds
                 if kind.is_floating_point}  # fmt: skip
        order = {"do": "expected", "inputs": packed(list(inputs), arrays), "steps": steps}
        answer, results = _asked(self._process, order, arrays)
        rows = [unpacked(each, results) for each in answer["outputs"]]
        return [Expected(value, exact, tuple(moved)) for value, exact, *moved in rows]


def _asked(process: Other, order: dict[str, Any], arrays: Any = ()) -> Message:
    with _alive():
        process.send(order, arrays)
        answer, results = process.receive()
    _raise(answer)
    files_read.learn(answer.get("files", ()))
    return answer, results


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
        self._tapes: dict[tuple[str, tuple[tuple[str, int], ...]], tuple[_Tape, Modules]] = {}
        self._fixed: list[str] | None = None
        self._failed: Failed | None = None
        self.reference: OutsideReference | None = None
        file = {"path": str(request.path), "name": request.name, "argv": list(request.argv)}
        try:
            answer, _ = _asked(self._program, {"do": "load", "seed": request.seed, **file})
            self._fixed = answer["fixed"]
            order = {"do": "find", "reference": request.reference, **file}
            answer, _ = _asked(self._other, order)
            if answer["name"]:
                name, parameters = answer["name"], answer["parameters"]
                self.reference = OutsideReference(self._other, name, parameters)
        except Failed as error:
            self._failed = error

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
        tape, modules = self._tape(target, self._request.shapes if shapes is None else shapes)
        if "not tried" in tape.end and shapes is not None:
            raise trials.NotTried(tape.end["not tried"])
        inputs = trials.changed(self._inputs(tape), kind, self._request.seed)
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        replica = Replica(modules, tensors, lambda name: False)
        with _sense():
            for message in tape.events:
                _applied(replica, message)
            _raise(tape.end)
            if self.reference is None:
                return []
            results = [replica.tensor(each).clone() for each in tape.end["outputs"]]
            given = inputs[: tape.end["count"]]
        return [Comparison(results, given, self.reference, special=kind in trials.SPECIAL)]

    def _inputs(self, tape: _Tape) -> list[Any]:
        seeded(self._request.seed)
        return [supplied(each) for each in tape.inputs]

    def _tape(self, target: str, shapes: Mapping[str, int]) -> tuple[_Tape, Modules]:
        key = target, tuple(shapes.items())
        if key not in self._tapes:
            self._tapes[key] = self._recorded(target, shapes)
        return self._tapes[key]

    def _recorded(self, target: str, shapes: Mapping[str, int]) -> tuple[_Tape, Modules]:
        """Lets the program call the kernel, and notes what it does."""
        tape, modules = _Tape(), Modules()
        replica = Replica(modules, [], lambda name: False)
        order = {
            "do": "call", "target": target, "shapes": dict(shapes),
            "may be refused": shapes != self._request.shapes,
            "parameters": self.reference.parameters if self.reference else None,
        }  # fmt: skip
        answer: Message | None = (order, [])
        with watching(None), options(sanitize=False), _alive():
            while not tape.end:
                if answer is not None:
                    self._program.send(*answer)
                message = self._program.receive()
                fields, _ = message
                if fields.get("event") == "done":
                    tape.end = fields
                    files_read.learn(fields.get("files", ()))
                elif fields.get("event") == "inputs wanted":
                    tape.inputs = fields["inputs"]
                    with _sense():
                        replica, answer = self._offer(tape, modules)
                else:
                    answer = _noted(tape, replica, message)
        return tape, modules

    def _offer(self, tape: _Tape, modules: Modules) -> tuple[Replica, Message]:
        """Makes inputs for the program; integers and scalars are those that are judged."""
        inputs = self._inputs(tape)
        inputs = [
            supplied(spec) if isinstance(each, torch.Tensor) and each.is_floating_point() else each
            for spec, each in zip(tape.inputs, inputs, strict=True)
        ]
        arrays: list[np.ndarray] = []
        answer = {"values": packed(inputs, arrays)}
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        return Replica(modules, tensors, lambda name: False), (answer, arrays)


def _noted(tape: _Tape, replica: Replica, message: Message) -> Message | None:
    """Notes an event, and does what it says; returns the answer if the program waits for one."""
    tape.events.append(message)
    if message[0].get("event") == "compiled":
        return None
    try:
        with _sense():
            return replica.apply(message)
    except TileLangError as error:
        if message[0].get("event") != "launch":
            raise
        return refused(error)


def _applied(replica: Replica, message: Message) -> None:
    """Does again what an event says; errors of launches are raised."""
    fields, _ = message
    recorder = current_recorder()
    if fields["event"] == "module":
        return  # it is loaded
    if fields["event"] != "compiled":
        replica.apply(message)
    elif recorder is not None:
        recorder.compiled(fields["names"], fields["remarks"])


def _raise(end: dict[str, Any]) -> None:
    """Raises what the program has raised, if it has not returned."""
    if "emulator" in end:
        raise error_of(end["emulator"])
    if "refused" in end:
        raise UserError(end["refused"])
    if "outcome" in end:
        raise Failed(end["outcome"], end["message"])


@contextlib.contextmanager
def _alive() -> Iterator[None]:
    try:
        yield
    except Died as error:
        raise Failed("failed", f"{error}, before its results were compared") from None


@contextlib.contextmanager
def _sense() -> Iterator[None]:
    """Blames the program for events that cannot be."""
    try:
        yield
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError,
            RuntimeError, MemoryError) as error:  # fmt: skip
        message = f"the process of the program tells nonsense: {type(error).__name__}: {error}"
        raise Failed("failed", message) from error
