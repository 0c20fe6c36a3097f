"""``order=``, ``stage=``, ``group=`` of ``T.Pipelined``: checked, and marked in a loop's body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import plain
from ..ir.dtype import VOID
from ..ir.expr import call
from ..ir.stmt import Stmt
from .builder import declares

_evaluate = _ffi.get("ir.Evaluate")
_seq = _ffi.get("ir.Seq")

#: The place, or the stage, of loads that run ahead as far as slots allow.
AHEAD = -1


class PipelineOrder:
    """The parts of a loop's body, with the place and the pipeline stage of each.

    Attributes:
        order: the place of each part; ``AHEAD`` for loads.
        stage: its stage: in one round of the loop a part of stage s is that of s iterations before.
        group: the statements of each part; None for one each.
    """

    def __init__(self, order: Any, stage: Any, group: Any) -> None:
        self.span = span.here()
        self.order = self._integers("order", order)
        self.stage = self._integers("stage", stage)
        self.group = None if group is None else [self._integers("group", part) for part in group]
        self._check()

    @property
    def slots(self) -> int:
        """How many slots the stages ask for: one more than iterations are between them.

        0, as of a loop without stages, if all parts are of one stage.
        """
        listed = [stage for stage in self.stage if stage != AHEAD]
        apart = max(listed, default=0) - min(listed, default=0)
        return apart + 1 if apart else 0

    def _refuse(self, message: str, *notes: str) -> None:
        raise errors.SemanticsError(f"T.Pipelined: {message}", span=self.span, notes=list(notes))

    @staticmethod
    def _numbers(count: int) -> str:
        return f"{count} number{'s' * (count != 1)}"

    def _integers(self, name: str, values: Any) -> list[int]:
        if values is None:
            return []
        if not isinstance(values, (list, tuple)):
            self._refuse(f"{name} is `{values}`; it must be a list of integers")
        numbers = [plain(value) for value in values]
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or number < AHEAD:
                self._refuse(f"{name} holds `{number}`; it must hold integers of at least {AHEAD}")
        return numbers

    def _check(self) -> None:
        """What is wrong whatever the body is."""
        given = {"order": self.order, "stage": self.stage}
        parts = max(len(values) for values in given.values())
        if self.group is not None:
            for name, values in given.items():
                if values and len(values) != len(self.group):
                    self._refuse(
                        f"{name}= has {self._numbers(len(values))}, but group= has "
                        f"{len(self.group)} groups",
                        f"give one number of {name}= for each group",
                    )
        for values in given.values():
            if values and len(values) != parts:
                self._refuse(
                    f"order= has {self._numbers(len(self.order))}, but stage= has "
                    f"{self._numbers(len(self.stage))}",
                    "both need one number for each statement of the body, or for each group",
                )
        if self.order and self.stage:
            for number, (place, stage) in enumerate(zip(self.order, self.stage, strict=True)):
                if (place == AHEAD) != (stage == AHEAD):
                    self._refuse(
                        f"order[{number}] is {place}, but stage[{number}] is {stage}",
                        f"both are {AHEAD} for loads that run ahead, or none is",
                    )
        places = [place for place in self.order if place != AHEAD]
        for place in places:
            if places.count(place) > 1:
                self._refuse(f"order holds {place} twice", "each part has a place of its own")

    def _parts(self, count: int) -> list[list[int]]:
        """The statements of each part, of a body of ``count`` statements."""
        if self.group is None:
            given = max(len(self.order), len(self.stage))
            if given != count:
                name = "order" if self.order else "stage"
                self._refuse(
                    f"{name}= has {self._numbers(given)}, but the body has {count} statements",
                    "give one number for each statement of the body, or join statements by group=",
                )
            return [[i] for i in range(count)]
        listed = sorted(i for part in self.group for i in part)
        if listed != list(range(count)):
            self._refuse(
                f"group lists the statements {listed}; the body has {count}, counted from 0",
                "each statement belongs to one group",
            )
        for part in self.group:
            if not part or part != list(range(part[0], part[0] + len(part))):
                self._refuse(f"group {part} is not of statements that follow each other")
        return self.group

    def mark(self, body: Stmt) -> Stmt:
        """Returns the body with a mark before each part."""
        stmts = list(_flat(body))
        counted = [i for i, stmt in enumerate(stmts) if not declares(stmt)]
        parts = enumerate(self._parts(len(counted)))
        first = {counted[part[0]]: number for number, part in parts}
        marked: list[Stmt] = []
        for i, stmt in enumerate(stmts):
            if i in first:
                mark = call(VOID, "pipeline_part", [first[i]])
                marked.append(_evaluate(mark, stmt.span))
            marked.append(stmt)
        return _seq(marked, body.span)


def _flat(body: Stmt) -> Iterator[Stmt]:
    """The statements of a body; macros make sequences in it."""
    if hasattr(body, "stmts"):
        for stmt in body.stmts:
            yield from _flat(stmt)
    else:
        yield body


def order_of(order: Any, stage: Any, group: Any) -> PipelineOrder | None:
    """Returns the order that the arguments ask for; None if they ask for none.

    Raises:
        SemanticsError: the arguments contradict each other.
    """
    if order is None and stage is None:
        return None
    return PipelineOrder(order, stage, group)
