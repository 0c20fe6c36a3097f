"""The time of a timed launch by source line and by warp."""

from __future__ import annotations

import dataclasses
import functools
import linecache
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..timed import Timing

_OPERATOR = re.compile(r"\b(T|tl)\.\w+(?=\()")
_SHOWN = 40


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of the source of a kernel; of the PTX text where the PTX names no source.

    Attributes:
        file, number: where it is; ``file`` is "" for the PTX text.
        text: of the line, without blanks around it; "" if the file cannot be read.
        cycles: that the timed warps spent at it, summed over them.
        reasons: the same by reason, largest first; reasons without cycles are left out.
        issues: instructions that the timed warps issued.
        conflicts: wavefronts of shared memory that bank conflicts add.
        wavefronts: all wavefronts of shared memory.
        sectors: 32-byte sectors of global memory.
        path: cycles of the critical path.
    """

    file: str
    number: int
    text: str
    cycles: int
    reasons: dict[str, int]
    issues: int
    conflicts: int
    wavefronts: int
    sectors: int
    path: int

    @property
    def place(self) -> str:
        """``file.py:12``, without folders; ``PTX:12``."""
        return place(self.file, self.number)

    @property
    def operator(self) -> str:
        """The first operator in the line, as ``T.gemm``; else the line."""
        return operator(self.text)

    @property
    def named(self) -> str:
        """The first operator in the line; "" if it has none: C++ is no part of a sentence."""
        found = _OPERATOR.search(self.text)
        return found[0] if found else ""


def place(file: str, number: int) -> str:
    """Returns a line as ``file.py:12``, without folders; ``PTX:12`` without a file."""
    return f"{file.rpartition('/')[2] or 'PTX'}:{number}"


def operator(text: str) -> str:
    """Returns the first operator in a source line, as ``T.gemm``; else the line, shortened."""
    found = _OPERATOR.search(text)
    return found[0] if found else text[:_SHOWN]


@functools.lru_cache(4096)
def source_text(file: str, number: int) -> str:
    """Returns a line of a file without blanks around it; "" if there is none."""
    return linecache.getline(file, number).strip() if file else ""


def place_of(timing: Timing, instruction: int) -> tuple[str, int]:
    """Returns file and line of an instruction, or ("", line of the PTX) without line numbers."""
    number = int(timing.inst_line[instruction])
    if number:
        return timing.inst_file[instruction], number
    return "", int(timing.inst_ptx_line[instruction])


def label(timing: Timing, instruction: int) -> str:
    """Returns the name of an instruction's slice: ``matmul.py:12 T.gemm``, or its PTX opcode."""
    if instruction < 0:
        return "idle"
    file, number = place_of(timing, instruction)
    what = operator(source_text(file, number))
    return f"{place(file, number)} {what or timing.inst_opcode[instruction]}"


def by_reason(cycles: Iterable[int], names: tuple[str, ...]) -> dict[str, int]:
    """Cycles by the name of their reason, largest first, without zeros."""
    pairs = [(name, int(count)) for name, count in zip(names, cycles, strict=True) if count]
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def source_lines(timing: Timing, reasons: tuple[str, ...]) -> list[Line]:
    """Returns the lines of a kernel that have instructions, in order of file and number."""
    groups: dict[tuple[str, int], list[int]] = {}
    for instruction in range(len(timing.inst_opcode)):
        groups.setdefault(place_of(timing, instruction), []).append(instruction)
    count = len(timing.inst_opcode) + 1  # the last one: no instruction
    path = np.zeros(count, np.int64)
    np.add.at(path, timing.path_inst, timing.path_end - timing.path_begin)
    stalls = np.zeros((count, len(reasons)), np.int64)
    np.add.at(stalls, (timing.stall_inst, timing.stall_reason), timing.stall_cycles)

    def total(values: np.ndarray, members: list[int]) -> int:
        return int(values[members].sum())

    return [
        Line(
            file, number, source_text(file, number),
            total(stalls, members), by_reason(stalls[members].sum(0), reasons),
            total(timing.inst_issues, members), total(timing.inst_conflicts, members),
            total(timing.inst_wavefronts, members), total(timing.inst_sectors, members),
            total(path, members),
        )
        for (file, number), members in sorted(groups.items())
        if timing.inst_issues[members].any()
    ]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class PathStep:
    """The part of the critical path in one place.

    Attributes:
        who: an engine, or ``"warps"``.
        reason: what is waited for; the engine where it is at work.
        place: file and line.
        label: of the place, as of slices.
        cycles: of the path.
    """

    who: str
    reason: str
    place: tuple[str, int]
    label: str
    cycles: int


#: Names of the work of engines, for warps that wait for it.
_WORK = {
    "tensor pipe": "tensor pipe", "TMA": "mbarrier: TMA", "HBM": "memory", "L2": "memory",
    "LSU": "memory", "shared memory": "memory", "tensor memory": "tensor memory",
}  # fmt: skip


def path_steps(timing: Timing, reasons: tuple[str, ...]) -> list[PathStep]:
    """Returns the critical path by engine, reason and place, the longest first."""
    cycles: dict[tuple[str, str, int], int] = {}
    for i in range(len(timing.path_inst)):
        track = int(timing.path_track[i])
        who, reason = "warps", reasons[timing.path_reason[i]]
        if timing.track_kind[track] == "engine":
            who = timing.track_name[track]
            reason = _WORK.get(who.rstrip(" 0123456789"), "pipe")
        key = who, reason, int(timing.path_inst[i])
        spent = int(timing.path_end[i] - timing.path_begin[i])
        cycles[key] = cycles.get(key, 0) + spent
    merged: dict[tuple[str, str, tuple[str, int], str], int] = {}
    for (who, reason, instruction), spent in cycles.items():
        at = place_of(timing, instruction) if instruction >= 0 else ("", 0)
        place_key = who, reason, at, label(timing, instruction)
        merged[place_key] = merged.get(place_key, 0) + spent
    steps = [PathStep(*key, spent) for key, spent in merged.items()]
    return sorted(steps, key=lambda step: -step.cycles)


@dataclasses.dataclass(frozen=True)
class Warps:
    """Neighbouring warps of a CTA that spend their time alike.

    Attributes:
        cta: linear index of the CTA.
        first, last: warps.
        cycles: of all of them.
        reasons: cycles by reason, largest first.
        tracks: theirs.
        idle: they issue next to nothing in the time of the launch.
    """

    cta: int
    first: int
    last: int
    cycles: int
    reasons: dict[str, int]
    tracks: tuple[int, ...]
    idle: bool

    @property
    def name(self) -> str:
        """Returns the warps as text: ``CTA 0, warps 0-3``."""
        span = f"s {self.first}-{self.last}" if self.last > self.first else f" {self.first}"
        return f"CTA {self.cta}, warp{span}"


#: Largest sum of differences of the shares of two warps that count as alike.
_ALIKE = 0.2
#: Warps that issue for less than this share of the launch are idle.
_IDLE = 0.005


def warp_groups(timing: Timing, reasons: tuple[str, ...]) -> list[Warps]:
    """Returns the timed warps, in groups of neighbours that are alike."""
    sums = np.zeros((len(timing.track_name), len(reasons)), np.int64)
    np.add.at(sums, (timing.stall_track, timing.stall_reason), timing.stall_cycles)
    shares = sums / np.maximum(sums.sum(1, keepdims=True), 1)
    issued = sums[:, reasons.index("issue")]
    groups: list[list[int]] = []
    for track, kind in enumerate(timing.track_kind):
        if kind != "warp":
            continue
        last = groups[-1][-1] if groups else None
        if last is not None and timing.track_cta[last] == timing.track_cta[track]:
            # Warps of a warpgroup stand together, others only where they are alike.
            same = timing.track_warp[track] // 4 == timing.track_warp[last] // 4
            if same and np.abs(shares[track] - shares[last]).sum() < _ALIKE:
                groups[-1].append(track)
                continue
        groups.append([track])
    return [
        Warps(
            int(timing.track_cta[tracks[0]]), int(timing.track_warp[tracks[0]]),
            int(timing.track_warp[tracks[-1]]), int(sums[tracks].sum()),
            by_reason(sums[tracks].sum(0), reasons), tuple(tracks),
            bool(issued[tracks].max() < _IDLE * timing.span_cycles and sums[tracks].any()),
        )
        for tracks in groups
    ]  # fmt: skip
