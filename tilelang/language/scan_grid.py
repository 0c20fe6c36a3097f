"""Scans by all blocks of a grid together, in one launch that reads and writes each element once.

Tiles have numbers, which blocks draw from a counter: a block that waits for tiles of lower numbers
waits for blocks that run. It leaves the sum of its tile for the others. What is before a tile is
the sum of the tiles before it: those of its group one by one, of earlier groups their totals, which
the last tile of each leaves. No tile takes a prefix that another has completed, so the order of
additions depends on the shape alone, not on which block comes first.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer, linear_terms, load, shape_text
from ..ir.expr import Expr
from .allocate import alloc_fragment, alloc_scratch, alloc_var, alloc_workspace
from .annotations import assume
from .atomics import atomic_add, atomic_load, atomic_store
from .builder import in_kernel
from .copy import copy, fill
from .function import macro
from .grid_reducer import first_thread, is_last
from .ignored import remark_choice
from .loops import Parallel, serial
from .reducer import alloc_reducer, finalize_reducer
from .scan_turns import Turns, load_tile, scan_tile, store_tile
from .sync import sync_threads

#: The places of a counter that tiles are drawn from, and of one of the blocks that have none left.
TICKETS, DONE = 0, 1


class Shared(NamedTuple):
    """The memory through which blocks exchange values.

    Attributes:
        width: how many tiles are a group: as many as the block has threads.
        groups: how many groups there are along what is scanned.
        counters: TICKETS and DONE.
        flags, sums: of each tile, whether its sums have been left, and these.
        total_flags, totals: the same of each group.
    """

    width: int
    groups: Any
    counters: Buffer
    flags: Buffer
    sums: Buffer
    total_flags: Buffer
    totals: Buffer


def scan_over_grid(what: str, turns: Turns) -> None:
    """Scans a tensor by all blocks of the kernel.

    Raises:
        ScopeError: the call stands in a loop or under a condition.
        SemanticsError: what is scanned depends on the block.
    """
    builder = in_kernel(what)
    frame = builder.kernel
    if builder.blocks[-1] is not frame.block:
        raise errors.ScopeError(
            f'{what} with scope="grid" stands in a loop or under a condition; every block calls it '
            "once",
            span=span.here(),
            notes=["call it in the body of T.Kernel itself"],
        )
    for region in (turns.source, turns.target):
        for low in (*region.mins, *region.extents):
            if any(term.same_as(v) for term, _ in linear_terms(low) for v in frame.block_vars):
                raise errors.SemanticsError(
                    f'{what} of {region} with scope="grid": all blocks scan it together, and '
                    f"`{low}` differs from block to block",
                    span=span.here(),
                    notes=["pass the whole tensor: what is not scanned is divided as well"],
                )
    steps = turns.steps[turns.axis]
    width = prod(frame.threads)
    groups = (steps + width - 1) // width
    across = turns.across(turns.tile, 1)
    shared = Shared(
        width,
        groups,
        alloc_workspace((2,), "int32", zeroed=True),
        alloc_workspace((turns.rows, steps), "int32", zeroed=True),
        alloc_workspace((turns.rows, steps, *across), turns.running),
        alloc_workspace((turns.rows, groups), "int32", zeroed=True),
        alloc_workspace((turns.rows, groups, *across), turns.running),
    )
    remark_choice(
        "scan",
        f"{what} of {shape_text(turns.source.shape)} along dimension {turns.axis} by all blocks: "
        f"{turns.rows * steps} tiles of {shape_text(turns.tile)}, in groups of {width}",
    )
    _run(turns, shared)


@macro
def _run(turns: Any, shared: Any) -> None:
    ahead = alloc_fragment(turns.tile, turns.held)
    sums, earlier = (alloc_fragment(turns.tile, turns.running) for _ in range(2))
    own = alloc_scratch(turns.across(turns.tile, 1), turns.running)
    ticket = alloc_scratch((1,), "int32")
    first = first_thread()
    drawn = alloc_var("int32", init=0)
    if first:
        ticket[0] = atomic_add(shared.counters[TICKETS], 1, return_prev=True)
    sync_threads()
    mine, following = (alloc_var("int32", init=0) for _ in range(2))
    mine = ticket[0]
    _load(turns, ahead, mine)
    # A tile waits for others when the sum of the block's next one is there: who waits for that
    # would else wait for the tiles before this one as well.
    unfinished = alloc_var("int32", init=-1)
    fill(earlier, turns.identity(turns.running))
    count = turns.rows * turns.steps[turns.axis]
    while (mine < count) | (unfinished >= 0):
        if mine < count:
            if first:
                drawn = atomic_add(shared.counters[TICKETS], 1, return_prev=True)
            copy(ahead, sums)
            row, turn = _place(turns, mine)
            scan_tile(turns, sums, sums)
            _last_of(turns, sums, own)
            _leave(own, shared.sums, (row, turn))
            if first:
                ticket[0] = drawn
            sync_threads()
            if first:
                atomic_store(shared.flags[row, turn], 1, memory_order="release")
            following = ticket[0]
            _load(turns, ahead, following)
        if unfinished >= 0:
            row, turn = _place(turns, unfinished)
            _finish(turns, shared, earlier, row, turn)
        unfinished = -1
        if mine < count:
            copy(sums, earlier)
            unfinished = mine
        mine = following
    if is_last(shared.counters, DONE, _blocks() - 1):
        _clear(shared)


@macro
def _load(turns: Any, tile: Any, number: Any) -> None:
    if number < turns.rows * turns.steps[turns.axis]:
        row, turn = _place(turns, number)
        load_tile(turns, tile, turns.origin(row, turn))


@macro
def _place(turns: Any, number: Any) -> Any:
    """The row and the turn of a tile."""
    row, turn = number % turns.rows, number // turns.rows
    assume(row >= 0)
    assume(row < turns.rows)
    assume(turn >= 0)
    assume(turn < turns.steps[turns.axis])
    return row, turn


def _blocks() -> Any:
    return prod(in_kernel("T.cumsum").kernel.grid)


@macro
def _clear(shared: Any) -> None:
    shared.counters[TICKETS] = 0
    for row, place in Parallel(*shared.flags.shape):
        shared.flags[row, place] = 0
    for row, place in Parallel(*shared.total_flags.shape):
        shared.total_flags[row, place] = 0


@macro
def _finish(turns: Any, shared: Any, sums: Any, row: Any, turn: Any) -> None:
    """Adds what is before a tile to its sums, and stores them."""
    across = turns.across(turns.tile, 1)
    carry = alloc_fragment(across, turns.running)
    group, member = turn // shared.width, turn % shared.width
    _wait(shared, row, group, member)
    sync_threads()
    near, far = _reducer(turns, across), _reducer(turns, across)
    _combine(near, shared.sums, row, group * shared.width, member, shared.width)
    for step in serial((group + shared.width - 1) // shared.width):
        begin = step * shared.width
        _combine(far, shared.totals, row, begin, group - begin, shared.width)
    finalize_reducer(near)
    finalize_reducer(far)
    first = first_thread()
    if member == shared.width - 1:
        _leave_total(turns, near, shared, row, turn, group)
        sync_threads()
        if first:
            atomic_store(shared.total_flags[row, group], 1, memory_order="release")
    for place in Parallel(*across):
        here = place if isinstance(place, tuple) else (place,)
        carry[here] = turns.combine(far[here], near[here])
    for place in Parallel(*turns.tile):
        here = place if isinstance(place, tuple) else (place,)
        row_of = turns.across(here)
        sums[here] = turns.combine(carry[row_of], sums[here])
    store_tile(turns, sums, turns.origin(row, turn))


def _reducer(turns: Turns, across: tuple[int, ...]) -> Any:
    return alloc_reducer(across, turns.running, "sum" if turns.op == "cumsum" else "max")


@macro
def _last_of(turns: Any, sums: Any, own: Any) -> None:
    for place in Parallel(*turns.tile):
        here = place if isinstance(place, tuple) else (place,)
        if turns.is_last(here):
            own[turns.across(here)] = sums[here]


@macro
def _leave(own: Any, memory: Any, where: Any) -> None:
    for place in Parallel(*own.shape):
        here = place if isinstance(place, tuple) else (place,)
        there = (*where, *here)
        memory[there] = own[here]


@macro
def _leave_total(turns: Any, near: Any, shared: Any, row: Any, turn: Any, group: Any) -> None:
    for place in Parallel(*near.shape):
        here = place if isinstance(place, tuple) else (place,)
        there, own = (row, group, *here), (row, turn, *here)
        shared.totals[there] = turns.combine(near[here], shared.sums[own])


@macro
def _wait(shared: Any, row: Any, group: Any, member: Any) -> None:
    """Until the tiles before one are there that its group has, and the totals of earlier groups."""
    thread = _thread()
    found = alloc_var("int32", init=0)
    if thread < member:
        while found == 0:
            found = atomic_load(shared.flags[row, group * shared.width + thread], "acquire")
    earlier = alloc_var("int32", init=0)
    earlier = thread
    while earlier < group:
        found = atomic_load(shared.total_flags[row, earlier], "acquire")
        if found != 0:
            earlier = earlier + shared.width


def _thread() -> Expr:
    """The number of a thread in its block."""
    frame = in_kernel("T.cumsum").kernel
    number: Any = 0
    for d in reversed(range(len(frame.threads))):
        number = number * frame.threads[d] + frame.thread_vars[d]
    return number


@macro
def _combine(reducer: Any, memory: Any, row: Any, begin: Any, count: Any, most: Any) -> None:
    for place in Parallel(most, *reducer.shape):
        if place[0] < count:
            value = load(memory, [row, begin + place[0], *place[1:]])
            reducer.combine(list(place[1:]), [value])


__all__ = ["scan_over_grid"]
