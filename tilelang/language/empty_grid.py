"""Reducers of a grid that has no blocks at run time: a launch of its own writes their results."""

from __future__ import annotations

from typing import Any

from ..ir.buffer import Region, difference, linear_terms, make_region, plain
from ..ir.expr import Expr, as_expr, select
from .function import macro
from .grid_reducer import store_each
from .kernel import Kernel
from .loops import Parallel


def finish_without_blocks(frame: Any) -> None:
    """Follows a kernel whose grid may be empty by one that runs just then.

    The grid has one block for each result, where the dimensions over which blocks are reduced
    together have extents of 0, and none in all other launches.

    Args:
        frame: the kernel, which is complete.
    """
    stages = [stage for stage in frame.grid_stages if not _has_blocks(stage.team.members)]
    while stages:
        kept = stages[0].team.kept
        _launch(frame, kept, [stage for stage in stages if stage.team.kept == kept])
        stages = [stage for stage in stages if stage.team.kept != kept]


def _has_blocks(members: Any) -> bool:
    known = plain(members)
    return isinstance(known, int) and known > 0


def _launch(frame: Any, kept: tuple[int, ...], stages: list[Any]) -> None:
    is_empty = as_expr(stages[0].team.members) == 0
    grid = [extent if d in kept else select(is_empty, 1, 0) for d, extent in enumerate(frame.grid)]
    with Kernel(*grid) as blocks:
        indices = blocks if isinstance(blocks, list) else [blocks]
        for stage in stages:
            outs = [_moved(out, frame.block_vars, indices) for out in stage.outs]
            _store(outs, stage.reducer)


def _moved(out: Region, old: list[Expr], new: list[Expr]) -> Region:
    """The region with other block indices; the indices of ``out`` are sums of multiples of them."""
    mins = []
    for low in out.mins:
        terms = linear_terms(low)
        first, there = as_expr(0), as_expr(0)
        for term, factor in terms:
            first = first + term * factor
            there = there + new[next(d for d, v in enumerate(old) if v.same_as(term))] * factor
        mins.append(there + difference(low, first))
    return make_region(out.buffer, mins, out.extents)


@macro
def _store(outs: Any, reducer: Any) -> None:
    for place in Parallel(*reducer.shape):
        here = place if isinstance(place, tuple) else (place,)
        store_each(outs, reducer.shape, here, reducer.results_of_nothing())
