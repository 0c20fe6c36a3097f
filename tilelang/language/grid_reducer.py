"""Reducers over a grid: blocks leave their parts in a workspace, and the last to come combine them.

A block stores its part, and tells a counter that it has come (release, acquire). The block that
finds all others there combines the parts, in the order of the blocks, and sets the counter to zero
for the next launch. No block waits for another, so the grid may be larger than the GPU. The counter
is zeroed memory of the runtime (src/runtime/zeroed_memory.h). Blocks that are a cluster store their
parts in the shared memory of its first one instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer, Region, linear_terms, load, plain, shape_text
from ..ir.expr import Expr, as_expr
from ..ir.expr import cast as cast_value
from .allocate import alloc_scratch, alloc_var, alloc_workspace
from .atomics import atomic_add
from .builder import in_kernel
from .cluster import cluster_sync, copy_cluster
from .function import macro
from .grid_plan import GridPlan, choose
from .ignored import remark_choice
from .loops import Parallel
from .region import as_region, corner, place_in, significant
from .scalar import min as minimum
from .sync import sync_threads, syncthreads_or


class Team(NamedTuple):
    """The blocks whose parts belong to one result.

    Attributes:
        index, count: which team, of how many: those of the dimensions of the grid that choose the
            elements of ``out``.
        member, members: which block of its team, of how many.
        kept: the dimensions that choose.
    """

    index: Any
    count: Any
    member: Any
    members: Any
    kept: tuple[int, ...]


class GridStage:
    """The plan for the parts of one reducer.

    Attributes:
        reducer: whose tile holds the block's part once it is finalized.
        outs: where the results go, for each field.
        parts: the workspace of each field, or the shared memory of the cluster's first block.
    """

    def __init__(self, reducer: Any, outs: list[Region], deterministic: bool) -> None:
        self.reducer = reducer
        self.outs = outs
        self.where = span.here()
        self.team = team_of(outs)
        elements = prod(reducer.shape)
        size = elements * sum(tile.dtype.bits // 8 for tile in reducer.tiles)
        members = plain(self.team.members)
        obstacle = "deterministic=True" if deterministic else reducer.atomics_obstacle()
        known = members if isinstance(members, int) else None
        clustered = known is not None and _is_cluster(self.team)
        self.plan: GridPlan = choose(known, elements, size, obstacle, clustered)
        self.stored = False
        self.parts: list[Buffer] = []
        remark_choice(
            "grid",
            f"reducer {reducer.name} of {shape_text(reducer.shape)} over {members} blocks: "
            f"{self.plan.text} ({', '.join([f'{self.plan.cost:.1f} us', *self.plan.declined])})",
        )

    def store(self) -> None:
        """Leaves the block's part where the others find it; called where it is complete."""
        builder = in_kernel("T.finalize_reducer")
        frame = builder.kernel
        if builder.blocks[-1] is not frame.block:
            raise errors.ScopeError(
                f"T.finalize_reducer of {self.reducer.name} stands in a loop or under a condition; "
                "every block finalizes a reducer of the grid once",
                span=span.here(),
                notes=["finalize it in the body of T.Kernel itself"],
            )
        if self.stored:
            raise errors.SemanticsError(
                f"{self.reducer.name}, a reducer of the grid, is finalized twice", span=span.here()
            )
        self.stored = True
        slots = self.team.count * self.team.members
        own = self.team.index * self.team.members + self.team.member
        if self.plan.kind == "block":
            self.finish()
            return
        if self.plan.kind == "cluster":
            for tile in self.reducer.tiles:
                part = alloc_scratch((self.team.members, *tile.shape), tile.dtype)
                self.parts.append(part)
                place = (self.team.member, *(slice(None) for _ in tile.shape))
                copy_cluster(tile, part[place], dst_block=0)
            return
        adds = self.plan.kind == "atomics"
        for tile in self.reducer.tiles:
            slot, count = (self.team.index, self.team.count) if adds else (own, slots)
            part = alloc_workspace((count, *tile.shape), tile.dtype, zeroed=adds)
            self.parts.append(part)
            (_add if adds else _keep)(tile, part, slot)

    def finish(self) -> None:
        """The block's tile, which holds all, becomes the result."""
        _store_results(self.reducer, self.outs)


def team_of(outs: list[Region]) -> Team:
    """The blocks that share ``outs``: those that differ in what no index of it contains.

    Raises:
        SemanticsError: two of them have elements of ``outs`` in common, or an index is not known.
    """
    frame = in_kernel("T.alloc_reducer").kernel
    kept: set[int] = set()
    for out in outs:
        for low, extent in zip(out.mins, out.extents, strict=True):
            kept |= _choosing(frame, out, low, plain(extent))
    index, count, member, members = as_expr(0), as_expr(1), as_expr(0), as_expr(1)
    for d in reversed(range(len(frame.grid))):
        if d in kept:
            index, count = index * frame.grid[d] + frame.block_vars[d], count * frame.grid[d]
        else:
            member = member * frame.grid[d] + frame.block_vars[d]
            members = members * frame.grid[d]
    return Team(index, count, member, members, tuple(sorted(kept)))


def _choosing(frame: Any, out: Region, low: Any, extent: Any) -> set[int]:
    """The dimensions of the grid that an index of ``out`` contains."""
    found: set[int] = set()
    for term, factor in linear_terms(low):
        which = next((d for d, v in enumerate(frame.block_vars) if v.same_as(term)), None)
        if which is None or not isinstance(extent, int) or abs(factor) < extent:
            raise errors.SemanticsError(
                f"out={out} of T.alloc_reducer is not made for the grid: `{low}`, of extent "
                f"{extent}, is no block index times at least its extent",
                span=span.here(),
                notes=[
                    "blocks with the same `out` are reduced together, as bx * 64 : bx * 64 + 64"
                ],
            )
        found.add(which)
    if len(found) > 1:
        raise errors.SemanticsError(
            f"out={out} of T.alloc_reducer: `{low}` contains several block indices",
            span=span.here(),
        )
    return found


def _is_cluster(team: Team) -> bool:
    """Whether the blocks of a team are a cluster's, so that a member's number is its rank."""
    frame = in_kernel("T.alloc_reducer").kernel
    cluster = [*frame.attrs.get("cluster_dims", ()), 1, 1, 1]
    return all(
        cluster[d] == (1 if d in team.kept else plain(extent))
        for d, extent in enumerate(frame.grid)
    )


def open_stage(reducer: Any, out: Any, deterministic: bool) -> GridStage:
    """Makes ``reducer`` one of the whole grid, whose result goes to ``out``.

    Raises:
        ShapeError, ScopeError, SemanticsError: ``out`` is not what holds the results.
    """
    given = list(out) if isinstance(out, (tuple, list)) else [out]
    names = reducer.result_names()
    if out is None or len(given) != len(names):
        raise errors.SemanticsError(
            'T.alloc_reducer(scope="grid") takes out=, the tensor that gets the result'
            + (f"s: {', '.join(names)}" if len(names) > 1 else ""),
            span=span.here(),
        )
    outs = []
    for each in given:
        region = as_region("out of T.alloc_reducer", each)
        if hasattr(each, "indices"):
            region = corner(each, reducer.shape)
        if region.buffer.scope != "global":
            raise errors.ScopeError(
                f"out of T.alloc_reducer is {region.buffer.describe()}; a tensor gets the results "
                "of a grid",
                span=span.here(),
            )
        if significant(region.shape) != significant(reducer.shape):
            raise errors.ShapeError(
                f"out of T.alloc_reducer has shape {shape_text(region.shape)}, and the reducer "
                f"{shape_text(reducer.shape)}",
                span=span.here(),
            )
        outs.append(region)
    return GridStage(reducer, outs, deterministic)


def conclude_grid(stages: list[GridStage]) -> None:
    """At the end of a kernel: combines the parts of its reducers.

    Raises:
        SemanticsError: one was never finalized.
    """
    for stage in stages:
        if not stage.stored:
            raise errors.SemanticsError(
                f"{stage.reducer.name}, a reducer of the grid, is not finalized",
                span=stage.where,
                notes=["call T.finalize_reducer after its last contribution"],
            )
    in_cluster = [stage for stage in stages if stage.plan.kind == "cluster"]
    if in_cluster:
        _conclude_cluster(in_cluster, in_cluster[0].team)
    rest = [stage for stage in stages if stage.plan.kind not in ("block", "cluster")]
    while rest:
        same = [s for s in rest if (s.team.kept, s.plan.fan_in) == _key(rest[0])]
        rest = [s for s in rest if not any(s is each for each in same)]
        _conclude_together(same)


def _key(stage: GridStage) -> tuple[Any, int]:
    return stage.team.kept, stage.plan.fan_in


def _conclude_together(stages: list[GridStage]) -> None:
    """Stages with the same teams, in the same tree: one arrival serves them all."""
    team, fan_in = stages[0].team, stages[0].plan.fan_in
    if not fan_in:
        counters = alloc_workspace((team.count,), "int32", zeroed=True)
        _last_takes_all(stages, counters, team)
        return
    groups = (team.members + fan_in - 1) // fan_in
    counters = alloc_workspace((team.count, groups + 1), "int32", zeroed=True)
    _last_of_each_group(stages, counters, team, fan_in, groups)


@macro
def _store_results(reducer: Any, outs: Any) -> None:
    for place in Parallel(*reducer.shape):
        here = place if isinstance(place, tuple) else (place,)
        store_each(outs, reducer.shape, here, reducer.result_at(list(here)))


def store_each(
    outs: list[Region], shape: Sequence[int], here: tuple[Any, ...], results: Sequence[Expr]
) -> None:
    """Stores the results of the element ``here`` of a reducer's ``shape``, one in each region."""
    moving = [at for at, extent in zip(here, shape, strict=True) if extent != 1]
    for out, value in zip(outs, results, strict=True):
        out.buffer[place_in(out, moving)] = cast_value(value, out.dtype)


@macro
def _keep(tile: Any, part: Any, slot: Any) -> None:
    for place in Parallel(*tile.shape):
        here = place if isinstance(place, tuple) else (place,)
        there = (slot, *here)
        part[there] = tile[here]


@macro
def _add(tile: Any, part: Any, slot: Any) -> None:
    for place in Parallel(*tile.shape):
        here = place if isinstance(place, tuple) else (place,)
        there = (slot, *here)
        atomic_add(part[there], tile[here])


@macro
def is_last(counters: Any, place: Any, others: Any) -> Any:
    """Returns whether the other blocks have come; if so, the counter is zero again."""
    first = first_thread()
    arrived = alloc_var("int32", init=-1)
    sync_threads()
    if first:
        arrived = atomic_add(counters[place], 1, memory_order="acq_rel", return_prev=True)
    last = syncthreads_or(arrived == others)
    if arrived == others:
        counters[place] = 0
    return last


@macro
def _conclude_cluster(stages: Any, team: Any) -> None:
    cluster_sync()
    if team.member == 0:
        _take(stages, 0, team.members, True)


@macro
def _last_takes_all(stages: Any, counters: Any, team: Any) -> None:
    if is_last(counters, (team.index,), team.members - 1):
        _take(stages, team.index * team.members, team.members, True)


@macro
def _last_of_each_group(stages: Any, counters: Any, team: Any, fan_in: Any, groups: Any) -> None:
    group = team.member // fan_in
    members = minimum(fan_in, team.members - group * fan_in)
    begin = team.index * team.members + group * fan_in
    if is_last(counters, (team.index, group), members - 1):
        _take(stages, begin, members, False)
        _put(stages, begin)
        if is_last(counters, (team.index, groups), groups - 1):
            _take_firsts(stages, team, fan_in, groups)


def _take(stages: list[GridStage], begin: Any, members: Any, last: bool) -> None:
    """Combines the parts from ``begin`` on, in the tiles of the reducers."""
    for stage in stages:
        if stage.plan.kind == "atomics":
            _take_sum(stage.reducer.tiles[0], stage.parts[0], stage.team.index)
        else:
            _combine(stage, begin, 1, members)
        sync_threads()
        if last:
            stage.finish()


def _take_firsts(stages: list[GridStage], team: Team, fan_in: Any, groups: Any) -> None:
    for stage in stages:
        _combine(stage, team.index * team.members, fan_in, groups)
        sync_threads()
        stage.finish()


def _put(stages: list[GridStage], slot: Any) -> None:
    """Leaves what a group has combined in the place of its first part."""
    for stage in stages:
        for tile, part in zip(stage.reducer.tiles, stage.parts, strict=True):
            _keep(tile, part, slot)


@macro
def _take_sum(tile: Any, part: Any, slot: Any) -> None:
    for place in Parallel(*tile.shape):
        here = place if isinstance(place, tuple) else (place,)
        there = (slot, *here)
        tile[here] = part[there]
        part[there] = cast_value(0, part.dtype)


def _combine(stage: GridStage, begin: Any, step: Any, members: Any) -> None:
    stage.reducer.reopen()
    _contribute_parts(stage.reducer, stage.parts, begin, step, members)
    stage.reducer.done = True


@macro
def _contribute_parts(reducer: Any, parts: Any, begin: Any, step: Any, members: Any) -> None:
    for place in Parallel(members, *reducer.shape):
        slot = begin + place[0] * step
        values = [load(part, [slot, *place[1:]]) for part in parts]
        reducer.combine(list(place[1:]), values)


def first_thread() -> Expr:
    """Returns whether a thread is the first of its block."""
    found = None
    for index in in_kernel("T.finalize_reducer").kernel.thread_vars:
        found = index == 0 if found is None else (found & (index == 0))
    assert found is not None
    return found
