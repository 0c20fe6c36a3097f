"""The schedule of a kernel as data: what the compiler decided where it divided it into roles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError
from ..transform import Remark

#: Topics of remarks that say what of a schedule was declined, or asked for without effect, and how
#: the blocks of a grid come to one result.
_TOPICS = ("argument", "copy", "epilogue", "gemm", "grid", "pipeline", "registers")


@dataclass(frozen=True)
class Step:
    """One thing that a role does, in its place.

    Attributes:
        action: "loop", "if", "wait", "arrive", "sync", "load", "store", "copy", "gemm", "reduce",
            "elementwise", "commit" or "call".
        subject: ``a, b -> c`` of an operator; the barrier; the loop's variable; the condition.
        iteration: "" for that of the loop around; else "i+1", "i-1", "first" or "last".
        engine: "threads", "TMA", "cp.async", "tcgen05.mma", "wgmma", "mma.sync".
        barrier: on which it completes, or which it waits for or arrives on; else "".
        index: of several barriers, which; of a wait for wgmma or cp.async, how many groups stay in
            flight; of
            a branch of one of several groups of threads, its number; -1 for all, or the own one.
        work: of one execution: "global", "shared" and "tmem" bytes; "flops" of a gemm and the
            "bits" of its operands; "mufu" and "fp32" operations.
        stages: of a loop, its ``num_stages``; 0 if it is not pipelined.
        trips: of a loop, its iterations; -1 if they are not constant.
        body: the steps of a loop or branch.
        line: of the kernel's file; 0 if unknown.
    """

    action: str
    subject: str
    iteration: str = ""
    engine: str = "threads"
    barrier: str = ""
    index: int = -1
    work: dict[str, int] = field(default_factory=dict)
    stages: int = 0
    trips: int = -1
    body: tuple[Step, ...] = ()
    line: int = 0

    @property
    def loop(self) -> tuple[str, int]:
        """Returns the key of a loop: its variable and line, equal in all roles."""
        return self.subject, self.line

    def walk(self) -> Iterator[Step]:
        """Yields the step and all below it."""
        yield self
        for step in self.body:
            yield from step.walk()


@dataclass(frozen=True)
class Role:
    """Threads with a program of their own.

    Attributes:
        name: "load", "mma" or "threads" (the threads of the program).
        first, threads: the first thread of the block, and how many there are.
        registers: that ``setmaxnreg`` gives to each; 0 if it stays as launched.
        steps: its program.
    """

    name: str
    first: int
    threads: int
    registers: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Channel:
    """The way of tiles, or of turns with the tensor core, from one role to another.

    Attributes:
        name: that of its first tile, or "turns".
        tiles: what a slot holds; nothing for turns.
        memory: "shared" or "tensor memory"; "" for turns.
        slots: of turns the number of blocks of rows that take turns of their own.
        slot_bytes: of all tiles together.
        full, empty: the mbarriers, one a slot.
        producer, consumer: names of roles.
        release: what gives a slot back: "tcgen05.commit", or the threads that arrive.
    """

    name: str
    tiles: tuple[str, ...]
    memory: str
    slots: int
    slot_bytes: int
    full: str
    empty: str
    producer: str
    consumer: str
    release: str


@dataclass(frozen=True)
class Epilogue:
    """The work of threads on the result of a GEMM, in slices of columns.

    Attributes:
        tile: the result.
        slices, columns: how many there are, and the columns of each.
        parts: 2 where a slice has so many columns of both halves of the tile.
        slots, bytes: of tiles in shared memory that results go through: so many slices of them
            exist, which take so many bytes in all; 0 without such tiles.
        before: tensors that are loaded before the threads wait for the gemm.
        ahead: tensors of which each slice is loaded before the slice that precedes it is done.
        line: of the first statement; 0 if unknown.
    """

    tile: str
    slices: int
    columns: int
    slots: int
    bytes: int
    before: tuple[str, ...]
    ahead: tuple[str, ...]
    line: int
    parts: int = 1


@dataclass(frozen=True)
class TileCandidate:
    """Tiles of a GEMM that the compiler considered.

    Attributes:
        rows, columns: elements of the result that a block computes.
        parts: blocks of a cluster that share the iterations of the loop over K.
        pairs: whether two blocks multiply with halves of B.
        transposed: whether the product is computed as its transpose, for few rows.
        microseconds: the time of the launch, by the model that chooses; ``kernel.profile()`` has a
            more exact one.
        outcome: "chosen"; "excluded: " and what prevents these tiles; or "" for tiles that take no
            less time than the chosen ones.
    """

    rows: int
    columns: int
    parts: int
    pairs: bool
    transposed: bool
    microseconds: float
    outcome: str


@dataclass(frozen=True)
class Launch:
    """One ``T.Kernel``: its roles, the channels between them, and its epilogues in slices.

    ``tiles`` are the candidates for the tiles of its GEMM, the least time first; none where the
    compiler computes the program's tiles without a choice.
    """

    roles: tuple[Role, ...]
    channels: tuple[Channel, ...]
    epilogues: tuple[Epilogue, ...] = ()
    tiles: tuple[TileCandidate, ...] = ()

    def loops(self) -> list[Step]:
        """Returns the pipelined loops and the loops around them, outermost first, each once.

        Of a launch without any: all loops.
        """
        found: dict[tuple[str, int], Step] = {}
        for role in self.roles:
            for step in role.steps:
                for inner in step.walk():
                    if inner.action == "loop":
                        found.setdefault(inner.loop, inner)
        pipelined = [
            loop for loop in found.values() if any(inner.stages > 0 for inner in loop.walk())
        ]
        return pipelined or list(found.values())


@dataclass(frozen=True)
class Schedule:
    """The schedule of a kernel: prints as a table, and notebooks show a picture.

    Attributes:
        name, arch: of the kernel.
        launches: one for each ``T.Kernel`` of the function.
        remarks: what was declined, or asked for without effect, and why.
    """

    name: str
    arch: str
    launches: tuple[Launch, ...]
    remarks: tuple[Remark, ...]

    def __str__(self) -> str:
        from .table import table

        return table(self)

    def svg(self) -> str:
        """Returns a picture as the text of an SVG file: time from left to right, a lane a role.

        Lengths come from :mod:`tilelang.schedule.cost`; the first iterations are shown.

        Raises:
            TargetError: there is no timing model of the target.
        """
        from .picture import svg

        return svg(self)

    def plot(self) -> Any:
        """Returns the picture as a figure of matplotlib.

        Raises:
            TargetError: there is no timing model of the target.
            ConfigError: matplotlib is not installed; ``svg`` does without.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ConfigError(
                "a figure of the schedule needs matplotlib, which is not installed",
                notes=["pip install matplotlib, or write schedule.svg() to a file"],
            ) from None
        from .picture import draw

        return draw(self, Figure)

    def _repr_html_(self) -> str:
        from html import escape

        from .cost import RATES

        text = f"<pre>{escape(str(self))}</pre>"
        return f"{self.svg()}{text}" if self.arch in RATES else text


def from_core(name: str, arch: str, launches: Sequence[Any], remarks: Sequence[Remark]) -> Schedule:
    """Returns the schedule that the compiler core describes (``tl.schedule.LaunchSchedule``)."""
    return Schedule(
        name,
        arch,
        tuple(_launch(launch) for launch in launches),
        tuple(remark for remark in remarks if remark.topic in _TOPICS and _declines(remark)),
    )


def _declines(remark: Remark) -> bool:
    """Not the remarks that say what a copy is done by."""
    return not remark.message.endswith("is done by TMA")


def _launch(core: Any) -> Launch:
    return Launch(
        tuple(
            Role(str(r.name), r.first, r.threads, r.registers, tuple(map(_step, r.steps)))
            for r in core.roles
        ),
        tuple(_channel(channel) for channel in core.channels),
        tuple(_epilogue(epilogue) for epilogue in core.epilogues),
        tuple(_tiles(candidate) for candidate in core.tiles),
    )


def _tiles(core: Any) -> TileCandidate:
    numbers = (core.rows, core.columns, core.parts, core.pairs, core.transposed)
    return TileCandidate(*numbers, core.microseconds, str(core.outcome))


def _epilogue(core: Any) -> Epilogue:
    before, ahead = (tuple(map(str, names)) for names in (core.before, core.ahead))
    counts = (core.slices, core.columns, core.slots, core.bytes)
    line = core.span.line if core.span else 0
    return Epilogue(str(core.tile), *counts, before, ahead, line, core.parts)


def _channel(core: Any) -> Channel:
    tiles = tuple(str(tile) for tile in core.tiles)
    texts = (str(getattr(core, n)) for n in ("full", "empty", "producer", "consumer", "release"))
    return Channel(str(core.name), tiles, str(core.memory), core.slots, core.slot_bytes, *texts)


def _step(core: Any) -> Step:
    return Step(
        action=str(core.action),
        subject=str(core.subject),
        iteration=str(core.iteration),
        engine=str(core.engine),
        barrier=str(core.barrier),
        index=core.index,
        work={str(kind): int(amount) for kind, amount in core.work.items()},
        stages=core.stages,
        trips=core.trips,
        body=tuple(map(_step, core.body)),
        line=core.span.line if core.span else 0,
    )
