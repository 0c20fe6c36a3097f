"""Sorts the findings of a launch by their level, and prints them by cause."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from tilelang.emulator.errors import EmulatorError, EmulatorWarning
from tilelang.emulator.launch_options import Options
from tilelang.emulator.levels import LETTER, causes, summary, times
from tilelang.emulator.named_fragments import with_fragment
from tilelang.errors import user_level


def split(
    report: dict[str, Any], fragments: Any, chosen: Options
) -> tuple[list[EmulatorError], list[EmulatorError]]:
    """Returns the findings of a launch, and separately the findings that are only counted."""
    for entry, uses in zip(chosen.suppress, report["suppressed"], strict=False):
        entry.uses += uses
    found = [EmulatorError(with_fragment(each, fragments)) for each in report["findings"]]
    if chosen.letters == "fail":
        return found, []
    letters = [each for each in found if each.level == LETTER]
    return [each for each in found if each.level != LETTER], letters


def show(
    kernel: str, findings: list[EmulatorError], letters: list[EmulatorError], chosen: Options
) -> None:
    """Prints the findings by cause, and tells of the others in one line."""
    groups = causes(findings)
    if groups:
        print(f"{kernel}: {len(groups)} findings", file=sys.stderr)
    for first, *others in groups:
        count = first.count + sum(each.count for each in others)
        more = f" and {len(others)} more" if others else ""
        print(
            f"  {first.kind}, PTX line {first.ptx_line}{more} ({times(count)}): {first.reason}",
            file=sys.stderr,
        )
    if not letters:
        return
    if chosen.sanitize == "report":
        print(f"{kernel}: {summary(letters)}", file=sys.stderr)
    elif chosen.sanitize and not chosen.timing:
        warnings.warn(f"{kernel}: {summary(letters)}", EmulatorWarning, stacklevel=user_level())
