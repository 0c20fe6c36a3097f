"""Writes the table of upstream's programs into docs/migration.md, from docs/upstream_programs.tsv.

    python scripts/upstream_table.py [--check]

Each line of the file is a program: its path in upstream's repository, how many of its tests pass,
how many there are, and the reason why others do not, if some do not. A script is one test. Of a
program that runs, the last column says where or how, if not on the emulator at any size.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN = "<!-- upstream_table.py writes the lines from here on -->"
END = "<!-- to here -->"


@dataclass(frozen=True)
class Program:
    """One file of upstream's examples or tests."""

    path: str
    passed: int
    tests: int
    reason: str

    @property
    def folder(self) -> str:
        parts = self.path.split("/")
        return "/".join(parts[: 3 if parts[0] == "testing" else 2])

    @property
    def runs(self) -> bool:
        return self.passed == self.tests


def read(text: str) -> list[Program]:
    """Parses the file of results."""
    programs = []
    for line in text.splitlines():
        path, passed, tests, reason = line.split("\t")
        programs.append(Program(path, int(passed), int(tests), reason))
    return programs


def table(programs: list[Program]) -> str:
    """Returns the table: a row for each folder, with what does not run and why."""
    folders: dict[str, list[Program]] = defaultdict(list)
    for program in programs:
        folders[program.folder].append(program)
    count = sum(program.runs for program in programs)
    lines = [
        f"{count} of {len(programs)} files run unchanged.",
        "",
        "<details><summary>By folder, with the reason for each file that does not run</summary>",
        "",
        "| folder | files | run | remarks |",
        "|---|---|---|---|",
    ]
    for folder, members in sorted(folders.items()):
        running = sum(program.runs for program in members)
        remarks = "; ".join(_described(program) for program in members if program.reason)
        lines.append(f"| `{folder}` | {len(members)} | {running} | {remarks} |")
    return "\n".join([*lines, "", "</details>"])


def _described(program: Program) -> str:
    name = program.path.rpartition("/")[2].removesuffix(".py")
    part = f" ({program.passed} of {program.tests})" if program.passed else ""
    part = " runs" if program.runs else part
    return f"`{name}`{part}: {program.reason}"


def rendered(page: str, programs: list[Program]) -> str:
    """Returns the page with the table between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"docs/migration.md lacks the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table(programs)}\n{END}{after}"


def main() -> int:
    """Writes the page; with --check, returns 1 if it is not as it would be written."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    page = DOCS / "migration.md"
    old = page.read_text()
    new = rendered(old, read((DOCS / "upstream_programs.tsv").read_text()))
    if options.check:
        return int(new != old)
    page.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
