"""Scans from tensor to tensor that go through memory tile by tile."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Region, difference, load, plain, shape_text
from ..ir.dtype import DType
from ..ir.expr import cast
from ..ir.stmt import emit
from .allocate import alloc_fragment, alloc_scratch
from .builder import in_kernel
from .copy import copy, fill
from .function import macro
from .ignored import remark_choice
from .loops import Parallel, serial
from .reduce_axes import running_type
from .region import as_region
from .scalar import if_then_else, lowest
from .scalar import max as maximum

_reduce = _ffi.get("ir.Reduce")

#: What is in flight for a thread: vectors of 16 bytes.
VECTORS = 4
#: Of neighbours along the last dimension, where it is not scanned: bytes.
RUN_BYTES = 256
#: Elements of a thread up to which a scan takes its tile at once.
AT_ONCE = 32


class Turns(NamedTuple):
    """A scan in turns.

    Attributes:
        op: "cumsum" or "cummax".
        source, target: the regions.
        axis: the dimension that is scanned.
        tile: the shape of a tile.
        steps: how many tiles there are along each dimension.
        running: the type of sums.
        reverse: whether the last tile comes first.
    """

    op: str
    source: Region
    target: Region
    axis: int
    tile: tuple[int, ...]
    steps: tuple[Any, ...]
    running: DType
    reverse: bool

    @property
    def rows(self) -> Any:
        """Returns the number of tiles across the scanned dimension."""
        return prod(step for d, step in enumerate(self.steps) if d != self.axis)

    @property
    def held(self) -> DType:
        """The type of elements in registers: the narrowest that has an identity."""
        return self.source.dtype if self.op == "cumsum" else self.running

    def identity(self, dtype: DType) -> Any:
        """Returns the identity of the scan."""
        return cast(0, dtype) if self.op == "cumsum" else lowest(dtype)

    def combine(self, a: Any, b: Any) -> Any:
        """Returns ``a`` combined with ``b`` after it."""
        return a + b if self.op == "cumsum" else maximum(a, b)

    def origin(self, row: Any, turn: Any) -> list[Any]:
        """Returns where a tile begins in the regions."""
        at: list[Any] = []
        for d in reversed(range(len(self.tile))):
            if d == self.axis:
                place = self.steps[d] - 1 - turn if self.reverse else turn
            elif isinstance(self.steps[d], int) and self.steps[d] == 1:
                place = 0
            else:
                place, row = row % self.steps[d], row // self.steps[d]
            at.append(place * self.tile[d])
        return at[::-1]

    def inside(self, origin: list[Any], here: tuple[Any, ...]) -> Any:
        """Returns whether an element of a tile is one of the regions; True where all are."""
        found: Any = True
        for d, extent in enumerate(map(plain, self.source.shape)):
            if isinstance(extent, int) and extent % self.tile[d] == 0:
                continue
            below = origin[d] + here[d] < extent
            found = below if found is True else found & below
        return found

    def is_last(self, here: tuple[Any, ...]) -> Any:
        """Returns whether an element is the last of its tile that the scan comes to."""
        return here[self.axis] == (0 if self.reverse else self.tile[self.axis] - 1)

    def across(self, here: tuple[Any, ...], along: int = 0) -> tuple[Any, ...]:
        """The place of what a row carries, or its shape: ``along`` for what is scanned."""
        return (*here[: self.axis], along, *here[self.axis + 1 :])


def emit_scan(op: str, source: Region, target: Region, axis: int, reverse: bool) -> None:
    """The scan ("cumsum", "cummax") of a tile that registers hold at once."""
    name = f"reverse_{op}" if reverse else op
    emit(_reduce(source, target, name, axis, True, False, None, span.current()))


def fits_at_once(source: Region, threads: int) -> bool:
    """Returns whether registers have room for a region that is scanned."""
    shape = [plain(extent) for extent in source.shape]
    return all(isinstance(e, int) for e in shape) and prod(shape) <= threads * AT_ONCE


def turns_of(what: str, op: str, source: Region, target: Region, axis: int, reverse: bool) -> Turns:
    """The tiles of a tensor of any extent.

    Raises:
        SemanticsError: source and target may overlap without being the same.
    """
    _check_apart(what, source, target)
    shape = [plain(extent) for extent in source.shape]
    tile = _tile(shape, axis, source.dtype.bits, prod(in_kernel(what).kernel.threads))
    steps = tuple(
        -(-extent // size) if isinstance(extent, int) else (extent + size - 1) // size
        for extent, size in zip(shape, tile, strict=True)
    )
    running = _running(op, source.dtype, target.dtype)
    return Turns(op, source, target, axis, tile, steps, running, reverse)


def scan_in_turns(what: str, turns: Turns) -> None:
    """Scans a tensor tile by tile."""
    remark_choice(
        "scan",
        f"{what} of {shape_text(turns.source.shape)} along dimension {turns.axis}: "
        f"{turns.steps[turns.axis]} turns of tiles of {shape_text(turns.tile)}"
        + ("" if _is(turns.rows, 1) else f", for each of {turns.rows} parts of what is left"),
    )
    _run(turns)


def _tile(shape: list[Any], axis: int, bits: int, threads: int) -> tuple[int, ...]:
    """A tile of powers of two: along the last dimension, what is scanned, then the others."""
    budget = threads * VECTORS * max(1, 128 // bits)
    tile = [1] * len(shape)

    def take(d: int, most: int) -> None:
        nonlocal budget
        extent = shape[d]
        wanted = 1 << (extent - 1).bit_length() if isinstance(extent, int) else most
        tile[d] = max(1, min(wanted, most, 1 << (budget.bit_length() - 1)))
        budget //= tile[d]

    last = len(shape) - 1
    if axis != last:
        take(last, RUN_BYTES * 8 // bits)
    take(axis, budget)
    for d in reversed(range(last)):
        if d != axis and budget > 1:
            take(d, budget)
    return tuple(tile)


def _running(op: str, source: DType, target: DType) -> DType:
    if op == "cummax" and not target.is_float:
        return running_type(source)
    if source.is_float and (not target.is_float or source.bits > target.bits):
        return running_type(source)
    return running_type(target)


def _is(value: Any, number: int) -> bool:
    return isinstance(value, int) and value == number


def _check_apart(what: str, source: Region, target: Region) -> None:
    if not source.buffer.same_as(target.buffer):
        return
    apart = [difference(a, b) for a, b in zip(source.mins, target.mins, strict=True)]
    if all(_is(each, 0) for each in apart):
        return
    for each, extent in zip(apart, map(plain, source.shape), strict=True):
        if isinstance(each, int) and isinstance(extent, int) and abs(each) >= extent:
            return
    raise errors.SemanticsError(
        f"{what} of {source} into {target}: the regions overlap, so a tile could overwrite "
        "elements that a later tile must read",
        span=span.here(),
        notes=["scan into the same region, or into another tensor"],
    )


@macro
def _run(turns: Any) -> None:
    ahead, now = (alloc_fragment(turns.tile, turns.held) for _ in range(2))
    sums = alloc_fragment(turns.tile, turns.running)
    carry = alloc_fragment(turns.across(turns.tile, 1), turns.running)
    last = alloc_scratch(carry.shape, turns.running)
    for row in serial(turns.rows):
        load_tile(turns, ahead, turns.origin(row, 0))
        fill(carry, turns.identity(turns.running))
        for turn in serial(turns.steps[turns.axis]):
            copy(ahead, now)
            if turn + 1 < turns.steps[turns.axis]:
                load_tile(turns, ahead, turns.origin(row, turn + 1))
            scan_tile(turns, now, sums)
            _carry_on(turns, sums, carry, last)
            store_tile(turns, sums, turns.origin(row, turn))
            copy(last, carry)


def scan_tile(turns: Turns, src: Any, dst: Any) -> None:
    emit_scan(turns.op, as_region("", src), as_region("", dst), turns.axis, turns.reverse)


@macro
def load_tile(turns: Any, tile: Any, origin: Any) -> None:
    for place in Parallel(*turns.tile):
        here = place if isinstance(place, tuple) else (place,)
        tile[here] = _element(turns, origin, here)


def _element(turns: Turns, origin: list[Any], here: tuple[Any, ...]) -> Any:
    source = turns.source
    at = [low + begin + i for low, begin, i in zip(source.mins, origin, here, strict=True)]
    value = cast(load(source.buffer, at), turns.held)
    return if_then_else(turns.inside(origin, here), value, turns.identity(turns.held))


@macro
def _carry_on(turns: Any, sums: Any, carry: Any, last: Any) -> None:
    for place in Parallel(*turns.tile):
        here = place if isinstance(place, tuple) else (place,)
        row = turns.across(here)
        sums[here] = turns.combine(carry[row], sums[here])
    for place in Parallel(*turns.tile):
        here = place if isinstance(place, tuple) else (place,)
        row = turns.across(here)
        if turns.is_last(here):
            last[row] = sums[here]


@macro
def store_tile(turns: Any, sums: Any, origin: Any) -> None:
    for place in Parallel(*turns.tile):
        here = place if isinstance(place, tuple) else (place,)
        there = _place(turns, origin, here)
        if turns.inside(origin, here):
            turns.target.buffer[there] = cast(sums[here], turns.target.dtype)


def _place(turns: Turns, origin: list[Any], here: tuple[Any, ...]) -> tuple[Any, ...]:
    target = turns.target
    return tuple(low + begin + i for low, begin, i in zip(target.mins, origin, here, strict=True))
