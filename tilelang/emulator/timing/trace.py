"""The timeline as a trace that https://ui.perfetto.dev and chrome://tracing open.

The format is Google's "Trace Event Format": complete events ("X") on threads of processes, flow
events ("s", "f") between them, names of threads and processes as metadata ("M"). A process is a CTA
or the engines of an SM, a thread a warp or an engine. Events of one thread must nest, but engines
work on several things at a time: such an engine gets further threads of the same name.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np

from .lines import label

if TYPE_CHECKING:
    from ..timed import Timing
    from .report import Report

#: Processes of engines have numbers from here on; processes of CTAs have numbers from 1 on.
_ENGINES = 1_000_000


class _Tracks:
    """The process and thread of each slice."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.lane = np.zeros(len(timing.slice_track), np.int32)
        self.lanes = np.ones(len(timing.track_name), np.int32)
        engines = [i for i, kind in enumerate(timing.track_kind) if kind == "engine"]
        for track in engines:
            self._spread(track)
        self._first = np.concatenate([[0], np.cumsum(self.lanes)])

    def _spread(self, track: int) -> None:
        """Gives slices that overlap lanes of their own, the lowest that is free."""
        timing = self._timing
        slices = np.flatnonzero(timing.slice_track == track)
        slices = slices[np.lexsort((timing.slice_end[slices], timing.slice_begin[slices]))]
        free: list[int] = []
        busy: list[tuple[int, int]] = []
        for i in slices:
            while busy and busy[0][0] <= timing.slice_begin[i]:
                heapq.heappush(free, heapq.heappop(busy)[1])
            lane = heapq.heappop(free) if free else len(busy)
            self.lane[i] = lane
            heapq.heappush(busy, (int(timing.slice_end[i]), lane))
            self.lanes[track] = max(self.lanes[track], lane + 1)

    def process(self, track: int) -> int:
        cta = int(self._timing.track_cta[track])
        return cta + 1 if cta >= 0 else _ENGINES + int(self._timing.track_sm[track])

    def thread(self, track: int, lane: int) -> int:
        return int(self._first[track]) + lane + 1

    def of_slice(self, index: int) -> dict[str, int]:
        track = int(self._timing.slice_track[index])
        lane = int(self.lane[index])
        return {"pid": self.process(track), "tid": self.thread(track, lane)}


def _metadata(timing: Timing, tracks: _Tracks) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []

    def name(what: str, text: str, pid: int, tid: int = 0) -> None:
        events.append({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": text}})

    processes: dict[int, str] = {}
    for track, text in enumerate(timing.track_name):
        pid = tracks.process(track)
        cta = int(timing.track_cta[track])
        sm = int(timing.track_sm[track])
        processes[pid] = f"CTA {cta} on SM {sm}" if cta >= 0 else f"engines of SM {sm}"
        for lane in range(int(tracks.lanes[track])):
            name("thread_name", text, pid, tracks.thread(track, lane))
    for pid, text in processes.items():
        name("process_name", text, pid)
    return events


def _slices(report: Report, tracks: _Tracks, scale: float) -> list[dict[str, Any]]:
    timing, reasons = report.timing, report.reasons
    labels = {int(i): label(timing, int(i)) for i in np.unique(timing.slice_inst)}
    events = []
    for i in range(len(timing.slice_track)):
        instruction, begin = int(timing.slice_inst[i]), int(timing.slice_begin[i])
        cycles = int(timing.slice_end[i]) - begin
        reason = reasons[timing.slice_reason[i]]
        details: dict[str, Any] = {"reason": reason, "cycles": cycles}
        if instruction >= 0:
            details["instruction"] = timing.inst_opcode[instruction]
            details["PTX line"] = int(timing.inst_ptx_line[instruction])
        events.append({
            "ph": "X", "name": labels[instruction], "cat": reason, "ts": begin * scale,
            "dur": cycles * scale, **tracks.of_slice(i), "args": details,
        })  # fmt: skip
    return events


def _flows(timing: Timing, tracks: _Tracks, scale: float) -> list[dict[str, Any]]:
    """Arrows: an end belongs to the slice around its time, so they stay inside of the slices."""
    events = []
    for number, (source, target) in enumerate(
        zip(timing.flow_from.tolist(), timing.flow_to.tolist(), strict=True)
    ):
        begin = (timing.slice_begin[source] + timing.slice_end[source]) / 2
        # What waits wakes up at the end of its slice.
        end = max(timing.slice_end[target] - 0.5, timing.slice_begin[target])
        head = {"name": "then", "cat": "flow", "id": number}
        events.append({"ph": "s", **head, "ts": float(min(begin, end)) * scale,
                       **tracks.of_slice(source)})  # fmt: skip
        events.append({"ph": "f", "bp": "e", **head, "ts": float(end) * scale,
                       **tracks.of_slice(target)})  # fmt: skip
    return events


def trace(report: Report) -> dict[str, Any]:
    """Returns the trace as a JSON object; times are microseconds at the clock of the launch."""
    timing = report.timing
    scale = 1 / (timing.clock_mhz * timing.power_factor)
    tracks = _Tracks(timing)
    events = _metadata(timing, tracks)
    events += _slices(report, tracks, scale) + _flows(timing, tracks, scale)
    other = {"kernel": timing.kernel, "gpu": timing.gpu, "clock_mhz": timing.clock_mhz}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}
