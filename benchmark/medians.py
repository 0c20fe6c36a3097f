"""Medians over several runs of a benchmark: its lines once, each number the median of the runs.

    python benchmark/defaults.py > first.txt      # and so on, on a lease of the GPU each
    python benchmark/medians.py first.txt second.txt third.txt

Rows are known by their first cell, cells by their place; two spaces part them. Numbers of a row's
name are part of it and stay. A row of some runs has the medians of those and says of how many; a
cell that says different things (a schedule chosen by timing) has all of them.
"""

from __future__ import annotations

import argparse
import re
import statistics
from pathlib import Path

NUMBER = re.compile(r"(?<![\w.=,])\d+(?:\.\d+)?(?![\w.]*\w)")


def rows(text: str) -> dict[str, list[str]]:
    """The cells of each line by its name; a name that comes again has a number added."""
    found: dict[str, list[str]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, *cells = re.split(r"\s{2,}", line)
        again = sum(known == name or known.startswith(f"{name} #") for known in found)
        found[f"{name} #{again + 1}" if again else name] = cells
    return found


def median_cell(cells: list[str]) -> str:
    """A cell with the median of each of its numbers, as precise as the first run prints it."""
    if len({NUMBER.sub("0", cell) for cell in cells}) > 1:
        return " or ".join(dict.fromkeys(cells))
    columns = iter(list(zip(*map(NUMBER.findall, cells), strict=True)))

    def median(match: re.Match[str]) -> str:
        value = statistics.median(map(float, next(columns)))
        return f"{value:.{len(match[0].partition('.')[2])}f}"

    return NUMBER.sub(median, cells[0])


def medians(texts: list[str]) -> list[str]:
    """The lines of some runs, each once, with medians over the runs that have it.

    Args:
        texts: what each run printed. Lines come in the order in which names first appear.
    """
    runs = [rows(text) for text in texts]
    lines = []
    for name in dict.fromkeys(name for run in runs for name in run):
        having = [run[name] for run in runs if name in run]
        same = [cells for cells in having if len(cells) == len(having[0])]
        line = [name, *map(median_cell, map(list, zip(*same, strict=True)))]
        if len(same) < len(runs):
            line.append(f"({len(same)} of {len(runs)} runs)")
        lines.append("  ".join(line))
    return lines


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    print("\n".join(medians([path.read_text() for path in parser.parse_args().runs])))


if __name__ == "__main__":
    main()
