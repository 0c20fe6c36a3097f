"""Results of a search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .progress import in_microseconds, ready_to_paste


@dataclass(frozen=True)
class Trial:
    """The outcome of one candidate.

    Attributes:
        config: its values of the tuned parameters.
        latency: milliseconds, in ``AutotuneResult.unit``; None if it was skipped.
        reason: why it was skipped; empty otherwise.
        rough: measured by a few runs only, as these were slow.
        cached: known from an earlier search.
    """

    config: dict[str, Any]
    latency: float | None = None
    reason: str = ""
    rough: bool = False
    cached: bool = False

    def __str__(self) -> str:
        values = ready_to_paste(self.config)
        latency = in_microseconds(self.latency, "ms") if self.latency is not None else ""
        outcome = latency or f"skipped: {self.reason}"
        return f"{outcome:<14} {values}" + (" (rough)" if self.rough else "")


@dataclass
class AutotuneResult:
    """The best candidate, and what became of all.

    Attributes:
        latency: of the best, in ``unit``.
        config: its values of the tuned parameters.
        kernel: the compiled kernel.
        ref_latency: of ``ref_prog``, in milliseconds; None without a GPU or a reference.
        unit: ``"ms"``, or ``"ms, predicted"`` where there is no GPU to measure on.
        trials: every candidate, in the order given.
        remark: how the candidates were ranked, where they were not measured.
    """

    latency: float
    config: dict[str, Any]
    kernel: Any
    ref_latency: float | None = None
    unit: str = "ms"
    trials: list[Trial] = field(default_factory=list)
    remark: str = ""

    @property
    def func(self) -> Any:
        """The function in the IR."""
        return self.kernel.prim_func

    @property
    def libcode(self) -> str:
        """The generated CUDA C++."""
        return str(self.kernel.get_kernel_source())

    @property
    def skipped(self) -> list[Trial]:
        """The candidates that were not measured, each with its reason."""
        return [trial for trial in self.trials if trial.latency is None]

    def __str__(self) -> str:
        known = [trial for trial in self.trials if trial.latency is not None]
        ranked = sorted(known, key=lambda trial: trial.latency or 0)
        best = in_microseconds(self.latency, self.unit)
        lines = [f"best of {len(self.trials)} candidates: {best}"]
        lines.append(ready_to_paste(self.config))
        lines += [f"  {trial}" for trial in [*ranked, *self.skipped]]
        return "\n".join([*lines, *([self.remark] if self.remark else [])])
