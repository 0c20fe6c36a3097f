"""How far a stream is, and what a kill loses."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..math import cdiv
from .plan import Plan


class Progress(NamedTuple):
    """How far a stream is, in indices of its first axis: frames, for instance.

    Attributes:
        received: were appended, the last one in part perhaps.
        finished: of them, those whose tiles are complete.
        on_disk: of them, those that readers see; all writers have written them.
        safe: of them, those that were forced onto the disk (``to(sync=)``).
    """

    received: int
    finished: int
    on_disk: int
    safe: int

    @property
    def in_flight(self) -> int:
        """Those that are finished and not on the disk."""
        return self.finished - self.on_disk

    @property
    def lost(self) -> int:
        """Those that would be lost if the process were killed now."""
        return self.received - self.on_disk


def most_lost(plan: Plan, together: int) -> int:
    """Returns the most indices of the first axis that are received and not on the disk.

    Args:
        plan: of the stream.
        together: indices that readers begin to see at once: those of a tile, or of a shard.
    """
    geometry = plan.geometry
    rows = plan.batch * geometry.tile[0]
    if geometry.lead > 0:
        epochs = math.prod(count or 1 for count in geometry.counts[1 : geometry.lead + 1])
        rows = cdiv(plan.batch, epochs) + 1
    # One batch more is in a buffer of the host where that does not address the pools.
    return (plan.pools + plan.staged) * rows + together
