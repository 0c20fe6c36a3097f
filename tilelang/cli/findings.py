"""Collects the findings on a kernel over several schedules, one for each cause."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import click

from ..emulator import EmulatorError
from ..emulator.levels import BREAKS, LETTER, LETTERS, causes, level_of

#: Kinds of findings that say that nothing orders accesses, whatever the results are.
ORDER = (
    "race", "missing-wait", "missing-proxy-fence", "missing-mbarrier-fence", "missed-phase",
    "missing-wgmma-fence", *LETTERS,
)  # fmt: skip
#: What becomes of findings of level *letter*.
CHOICES = ("count", "list", "fail")

letters_option = click.option(
    "--letters", type=click.Choice(CHOICES), default="count", show_default=True,
    help="Code that the PTX ISA forbids and known GPUs keep in order: count such findings in one "
         "line, list them, or let them fail.",
)  # fmt: skip


@dataclasses.dataclass
class _Kept:
    kind: str
    text: str
    places: Sequence[Hashable]
    place: str
    earlier: str
    count: int = 0
    schedules: list[str | int] = dataclasses.field(default_factory=list)


class Findings:
    """The findings on one kernel."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def add(self, errors: Iterable[EmulatorError], schedule: str | int) -> None:
        """Adds what a launch with this schedule has found."""
        for error in errors:
            key = error.kind, *error.places
            kept = self._kept.setdefault(key, _Kept(error.kind, error.reason, error.places,
                                                    _place(error), _earlier(error)))  # fmt: skip
            kept.count += error.count
            if schedule not in kept.schedules:
                kept.schedules.append(schedule)

    def document(self) -> list[dict[str, Any]]:
        """Returns the causes as ``check --json`` prints them; causes that break come first."""
        found = [_cause(group) for group in causes(self._kept.values())]
        return sorted(found, key=lambda each: each["level"] != BREAKS)


def _cause(group: list[_Kept]) -> dict[str, Any]:
    first = group[0]
    schedules = dict.fromkeys(schedule for each in group for schedule in each.schedules)
    return {
        "kind": first.kind, "level": level_of(first.kind), "text": first.text,
        "place": first.place, "earlier": first.earlier,
        "others": sorted({each.place for each in group} - {first.place, first.earlier}),
        "count": sum(each.count for each in group), "schedules": list(schedules),
    }  # fmt: skip


def finding_of(error: EmulatorError) -> dict[str, Any]:
    """Returns the document of what one launch has found."""
    return {
        "kind": error.kind, "level": error.level, "text": error.reason, "place": _place(error),
        "earlier": _earlier(error), "count": error.count,
    }  # fmt: skip


def fails(finding: dict[str, Any], letters: str) -> bool:
    """Returns whether a check with this finding fails, by one of :data:`CHOICES`."""
    return letters == "fail" or finding["level"] != LETTER


def _place(error: EmulatorError) -> str:
    if error.span is not None:
        return f"{error.span.file}:{error.span.line}"
    return f"PTX:{error.ptx_line}" if error.ptx_line else ""


def _earlier(error: EmulatorError) -> str:
    if error.earlier_span is not None:
        return f"{error.earlier_span.file}:{error.earlier_span.line}"
    return f"PTX:{error.earlier_line}" if error.earlier_line else ""
