"""Times a launch for the options of ``python -m tilelang.emulator``, and prints reports."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from tilelang.errors import UserError

from .comparison import compare
from .report import Report

#: Profiles a kernel: PTX file, name, grid, block, bytes of dynamic shared memory.
Profile = Callable[[str, "str | None", Sequence[int], Sequence[int], int], Report]
_FORMS: dict[str, Callable[[Report], str]] = {
    "text": str, "html": Report.html, "json": Report.json,
}  # fmt: skip


def add_options(
    parser: argparse.ArgumentParser, extents: Callable[[str], tuple[int, ...]]
) -> None:  # fmt: skip
    """Adds the options of timing; ``extents`` reads one to three of them."""
    group = parser.add_argument_group(
        "timing", "what the launch takes on the GPU by the timing model; results are not computed"
    )
    group.add_argument("--timing", action="store_true", help="time the launch and report")
    group.add_argument("--report", choices=_FORMS, help="form of the report (text)")
    group.add_argument("--output", metavar="FILE", help="write the report there")
    group.add_argument("--trace", metavar="FILE", help="write a trace for ui.perfetto.dev")
    group.add_argument("--picture", metavar="FILE", help="write the timeline of a CTA as SVG")
    group.add_argument(
        "--compare", metavar="PTX",
        help="another kernel for the same arguments; its launch where it differs:",
    )  # fmt: skip
    group.add_argument("--compare-entry", metavar="NAME")
    group.add_argument("--compare-grid", type=extents, metavar="X,Y,Z")
    group.add_argument("--compare-block", type=extents, metavar="X,Y,Z")
    group.add_argument("--compare-smem", type=int, metavar="BYTES")


def wanted(options: argparse.Namespace) -> bool:
    """Returns whether an option asks for timing: ``--timing``, or an option for a report."""
    asked = (options.report, options.output, options.trace, options.picture, options.compare)
    return options.timing or any(value is not None for value in asked)


def run(options: argparse.Namespace, profile: Profile) -> None:
    """Profiles and writes what the options ask for.

    Raises:
        UserError: the comparison is asked for in a form that it does not have.
    """
    report = profile(options.ptx, options.entry, options.grid, options.block, options.smem)
    if options.trace:
        report.save_trace(options.trace)
    if options.picture:
        report.plot().save(options.picture)
    if options.compare is None:
        text = _FORMS[options.report or "text"](report)
    elif options.report in (None, "text"):
        text = str(compare(report, _other(options, profile)))
    else:
        raise UserError("--compare prints text; leave --report out")
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
    else:
        print(text, end="" if text.endswith("\n") else "\n")


def _other(options: argparse.Namespace, profile: Profile) -> Report:
    smem = options.smem if options.compare_smem is None else options.compare_smem
    return profile(
        options.compare, options.compare_entry, options.compare_grid or options.grid,
        options.compare_block or options.block, smem,
    )  # fmt: skip
