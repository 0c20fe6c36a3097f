"""When the steps of a schedule happen, by the cost model: what its picture shows.

Every role goes through its steps in order. A wait ends when the phase that it is for is complete;
an engine that works beside the threads takes its steps in the order in which they are asked for.
Where warpgroups take turns of their own, each is a lane, with its part of the work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from . import cost
from .description import Channel, Launch, Role, Step

#: Iterations of each loop that are shown.
SHOWN = 4
#: Cycles that asking an engine, or an arrival, takes a thread: a round number.
ISSUE = 30


class Box(NamedTuple):
    """A step in a lane: from when to when, in cycles, and the number of its iteration."""

    lane: str
    step: Step
    start: float
    end: float
    iteration: int


class _Lane:
    """A role, or one warpgroup of it, on its way through its program."""

    def __init__(self, name: str, role: Role, number: int, lanes: int) -> None:
        self.name = name
        self.role = role.name
        self.number = number
        self.share = 1 / lanes
        self.time = 0.0
        self.waits: dict[tuple[str, int], int] = defaultdict(int)
        self.loads: dict[str, float] = {}
        self.gemms: list[float] = []
        self.copies = 0.0
        self.groups: list[float] = []  # of copies by cp.async
        self.program = _unrolled(role.steps, number, lanes, 0)
        self.next: tuple[Step, int] | None = next(self.program, None)


def _unrolled(
    steps: tuple[Step, ...], number: int, lanes: int, iteration: int, last: bool = False
) -> Iterator[tuple[Step, int]]:
    """Steps without loops and branches, each with the number of its iteration."""
    for step in steps:
        if step.action == "loop":
            ahead = any(s.iteration.endswith("-1") for s in step.body)
            count = SHOWN if step.trips < 0 else min(step.trips + ahead, SHOWN)
            for i in range(count - ahead):
                yield from _unrolled(step.body, number, lanes, i + ahead, i + 1 == count)
        elif step.action == "if":
            other = lanes > 1 and step.index >= 0 and step.index != number
            beyond = last and any(s.iteration.endswith("+1") for s in step.body)
            if not other and not beyond:
                yield from _unrolled(step.body, number, lanes, iteration, last)
        else:
            shift = {"+1": 1, "-1": -1}.get(step.iteration[-2:], 0)
            if step.iteration == "last":
                shift = SHOWN - 1
            yield step, iteration + shift


class Timeline:
    """The boxes of a launch, in the order of their start within each lane."""

    def __init__(self, launch: Launch, rates: cost.Rates) -> None:
        self.boxes: list[Box] = []
        self._rates = rates
        self._channels = {c.full: c for c in launch.channels} | {
            c.empty: c for c in launch.channels
        }
        self._free: dict[str, float] = defaultdict(float)  # engines
        # when phases of a barrier are complete, by barrier and lane that arrives
        self._done: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(dict)
        turns = next((c.slots for c in launch.channels if not c.tiles), 1)
        self._lanes = [lane for role in launch.roles for lane in _lanes(role, turns)]
        self._arriving = sum(lane.share < 1 for lane in self._lanes) or 1
        while self._advance():
            pass

    @property
    def lanes(self) -> list[str]:
        """Names, by role; what engines do beside its threads has lanes of its own."""
        used = {box.lane: None for box in self.boxes}
        roles = {lane.role: None for lane in self._lanes}
        return [lane for role in roles for lane in sorted(used) if lane.startswith(role)]

    @property
    def end(self) -> float:
        """The end of the last box, in cycles."""
        return max((box.end for box in self.boxes), default=0.0)

    def _advance(self) -> bool:
        """The next step of the first lane that need not wait; False when there is none."""
        for lane in sorted(self._lanes, key=lambda lane: lane.time):
            if lane.next is not None and self._run(lane, *lane.next):
                lane.next = next(lane.program, None)
                return True
        return False

    def _run(self, lane: _Lane, step: Step, iteration: int) -> bool:
        """Executes a step; False if it has to wait for what has not happened."""
        if step.action == "wait":
            return self._wait(lane, step)
        if step.action == "arrive":
            self._arrive(lane, step)
        elif step.action == "commit":
            lane.groups.append(lane.copies)
        elif step.engine in ("tcgen05.mma", "wgmma", "TMA", "cp.async"):
            self._ask(lane, step, iteration)
        else:
            engine, cycles = cost.busiest(step, self._rates)
            start = max(lane.time, self._free[engine] if engine else 0.0)
            lane.time = start + cycles * lane.share
            if engine:
                self._free[engine] = lane.time
                self.boxes.append(Box(lane.name, step, start, lane.time, iteration))
        return True

    def _ask(self, lane: _Lane, step: Step, iteration: int) -> None:
        """The step runs beside the lane, after what its engine was asked for before."""
        engine, cycles = cost.busiest(step, self._rates)
        start = max(lane.time, self._free[engine])
        end = self._free[engine] = start + cycles * lane.share
        unit = "tensor core" if step.action == "gemm" else step.engine
        self.boxes.append(Box(f"{lane.role}: {unit}", step, start, end, iteration))
        lane.time += ISSUE
        if step.action == "load":
            landed = end + self._rates.latency
            if step.barrier:
                lane.loads[step.barrier] = landed
            elif step.engine == "cp.async":
                lane.copies = max(lane.copies, landed)
            else:
                lane.time = landed
        elif step.action == "gemm":
            lane.gemms.append(end)
            if step.barrier:
                self._complete(step, lane, end)

    def _arrive(self, lane: _Lane, step: Step) -> None:
        if step.engine == "tcgen05.mma":
            return self._complete(step, lane, max(lane.time, max(lane.gemms, default=0.0)))
        self._complete(step, lane, max(lane.time, lane.loads.pop(step.barrier, 0.0)))
        return None

    def _complete(self, step: Step, lane: _Lane, time: float) -> None:
        index = step.index if step.index >= 0 else self._index(step.barrier, lane)
        self._done[step.barrier, index].setdefault(lane.name, []).append(time)

    def _index(self, barrier: str, lane: _Lane) -> int:
        """Returns the lane's own barrier among several barriers of turns; uses count slots."""
        channel = self._channels.get(barrier)
        return lane.number if channel is not None and not channel.tiles else 0

    def _wait(self, lane: _Lane, step: Step) -> bool:
        if not step.barrier:
            issued = lane.groups if step.subject == "cp.async" else lane.gemms
            done = issued[: len(issued) - max(step.index, 0)]
            lane.time = max(lane.time, *done) if done else lane.time
            return True
        channel = self._channels.get(step.barrier)
        if channel is None:
            return True
        key = step.barrier, step.index if step.index >= 0 else self._index(step.barrier, lane)
        phase = lane.waits[key] - self._initially_complete(channel, step.barrier)
        if phase >= 0:
            times = self._done[key]
            lanes = self._arriving if channel.tiles and len(times) > 1 else len(times)
            complete = [done[phase] for done in times.values() if len(done) > phase]
            if not complete or len(complete) < lanes:
                return False
            lane.time = max(lane.time, *complete)
        lane.waits[key] += 1
        return True

    @staticmethod
    def _initially_complete(channel: Channel, barrier: str) -> int:
        """All slots are empty at first; a turn has to be taken first."""
        return channel.slots if channel.tiles and barrier == channel.empty else 0


def _lanes(role: Role, turns: int) -> list[_Lane]:
    if role.name != "threads" or turns == 1:
        return [_Lane(role.name, role, 0, 1)]
    return [_Lane(f"{role.name} {n}", role, n, turns) for n in range(turns)]
