"""A hint: the sizes that a kernel of a template should have."""

from __future__ import annotations

import dataclasses
import math

from .roller.rasterization import NoRasterization, Rasterization


@dataclasses.dataclass
class Hint:
    """Sizes of one candidate, by the names that TileLang gives them.

    Attributes:
        block: the tile of the result that a block computes, an extent for each of its dimensions.
        warp: with tensor cores, the part of it of a warp; else empty.
        thread: without tensor cores, the threads along each dimension; else empty.
        rstep: the extents along the reduced dimensions that one step takes.
        reduce_thread: the threads that share a reduced dimension.
        pipeline_stage: stages of the loop over steps; 1 where it is not pipelined.
        use_async: whether loads run ahead.
        use_tc: whether tensor cores multiply.
        rasterization_plan: the order of blocks. The compiler finds one by itself.
        seconds: the estimated time, by which hints are ranked; not that of the timing model.
    """

    block: list[int]
    warp: list[int] = dataclasses.field(default_factory=list)
    thread: list[int] = dataclasses.field(default_factory=list)
    rstep: list[int] = dataclasses.field(default_factory=list)
    reduce_thread: list[int] = dataclasses.field(default_factory=list)
    pipeline_stage: int = 1
    use_async: bool = False
    use_tc: bool = False
    rasterization_plan: Rasterization = dataclasses.field(default_factory=NoRasterization)
    seconds: float = math.inf

    @property
    def threads(self) -> int:
        """The threads of a block."""
        if not self.warp:
            return math.prod(self.thread) * math.prod(self.reduce_thread)
        return 32 * math.prod(b // w for b, w in zip(self.block, self.warp, strict=True))
