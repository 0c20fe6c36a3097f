"""HTML for notebooks: lists as tables, kernels with their resources and source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, ClassVar


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of HTML, its texts aligned to the left."""
    left = ' style="text-align:left"'
    head = "".join(f"<th{left}>{escape(text)}</th>" for text in heads)
    body = "".join(
        "<tr>" + "".join(f"<td{left}>{escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def folded(summary: str, text: str) -> str:
    """A text that a click unfolds."""
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"


class _Shown(list[Any]):
    """A list that a notebook shows as a table."""

    heads: ClassVar[tuple[str, ...]]
    nothing: ClassVar[str]

    def _cells(self, item: Any) -> tuple[Any, ...]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        if not self:
            return f"<p>{self.nothing}</p>"
        return table(self.heads, map(self._cells, self))


class Remarks(_Shown):
    """Remarks of the compiler about a kernel (:class:`tilelang.transform.Remark`)."""

    heads = ("line", "topic", "remark")
    nothing = "No remarks."

    def _cells(self, item: Any) -> tuple[Any, ...]:
        return item.span.line if item.span is not None else "", item.topic, item.message


class Findings(_Shown):
    """Findings about the time of a launch (:class:`tilelang.emulator.timing.Finding`)."""

    heads = ("gain", "where", "finding")
    nothing = "Nothing stands out."

    def _cells(self, item: Any) -> tuple[Any, ...]:
        return f"up to {100 * item.gain:.0f} %", item.place, item.text


def kernel_html(kernel: Any) -> str:
    """A compiled kernel: what its grids use of an SM, its remarks, its CUDA C++."""
    heads = ("grid", "registers", "spilled bytes", "stack bytes")
    rows = [
        (name, usage.registers, usage.spill_stores + usage.spill_loads, usage.stack)
        for name, usage in kernel.resource_usage.items()
    ]
    return (
        f"<p><b>{escape(kernel.name)}</b> for {escape(str(kernel.target))}</p>"
        f"{table(heads, rows)}{kernel.remarks._repr_html_()}"
        f"{folded('CUDA C++', kernel.get_kernel_source())}"
    )
