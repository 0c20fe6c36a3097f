"""The report of a timed launch: text, trace, picture, page, findings."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tilelang.display import Findings
from tilelang.errors import UserError

from ..timed import REASONS
from .findings import Finding, find
from .lines import Line, source_lines
from .page import page
from .picture import Picture, draw
from .text import report_text
from .trace import trace

if TYPE_CHECKING:
    from ..timed import Timing


#: Properties of a Timing that belong among its numbers.
_DERIVED = ("grid_us", "fresh_us", "wave_us", "cta_us", "tflops", "dram_tbs")


class Report:
    """Report of where the time of a kernel goes, by the timing model of the emulator.

    ``print`` it for a summary; a notebook shows a page. ``JITKernel.profile``, ``Kernel.profile``
    of PTX modules and ``LaunchReport.profile`` of timed launches give one.

    Attributes:
        timing: the numbers (:class:`~tilelang.emulator.timed.Timing`): cycles of the SM's clock,
            microseconds, shares of 0 to 1.
        reasons: names of what a warp spends time on, by ``timing.slice_reason``.
        grids: the reports of all grids of the call, in order; most kernels have one.
    """

    reasons: tuple[str, ...] = REASONS

    def __init__(
        self, timing: Timing, again: Callable[[frozenset[str], int], Timing | None] | None = None
    ) -> None:
        """Args:
        timing: of a launch.
        again: times the launch again with some costs taken away, by their names in
            ``TimingOptions.ablate``, and with other registers of a thread (0: its own), by which
            fewer or more CTAs fit an SM; None if it cannot be repeated.
        """
        self.timing = timing
        self._again = again
        self._gains: dict[tuple[str, int], float] = {}
        self.grids: list[Report] = [self]

    def __str__(self) -> str:
        return report_text(self)

    def __repr__(self) -> str:
        return f"<timing of {self.timing.kernel!r}: {self.timing.grid_us:.4g} us>"

    def _repr_html_(self) -> str:
        # In a frame: the page's styles are not to change the notebook's.
        from html import escape

        return (
            f'<iframe srcdoc="{escape(self.html())}" width="100%" height="720" '
            'style="border:0"></iframe>'
        )

    @cached_property
    def lines(self) -> list[Line]:
        """The source lines with instructions, in order; PTX lines where the PTX names no source."""
        return source_lines(self.timing, self.reasons)

    def explain(self) -> list[Finding]:
        """Returns at most five findings, the largest gain first.

        A gain is the most that can be had: no more than the time that is spent on it, and no more
        than the model takes less when it times this launch again without that cost.
        """
        return Findings(find(self))

    def gain_without(self, cost: str, registers: int = 0) -> float | None:
        """Returns the share of the grid's time that would be saved if a cost were nothing.

        Args:
            cost: a name of ``TimingOptions.ablate``, as ``"bank conflicts"``; "" for none.
            registers: of a thread, if others than its own: they limit the CTAs of an SM.

        Returns:
            0 to 1; None if the launch cannot be timed again.
        """
        if self._again is None:
            return None
        key = cost, registers
        if key not in self._gains:
            other = self._again(frozenset([cost] if cost else []), registers)
            assert other is not None
            self._gains[key] = max(0.0, 1 - other.grid_us / self.timing.grid_us)
        return self._gains[key]

    def save_trace(self, path: str | Path) -> None:
        """Writes the timeline as a trace, which https://ui.perfetto.dev opens.

        A track for each warp and each engine; slices are named by source line and operator, arrows
        lead from what produces to what waited for it. Times are predictions of the model.

        Raises:
            UserError: the launch kept no timeline.
        """
        self._require_timeline()
        Path(path).write_text(json.dumps(trace(self)), encoding="utf-8")

    def plot(self, cta: int | None = None, begin: int | None = None, end: int | None = None
             ) -> Picture:  # fmt: skip
        """Draws the timeline of a CTA and of the engines of its SM.

        Args:
            cta: linear index; the first one that was timed by default.
            begin, end: cycles to show; the whole life of the CTA by default.

        Returns:
            An SVG document with ``save(path)``; notebooks show it.

        Raises:
            UserError: the launch kept no timeline, or the CTA was not timed.
        """
        self._require_timeline()
        timed = sorted({int(c) for c in self.timing.track_cta if c >= 0})
        if cta is None:
            cta = timed[0]
        if cta not in timed:
            raise UserError(f"CTA {cta} was not timed; choose from {', '.join(map(str, timed))}")
        return draw(self, cta, begin, end)

    def html(self) -> str:
        """Returns one page of HTML that needs nothing else: summary, engines, source, timeline."""
        return page(self)

    def json(self) -> str:
        """Returns the numbers without the timeline as a JSON object."""
        timing = self.timing
        scalars = (int, float, str)
        fields = {
            name: value for name in (*vars(timing), *_DERIVED)
            if isinstance(value := getattr(timing, name), scalars)
        }  # fmt: skip
        engines = dict(zip(timing.engine_name, timing.engine_share.tolist(), strict=True))
        lines = [
            {"place": line.place, "operator": line.operator, "cycles": line.cycles,
             "reasons": line.reasons, "issues": line.issues, "conflicts": line.conflicts,
             "path": line.path}
            for line in self.lines
        ]  # fmt: skip
        found = [vars(finding) for finding in self.explain()]
        document = {**fields, "engines": engines, "lines": lines, "findings": found}
        return json.dumps(document, indent=1)

    def _require_timeline(self) -> None:
        if not len(self.timing.slice_track):
            raise UserError("the launch kept no timeline: give TimingOptions(record=True)")
