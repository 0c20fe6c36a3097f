"""Does outside of a program's process what the program does: at once, or again with other inputs.

The launches of the program run in this process on copies of its memory. Launches of a script are
judged when it makes them. A kernel by its name gets inputs that nobody judges. Its launches and the
operations of torch that its program may use, are noted. They run here again for each schedule and
all inputs that are judged, which the program never sees.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

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
        seed: seed of the inputs that are judged. It depends on all values that the program has
            handed to its kernels, so that none of them can be computed from these inputs.
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
        digest = hashlib.sha256()
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
                    with _sense():
                        _hash(digest, message)
                    answer = self._noted(message)
        self.seed = int.from_bytes(digest.digest()[:4], "little") >> 1

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
        return _answered(self._replica, message)


def followed(program: Other, order: dict[str, Any]) -> None:
    """Gives an order, and does what the program does when it does it.

    Raises:
        TileLangError: the program ends so.
        Failed: the program has failed.
    """
    replica = Replica(Modules(), [], lambda name: False)
    answer: Message | None = (order, [])
    with alive():
        while True:
            if answer is not None:
                program.send(*answer)
            message = program.receive()
            fields, _ = message
            if fields.get("event") == "done":
                break
            answer = None if _told(message) else _answered(replica, message)
    files_read.learn(fields.get("files", ()))
    raise_end(fields)


def _answered(replica: Replica, message: Message) -> Message | None:
    """Does what an event says; returns the answer if the program waits for one."""
    try:
        with _sense():
            return replica.apply(message)
    except TileLangError as error:
        if message[0].get("event") != "launch":
            raise
        return refused(error)


def _told(message: Message) -> bool:
    """Tells the recorder of a compiled kernel, or of elements; returns whether it is for it."""
    fields, recorder = message[0], current_recorder()
    event = fields.get("event")
    if event not in ("compiled", "followed"):
        return False
    with _sense():
        if recorder is not None and event == "compiled":
            recorder.compiled(fields["names"], fields["remarks"])
        elif recorder is not None:
            recorder.followed([str(each) for each in fields["remarks"]])
    return True


def _hash(digest: hashlib._Hash, message: Message) -> None:
    """Adds the values that a program hands over; addresses differ from run to run."""
    fields, arrays = message
    for each in arrays:
        digest.update(each.tobytes())
    digest.update(str(fields.get("text", "")).encode())
    if fields.get("event") != "launch":
        return
    digest.update(repr([fields[each] for each in ("kernel", "grid", "block", "smem")]).encode())
    params = bytes.fromhex(fields["params"])
    words = np.frombuffer(params + bytes(-len(params) % 8), np.uint64).copy()
    for each in fields["storages"]:
        begin = int(each["address"])
        words[(words >= begin) & (words <= begin + int(each["size"]))] = 0
    digest.update(words.tobytes())


def _tensors(inputs: list[Any]) -> list[torch.Tensor]:
    return [each for each in tree_leaves(inputs) if isinstance(each, torch.Tensor)]


def merged(new: list[Any], seen: list[Any]) -> list[Any]:
    """Returns new inputs with the integers and scalars of those that the program has seen.

    Such values may decide what a program launches. Floats of another shape are those seen, too.
    """
    leaves, tree = tree_flatten(new)
    old, _ = tree_flatten(seen)
    found = [
        each if isinstance(each, torch.Tensor) and each.is_floating_point()
        and each.shape == before.shape else before
        for each, before in zip(leaves, old, strict=True)
    ]  # fmt: skip
    return list(tree_unflatten(found, tree))


def _again(replica: Replica, message: Message) -> None:
    if message[0]["event"] != "module" and not _told(message):  # modules are loaded already
        replica.apply(message)


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
        message = (
            f"the process of the program sent an invalid answer: {type(error).__name__}: {error}"
        )
        raise Failed("failed", message) from error
