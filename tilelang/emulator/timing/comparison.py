"""Two kernels side by side on the same work."""

from __future__ import annotations

import dataclasses
from html import escape
from typing import TYPE_CHECKING, Any

from tilelang.errors import UserError

from .lines import warp_groups
from .text import duration, table

if TYPE_CHECKING:
    from .report import Report


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The result of :func:`compare`: ``print`` it; notebooks show a table.

    Attributes:
        first, second: the reports.
        speedup: time of the first one's grid by that of the second one's.
    """

    first: Report
    second: Report

    @property
    def speedup(self) -> float:
        return self.first.timing.grid_us / self.second.timing.grid_us

    def rows(self) -> list[tuple[str, str, str]]:
        """Heading, and the values of both."""
        pairs = (_values(self.first), _values(self.second))
        names = list(dict.fromkeys([*pairs[0], *pairs[1]]))
        return [(name, pairs[0].get(name, "-"), pairs[1].get(name, "-")) for name in names]

    def _names(self) -> tuple[str, str]:
        first, second = self.first.timing.kernel, self.second.timing.kernel
        return (first, second) if first != second else (f"first {first}", f"second {second}")

    def __str__(self) -> str:
        names = self._names()
        head = f"{names[1]} takes {1 / self.speedup:.3g} times the time of {names[0]}"
        return "\n".join([head, *table([("", *names), *self.rows()])]) + "\n"

    def _repr_html_(self) -> str:
        cells = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in [("", *self._names()), *self.rows()]
        )
        return f"<table>{cells}</table>"


def _values(report: Report) -> dict[str, str]:
    timing = report.timing
    values = {
        "time of the grid": duration(timing.grid_us),
        "cycles of a CTA": f"{timing.cta_cycles:.0f}",
        "TFLOP/s": f"{timing.tflops:.4g}",
        "TB/s of HBM": f"{timing.dram_tbs:.3g}",
        "bytes of HBM": f"{timing.dram_bytes / 1e6:.4g} MB",
        "CTAs": f"{timing.ctas} of {timing.threads} threads",
        "CTAs an SM": f"{timing.ctas_per_sm} ({timing.occupancy_limit})",
        "waves": f"{timing.waves:.3g}",
        "registers": str(timing.registers),
        "shared memory": f"{timing.shared_bytes} B",
        "instructions issued": str(int(timing.inst_issues.sum())),
        "bank conflicts": str(int(timing.inst_conflicts.sum())),
    }
    for name, share in zip(timing.engine_name, timing.engine_share, strict=True):
        values[f"{name} busy"] = f"{100 * share:.1f} %"
    totals: dict[str, int] = {}
    for group in warp_groups(timing, report.reasons):
        for reason, cycles in group.reasons.items():
            totals[reason] = totals.get(reason, 0) + cycles
    for reason, cycles in totals.items():
        values[f"warps: {reason}"] = f"{100 * cycles / sum(totals.values()):.1f} %"
    return values


def compare(first: Any, second: Any) -> Comparison:
    """Puts two timed launches side by side, of kernels that do the same work.

    Each is a report, of this compiler's kernel (``kernel.profile(...)``) or of PTX of another one
    (``module["name"].profile(...)``); or a compiled kernel, which is profiled with arguments that
    it makes.

    Raises:
        UserError: one is neither.
    """
    return Comparison(_report(first), _report(second))


def _report(what: Any) -> Report:
    from .report import Report

    if hasattr(what, "prim_func"):  # a compiled kernel
        profiled: Report = what.profile()
        return profiled
    if not isinstance(what, Report):
        raise UserError(
            f"compare takes reports, as profile() makes them, or compiled kernels, not {what!r}"
        )
    return what
