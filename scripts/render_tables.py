"""Renders tables of docs/ from the files that benchmarks write to benchmark/results/.

A table stands between ``<!-- table NAME -->`` and ``<!-- end of table -->``.

python scripts/render_tables.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmark" / "results"
#: Pages with rendered tables.
PAGES = (ROOT / "docs" / "timing_accuracy.md",)
_PUBLISHED = "published_b200.json"
_TABLE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
#: Classes of kernels in the summary of a result, with their names in the table.
_CLASSES = {
    "GEMM": "GEMM", "attention": "attention", "memory-bound": "memory-bound",
    "small": "small, below 10 µs", "all": "all",
}  # fmt: skip


def _result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def published_errors() -> str:
    """Returns the errors of the model on published kernels, by class and half."""
    summary = [row for row in _result(_PUBLISHED)["summary"] if row["gpu"] == "B200, GB200"]

    def errors(half: str, kind: str, agreeing: bool) -> tuple[str, ...]:
        key = (half, kind, agreeing)
        for row in summary:
            if (row["half"], row["class"], row["agreeing rows only"]) == key:
                return str(row["rows"]), _percent(row["median"]), _percent(row["p90"])
        return "", "", ""

    def cells(title: str, kind: str, agreeing: bool) -> tuple[str, ...]:
        return title, *errors("once", kind, agreeing), *errors("looked", kind, agreeing)

    rows = [cells(title, kind, False) for kind, title in _CLASSES.items()]
    rows.append(cells("all whose two sources agree within 3 %", "all", True))
    return _table(
        ("kernels", "measured once", "median", "90th percentile", "looked at", "median",
         "90th percentile"), rows,
    )  # fmt: skip


def published_choices() -> str:
    """Returns, for each published problem, how good the model's choice of a program is."""
    rows = []
    for problem, (programs, spread, regret) in sorted(_result(_PUBLISHED)["regrets"].items()):
        name = re.sub("[-_]", " ", problem)
        rows.append((name, str(programs), f"{spread:.2f}", _percent(regret)))
    loss = "the model's choice is slower than the best by"
    return _table(("problem", "programs", "slowest / fastest", loss), rows)


TABLES: dict[str, Callable[[], str]] = {
    "published_errors": published_errors,
    "published_choices": published_choices,
}


def rendered(page: str) -> str:
    """Returns the text of a page with its tables as the results have them.

    Raises:
        KeyError: a table has an unknown name.
    """
    return _TABLE.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], page)


def main() -> None:
    """Writes the tables."""
    for page in PAGES:
        page.write_text(rendered(page.read_text()))


if __name__ == "__main__":
    main()
