"""A timed launch as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .accuracy import accuracy_text
from .lines import path_steps, warp_groups

if TYPE_CHECKING:
    from ..timed import Timing
    from .report import Report

_BAR = 30
_SHOWN_LINES = 12
_SHOWN_PATH = 12
_SHOWN_WARPS = 12


def shares(reasons: dict[str, int], shown: int = 4) -> str:
    """Returns the largest reasons with their shares: ``memory 60 %, issue 12 %``."""
    total = sum(reasons.values()) or 1
    parts = [f"{name} {100 * cycles / total:.0f} %" for name, cycles in reasons.items()]
    return ", ".join(parts[:shown])


def duration(microseconds: float) -> str:
    """Returns a time with its unit."""
    if microseconds >= 1e3:
        return (
            f"{microseconds / 1e3:.3g} ms" if microseconds < 1e6 else f"{microseconds / 1e6:.3g} s"
        )
    return f"{microseconds:.4g} us"


def facts(timing: Timing) -> list[tuple[str, str]]:
    """Returns the summary of a launch as pairs of a heading and a text."""
    power = f", {100 * timing.power_factor:.0f} % of it by the power limit"
    clock = f"{timing.clock_mhz:.0f} MHz{power if timing.power_factor < 1 else ''}"
    throttled = timing.power_factor < 1
    fresh = f" sustained, {duration(timing.fresh_us)} fresh" if throttled else ""
    speeds = [f"{timing.dram_tbs:.3g} TB/s of HBM"]
    if timing.flops:
        speeds.insert(0, f"{timing.tflops:.4g} TFLOP/s")
    return [
        ("GPU", f"{timing.gpu} ({timing.arch}), {timing.sms} SMs, {clock}"),
        ("grid", f"{timing.ctas} CTAs of {timing.threads} threads, {timing.ctas_per_sm} an SM "
                 f"({timing.occupancy_limit}), {timing.waves:.3g} waves; {timing.registers} "
                 f"registers, {timing.shared_bytes} B of shared memory"),
        ("time", f"grid {duration(timing.grid_us)}{fresh} ({timing.grid_cycles:.0f} cycles, "
                 f"{duration(timing.launch_us)} of launch), wave {duration(timing.wave_us)} "
                 f"({timing.wave_cycles:.0f}), CTA {duration(timing.cta_us)} "
                 f"({timing.cta_cycles:.0f})"),
        ("error", accuracy_text(timing)),
        ("speed", ", ".join(speeds)),
        ("timed", f"{timing.timed_ctas} of {timing.ctas} CTAs in detail"),
    ]  # fmt: skip


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with columns as wide as their widest text; the last column is not padded."""
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return [
        "  " + "  ".join([*(t.ljust(w) for t, w in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]


def _engines(timing: Timing) -> list[str]:
    order = sorted(range(len(timing.engine_name)), key=lambda i: -timing.engine_share[i])
    rows = [
        (timing.engine_name[i], f"{100 * timing.engine_share[i]:5.1f} %",
         "#" * round(_BAR * min(1.0, float(timing.engine_share[i]))))
        for i in order if timing.engine_share[i] > 0
    ]  # fmt: skip
    return ["engines, share of the time", *table(rows)]


def _path(report: Report) -> list[str]:
    steps = path_steps(report.timing, report.reasons)
    total = sum(step.cycles for step in steps) or 1
    rows = [
        (f"{100 * step.cycles / total:5.1f} %", f"{step.cycles}", step.who, step.reason, step.label)
        for step in steps[:_SHOWN_PATH]
    ]
    return [f"critical path of {total} cycles", *table(rows)]


def report_text(report: Report) -> str:
    """Returns the whole report."""
    timing = report.timing
    head = [f"kernel {timing.kernel}", *table(facts(timing))]
    lines = sorted(report.lines, key=lambda line: -line.cycles)[:_SHOWN_LINES]
    total = sum(line.cycles for line in report.lines) or 1
    by_line = [
        (f"{100 * line.cycles / total:5.1f} %", line.place, line.operator, shares(line.reasons, 3))
        for line in lines
    ]
    groups = warp_groups(timing, report.reasons)[:_SHOWN_WARPS]
    warps = [(group.name, shares(group.reasons)) for group in groups]
    parts = [
        head,
        _engines(timing),
        ["warps, by what they wait for", *table(warps)],
        ["lines, by the time of their warps", *table(by_line)],
        _path(report),
    ]
    found = report.explain()
    if found:
        parts.append(["findings", *(f"  {i}. {finding}" for i, finding in enumerate(found, 1))])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"
