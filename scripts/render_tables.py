"""Renders tables of docs/ from the files that benchmarks write to benchmark/results/.

A table stands between ``<!-- table NAME -->`` and ``<!-- end of table -->``.

python scripts/render_tables.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmark" / "results"
#: Pages with rendered tables.
PAGES = tuple(
    ROOT / "docs" / f"{page}.md"
    for page in ("speed", "stream", "timing_accuracy", "timing_figures")
)
#: Folders of benchmark/results/ whose files are tables as they stand.
FOLDERS = ("speed", "timing")
_PUBLISHED = "published_b200.json"
_STREAMS = "stream_cpu.json"
_TABLE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
#: Classes of kernels in the summary of a result, with their names in the table.
_CLASSES = {
    "GEMM": "GEMM", "attention": "attention", "memory-bound": "memory-bound",
    "small": "small, below 10 µs", "all": "all",
}  # fmt: skip


def result(name: str) -> dict[str, Any]:
    """Returns what a benchmark wrote to a file of benchmark/results/."""
    found: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n".replace("  ", " ") for cells in lines)


def published_errors() -> str:
    """Returns the errors of the model on published kernels, by class and half."""
    summary = [row for row in result(_PUBLISHED)["summary"] if row["gpu"] == "B200, GB200"]

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
    for problem, (programs, spread, regret) in sorted(result(_PUBLISHED)["regrets"].items()):
        name = re.sub("[-_]", " ", problem)
        rows.append((name, str(programs), f"{spread:.2f}", _percent(regret)))
    loss = "the model's choice is slower than the best by"
    return _table(("problem", "programs", "slowest / fastest", loss), rows)


def ratio(cell: str) -> float | None:
    """Returns the ratio in a cell: the number in parentheses, or the only number."""
    found = re.search(r"\((\d+\.\d+)\)", cell) or re.fullmatch(r"(\d+\.\d+)", cell)
    return float(found[1]) if found else None


def measured(name: str, labels: int = 1) -> list[dict[str, str]]:
    """Returns the rows of a table of docs/speed.md, each by the names of its columns.

    Args:
        name: of the file in benchmark/results/speed, without its ending.
        labels: the number of leading columns whose empty cells repeat the cell above them.
    """
    found = result(f"speed/{name}.json")
    rows: list[dict[str, str]] = []
    for cells in found["rows"]:
        row = dict(zip(found["columns"], cells, strict=True))
        for label in found["columns"][:labels] if rows else ():
            row[label] = row[label] or rows[-1][label]
        rows.append(row)
    return rows


def table(name: str) -> str:
    """Returns the table of a file, ``folder/name`` in benchmark/results/."""
    found = result(f"{name}.json")
    return _table(tuple(found["columns"]), map(tuple, found["rows"]))


def _span(rows: Iterable[dict[str, str]], column: str) -> str:
    ratios = [found for row in rows if (found := ratio(row[column])) is not None]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _means(name: str) -> list[str]:
    rows = {row["M x N x K"]: row["plain kernel"] for row in measured(name)}
    means = [Decimal(rows[f"geometric mean, {half}"]) for half in ("chosen", "held back")]
    return [str(mean.quantize(Decimal("0.01"), ROUND_HALF_UP)) for mean in means]


def speed_summary() -> str:
    """Returns the range of the ratios to libraries in the tables of docs/speed.md."""
    gemm, large = measured("gemm"), _means("plain_gemm")
    floats = _span((row for row in gemm if "int8" not in row["types"]), "this compiler")
    int8 = _span((row for row in gemm if "int8" in row["types"]), "this compiler")
    forward = _span(measured("attention"), "this compiler")
    gradients = _span(measured("attention_gradients"), "added")
    return _table(
        ("kernels", "ratio to the library"),
        [
            ("[GEMM, tuned tiles](#gemm)", f"{floats} of cuBLAS; int8 {int8}"),
            ("[straightforward GEMM, large](#straightforward-gemm)",
             f"{large[0]} of cuBLAS on shapes that the rules were made on, "
             f"{large[1]} on held-back shapes (geometric means)"),
            ("[straightforward GEMM, few rows](#few-rows-and-small-results)",
             " and ".join(_means("few_rows"))),
            ("[attention, forward](#attention)", f"{forward} of cuDNN"),
            ("[attention, gradients](#gradients-of-attention)", f"{gradients} of cuDNN"),
        ],
    )  # fmt: skip


def stream_speed() -> str:
    """Returns the CPU time of streams beside other libraries, by picture and codec."""
    rows = result(_STREAMS)["rows"]
    ways = list(dict.fromkeys(row["way"] for row in rows))
    found = {(row["pictures"], row["codec"], row["way"]): row for row in rows}

    def cell(pictures: str, codec: str, way: str) -> str:
        row = found.get((pictures, codec, way))
        return f"{row['cpu_s_per_gb']:.2f}" if row else ""

    cases = dict.fromkeys((row["pictures"], row["codec"]) for row in rows)
    return _table(
        ("pictures", "codec", *ways),
        ((*case, *(cell(*case, way) for way in ways)) for case in cases),
    )


TABLES: dict[str, Callable[[], str]] = {
    "stream_speed": stream_speed,
    "published_errors": published_errors,
    "published_choices": published_choices,
    "speed_summary": speed_summary,
    **{f"{folder}_{path.stem}": partial(table, f"{folder}/{path.stem}")
       for folder in FOLDERS for path in sorted((RESULTS / folder).glob("*.json"))},
}  # fmt: skip


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
