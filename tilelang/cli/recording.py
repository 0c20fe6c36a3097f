"""Notes what a program does once, and does it again outside of its process, with other inputs.

The program gets inputs that nobody judges. Its launches, and the operations of torch that it may
use, run in this process on copies of its memory. They run here again for each schedule and all
inputs that are judged, which the program never sees.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from ..checks.processes import Died, Other
from ..checks.replica import Modules, Replica, refused
from ..checks.wire import Message, packed
from ..emulator import options
from ..emulator.errors import error_of
from ..emulator.watch import watching
from ..errors import TileLangError, UserError
from . import files_read
from .verdict import Failed, current_recorder

Allowed = Callable[[str], bool]


class Recording:
    """What a program has done after one order.

    Attributes:
        wanted: what the program has said of the inputs that it wants.
        end: how it has ended.
    """

    def __init__(
        self, program: Other, order: dict[str, Any], offered: Callable[[Any], list[Any]],
        allowed: Allowed = lambda name: False,
    ) -> None:  # fmt: skip
        """Gives an order, and notes what the program does.

        Args:
            program: the process of the program.
            order: the order.
            offered: returns inputs, from what the program says of those that it wants.
            allowed: returns whether an operation of torch of this name may be done here.

        Raises:
            Failed: the process has ended, or tells what cannot be.
        """
        self.wanted: Any = None
        self.end: dict[str, Any] = {}
        self._allowed, self._modules = allowed, Modules()
        self._events: list[Message] = []
        self._replica = Replica(self._modules, [], allowed)
        answer: Message | None = (order, [])
        with watching(None), options(sanitize=False), alive():
            while not self.end:
                if answer is not None:
                    program.send(*answer)
                message = program.receive()
                fields, _ = message
                if fields.get("event") == "done":
                    self.end = fields
                    files_read.learn(fields.get("files", ()))
                elif fields.get("event") == "inputs wanted":
                    with _sense():
                        self.wanted = fields["inputs"]
                        answer = self._offer(offered(self.wanted))
                else:
                    answer = self._noted(message)

    def again(self, inputs: list[Any]) -> list[torch.Tensor]:
        """Does all again with other inputs, and returns the results.

        Raises:
            TileLangError: a launch, or the program, ends so.
            Failed: the program has failed.
        """
        replica = Replica(self._modules, _tensors(inputs), self._allowed)
        with _sense():
            for message in self._events:
                _again(replica, message)
            raise_end(self.end)
            return [replica.tensor(each).clone() for each in self.end["outputs"]]

    def _offer(self, inputs: list[Any]) -> Message:
        arrays: list[np.ndarray] = []
        answer = {"values": packed(inputs, arrays)}
        self._replica = Replica(self._modules, _tensors(inputs), self._allowed)
        return answer, arrays

    def _noted(self, message: Message) -> Message | None:
        """Does what an event says; returns the answer if the program waits for one."""
        self._events.append(message)
        if message[0].get("event") == "compiled":
            return None
        try:
            with _sense():
                return self._replica.apply(message)
        except TileLangError as error:
            if message[0].get("event") != "launch":
                raise
            return refused(error)


def _tensors(inputs: list[Any]) -> list[torch.Tensor]:
    return [each for each in tree_leaves(inputs) if isinstance(each, torch.Tensor)]


def _again(replica: Replica, message: Message) -> None:
    fields, _ = message
    recorder = current_recorder()
    if fields["event"] == "module":
        return  # it is loaded
    if fields["event"] != "compiled":
        replica.apply(message)
    elif recorder is not None:
        recorder.compiled(fields["names"], fields["remarks"])


def asked(process: Other, order: dict[str, Any], arrays: Any = ()) -> Message:
    """Gives an order that a process answers by one message.

    Raises:
        UserError: it refuses the order.
        Failed: it has ended.
    """
    with alive():
        process.send(order, arrays)
        answer, results = process.receive()
    raise_end(answer)
    files_read.learn(answer.get("files", ()))
    return answer, results


def raise_end(end: dict[str, Any]) -> None:
    """Raises what a program has raised, if it has not returned."""
    if "emulator" in end:
        raise error_of(end["emulator"])
    if "refused" in end:
        raise UserError(end["refused"])
    if "outcome" in end:
        raise Failed(end["outcome"], end["message"])


@contextlib.contextmanager
def alive() -> Iterator[None]:
    """Says that the program has failed if its process ends inside of the block."""
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
