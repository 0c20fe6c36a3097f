"""The concurrency of a stream as a table."""

from __future__ import annotations

from typing import NamedTuple

from .edges import EDGES, Edge
from .plan import Plan


class StreamSchedule(NamedTuple):
    """Queues, buffers and edges of a stream; ``str`` is a table.

    Attributes:
        plan: the numbers.
        device: of the stream.
        consumers: their names.
    """

    plan: Plan
    device: str
    consumers: tuple[str, ...]

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every order between queues."""
        return tuple(EDGES.values())

    def __str__(self) -> str:
        plan, geometry = self.plan, self.plan.geometry
        layout = plan.vectors
        staging = f"staging buffers 2 of {plan.stage_bytes} bytes"
        if not plan.staged:
            staging = "arrays go into tiles without staging buffers"
        copied = layout.lanes * plan.dtype.itemsize
        lines = [
            f"stream of {plan.dtype} {geometry.shape} in tiles of {geometry.tile} on {self.device}",
            f"  epoch  {geometry.live} tiles of {plan.tile_bytes} bytes, which live at once",
            f"  batch  {plan.batch} epochs, {plan.pool_slots} tiles, {plan.pool_bytes} bytes",
            f"  pools  {plan.pools}, {staging}",
            f"  kernel copies {copied} bytes at a time over {len(layout.axes)} axes",
            f"  consumers {', '.join(self.consumers)}",
            "",
        ]
        rows = [("edge", "from", "to", "buffer", "holds when")]
        rows += [(e.name, e.source, e.target, e.buffer, e.reason) for e in self.edges]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  ".join([*cells, row[4]]))
        return "\n".join(lines)
