"""``T.Persistent``: the tiles that one block after another takes, and who decides which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, difference, load, plain
from ..ir.dtype import INT32
from ..ir.expr import Expr, as_expr, call, cast, select, var
from ..ir.stmt import Stmt
from .allocate import alloc_workspace
from .builder import Builder, current
from .ignored import remark_ignored
from .loops import Loop, Opened, integer
from .pointer import address_of
from .scalar import AND, ceildiv, logical
from .scalar import max as maximum
from .scalar import min as minimum

_bind = _ffi.get("ir.Bind")
_break = _ffi.get("ir.Break")
_for = _ffi.get("ir.For")
_if = _ffi.get("ir.If")
_seq = _ffi.get("ir.Seq")

_SERIAL = 0
_SCHEDULERS = ("static", "counter", "table", "clc")
_NEXT_TILE = "next_tile"
_LISTED_TILE = "listed_tile"
#: an annotation of loops whose iterations compute a tile each, the same ones whatever they cost
_TILES = "static_tiles"


def Persistent(
    domain: Sequence[Any],
    wave_size: Any,
    index: Any,
    group_size: Any = 8,
    num_stages: int = 0,
    scheduler: str = "static",
    table: Any = None,
) -> Loop:
    """The tiles of ``domain`` that block ``index`` of ``wave_size`` blocks computes.

    Of the first dimension, ``group_size`` neighbours are visited together, for reuse in the L2
    cache. Which tiles a block takes:

    * ``"static"``: the numbers from ``index`` upward in steps of ``wave_size``;
    * ``"counter"``: its first tile is number ``index``; the next ones it takes from a counter in
      global memory that all blocks share, so that uneven tiles balance;
    * ``"table"``: as ``"static"``, of the tiles that ``table`` lists;
    * ``"clc"`` (sm_100a): the grid has a block for each tile; a running block takes over the tiles
      of blocks that have not started, by cluster launch control.

    Args:
        domain: number of tiles in each dimension.
        wave_size: number of blocks of the grid; in a kernel of clusters, whose blocks get the same
            tiles, of its clusters.
        index: number of this block, or of its cluster.
        group_size: tiles of the first dimension that form a group.
        num_stages: pipelining over tiles; only 0 is supported.
        scheduler: who decides.
        table: int32 tensor of one dimension: the numbers of the tiles in the order in which blocks
            take them, the last dimension of ``domain`` running fastest (``group_size`` is not
            used). -1, or another number that is no tile, ends the list: no block computes what
            stands behind it. Also for "counter" and "clc".

    Raises:
        SemanticsError: an unknown scheduler; one without its table; a counter for other blocks than
            those of the grid; "clc" with other blocks than one for each tile.
        ScopeError: a counter or "clc" in a loop or under a condition.
        UnsupportedError: "clc" beside what counts all blocks.
        DTypeError, ShapeError, ScopeError: ``table`` is not such a tensor.
        TargetError (when compiled): "clc" for a target without cluster launch control.
    """
    if num_stages:
        raise errors.UnsupportedError(
            f"T.Persistent does not support num_stages={num_stages}", span=span.here()
        )
    _check_scheduler(scheduler, table)
    sizes = [integer(size, "domain of T.Persistent") for size in domain]
    if table is not None:
        _check_table(table)
        remark_ignored("T.Persistent", group_size=plain(group_size))
    if scheduler in ("counter", "clc"):
        return _asked(sizes, wave_size, index, group_size, table, scheduler)
    if scheduler == "table":
        return _listed(sizes, wave_size, index, table)
    return _static(sizes, wave_size, index, group_size)


def _check_scheduler(scheduler: Any, table: Any) -> None:
    if scheduler not in _SCHEDULERS:
        raise errors.SemanticsError(
            f"T.Persistent has no scheduler={scheduler!r}",
            span=span.here(),
            notes=[f"known: {', '.join(map(repr, _SCHEDULERS))}"],
        )
    if (scheduler == "table") and table is None:
        raise errors.SemanticsError(
            'T.Persistent(scheduler="table") takes table=, the numbers of the tiles',
            span=span.here(),
            notes=['order: T.Tensor((tiles,), "int32")'],
        )
    if scheduler == "static" and table is not None:
        raise errors.SemanticsError(
            'table= of T.Persistent is not used by scheduler="static"',
            span=span.here(),
            notes=['scheduler="table" or "counter" takes tiles in its order'],
        )


def _check_table(table: Any) -> None:
    if not isinstance(table, Buffer):
        raise errors.SemanticsError(
            f"T.Persistent: table must be a tensor, got {type(table).__name__}", span=span.here()
        )
    if table.scope != "global":
        raise errors.ScopeError(
            f"T.Persistent: table must be in global memory, got {table.describe()}",
            span=span.here(),
        )
    if table.dtype != INT32:
        raise errors.DTypeError(
            f"T.Persistent: table must have type int32, got {table.describe()}",
            span=span.here(),
        )
    if len(table.shape) != 1:
        raise errors.ShapeError(
            f"T.Persistent: table must have one dimension, got {table.describe()}", span=span.here()
        )


def _number_of_tiles(sizes: Sequence[Expr]) -> Expr:
    total = as_expr(_product(sizes))
    if total.dtype != INT32 and not isinstance(plain(total), int):
        raise errors.DTypeError(
            f"T.Persistent: the number of tiles must have type int32, got {total.dtype}",
            span=span.here(),
            notes=['T.cast(tiles, "int32")'],
        )
    return as_expr(plain(total), INT32)


def _static(sizes: Sequence[Expr], wave_size: Any, index: Any, group_size: Any) -> Loop:
    """Every ``wave_size``-th tile."""
    total = _product(sizes)
    waves = as_expr(ceildiv(total, wave_size))

    def open_loop(hints: Sequence[str]) -> Opened:
        wave = var("wave", waves.dtype)
        tile = as_expr(index) + wave * wave_size
        inside = tile < total

        def close(body: Stmt, where: Any) -> Stmt:
            guarded = body if _divides(total, wave_size) else _if(inside, body, None, where)
            notes = {_TILES: True}
            return _for(wave, as_expr(0, wave.dtype), waves, _SERIAL, guarded, notes, where)

        return Opened(_grouped(tile, sizes, group_size), close)

    return Loop("T.Persistent", open_loop)


def _listed(sizes: Sequence[Expr], wave_size: Any, index: Any, table: Any) -> Loop:
    """Every ``wave_size``-th tile of a table."""
    total = _number_of_tiles(sizes)
    length = table.shape[0]
    waves = as_expr(ceildiv(length, wave_size))

    def open_loop(hints: Sequence[str]) -> Opened:
        wave = var("wave", waves.dtype)
        place = as_expr(index) + wave * wave_size
        tile = var("tile", INT32)

        def close(body: Stmt, where: Any) -> Stmt:
            read = select(wave > 0, place - wave_size + 1, 0)
            numbers = [cast(number, INT32) for number in (read, place, total)]
            entry = call(INT32, _LISTED_TILE, [address_of(load(table, [0])), *numbers])
            take = _bind(tile, entry, where)
            guarded = _seq([take, _while_inside(tile, total, body, where)], where)
            if not _divides(length, wave_size):
                guarded = _if(place < length, guarded, None, where)
            return _for(wave, as_expr(0, wave.dtype), waves, _SERIAL, guarded, {}, where)

        return Opened(_by_rows(tile, sizes), close)

    return Loop("T.Persistent", open_loop)


def _asked(
    sizes: Sequence[Expr],
    wave_size: Any,
    index: Any,
    group_size: Any,
    table: Any,
    scheduler: str,
) -> Loop:
    """Tiles, or tiles of a table, that a scheduler gives to the blocks that ask."""
    total = _number_of_tiles(sizes)
    places = total if table is None else as_expr(table.shape[0], INT32)

    def open_loop(hints: Sequence[str]) -> Opened:
        builder = current("T.Persistent")
        frame = builder.kernel
        _check_place(builder, index, wave_size, scheduler)
        counter = as_expr(0)
        if scheduler == "clc":
            _check_blocks(frame, wave_size, places)
            frame.conclusions.append(lambda: _check_rest(frame))
        else:
            words = alloc_workspace(
                (2,), "int32", zeroed=True, name="tile_counter", tile_numbers=True
            )
            counter = address_of(load(words, [0]))
        tile, turn = var("tile", INT32), var("turn", INT32)
        arguments = [
            as_expr(frame.tile_loops),
            as_expr(index, INT32),
            as_expr(wave_size, INT32),
            places,
            total,
            counter,
            as_expr(0) if table is None else load(table, [0]),
        ]
        frame.tile_loops += 1

        def close(body: Stmt, where: Any) -> Stmt:
            take = _bind(tile, call(INT32, _NEXT_TILE, arguments), where)
            # The last turn asks, and gets none.
            turns = as_expr(places + 1, INT32)
            inside = _seq([take, _while_inside(tile, total, body, where)], where)
            return _for(turn, as_expr(0, INT32), turns, _SERIAL, inside, {}, where)

        found = _grouped(tile, sizes, group_size) if table is None else _by_rows(tile, sizes)
        return Opened(found, close)

    return Loop("T.Persistent", open_loop)


def _check_place(builder: Builder, index: Any, wave_size: Any, scheduler: str) -> None:
    """Each block, or cluster, of the grid takes part once, by its number."""
    frame, what = builder.kernel, f'T.Persistent(scheduler="{scheduler}")'
    if builder.blocks[-1] is not frame.block:
        raise errors.ScopeError(
            f"{what} stands in a loop or under a condition; every block of the grid takes part in "
            "it once",
            span=span.here(),
            notes=["put it in the body of T.Kernel itself"],
        )
    blocks, size = _product(frame.grid), math.prod(frame.attrs.get("cluster_dims", [1]))
    if not _are_equal(blocks, as_expr(wave_size) * size):
        grid, share = f"`{blocks}` blocks", "the number of blocks that T.Kernel gets"
        if size > 1:
            grid, share = f"{grid} in clusters of {size}", "the number of clusters"
        raise errors.SemanticsError(
            f"{what}: wave_size is `{wave_size}`, and the grid has {grid}; all of them "
            "share the tiles",
            span=span.here(),
            notes=[f"pass {share}"],
        )
    if size == 1 and scheduler != "clc":
        return
    number = "index of the block" if size == 1 else "number of the cluster"
    if len(frame.grid) != 1 or not _are_equal(index, as_expr(frame.block_vars[0]) // size):
        last = "block" if size == 1 else f"block // {size}"
        raise errors.SemanticsError(
            f"{what}: index is `{index}`, not the {number} in a grid of one dimension",
            span=span.here(),
            notes=[f"with T.Kernel(blocks) as block: T.Persistent(domain, {wave_size}, {last}"],
        )


def _check_blocks(frame: Any, wave_size: Any, places: Any) -> None:
    """The grid has a block, or a cluster, for each tile."""
    if not _are_equal(wave_size, places):
        many = "blocks" if math.prod(frame.attrs.get("cluster_dims", [1])) == 1 else "clusters"
        raise errors.SemanticsError(
            f'T.Persistent(scheduler="clc"): the grid has `{wave_size}` {many} for `{places}` '
            f"tiles, but it must have one for each tile",
            span=span.here(),
            notes=[
                "T.Kernel(<number of tiles>), times the blocks of a cluster",
                'scheduler="counter" is for fewer blocks',
            ],
        )


def _check_rest(frame: Any) -> None:
    """Not all blocks run, so nothing in the kernel may count on each of them."""
    if frame.tile_loops > 1 or frame.counted or frame.attrs.get("swizzle_panel"):
        what = "another scheduler, a reduction or a scan over the grid, or T.use_swizzle"
        raise errors.UnsupportedError(
            f'T.Persistent(scheduler="clc") beside {what}: blocks whose tile another one takes '
            "over never run",
            span=span.here(),
            notes=['scheduler="counter" starts all blocks'],
        )


def _are_equal(a: Any, b: Any) -> bool:
    apart = plain(difference(plain(as_expr(a)), plain(as_expr(b))))
    return isinstance(apart, int) and apart == 0


def _while_inside(tile: Expr, total: Expr, body: Stmt, where: Any) -> Stmt:
    inside = logical(AND, tile >= 0, tile < total)
    return _if(inside, body, _break(where), where)


def _product(sizes: Sequence[Any]) -> Any:
    total: Any = 1
    for size in sizes:
        total = size * total
    return total


def _divides(total: Any, wave_size: Any) -> bool:
    numbers = plain(total), plain(wave_size)
    return all(isinstance(n, int) for n in numbers) and numbers[0] % numbers[1] == 0


def _grouped(tile: Expr, sizes: Sequence[Expr], group_size: Any) -> tuple[Any, ...] | Any:
    """The coordinates of tile number ``tile``: groups of rows, column by column inside."""
    inner = _product(sizes[1:])
    if any(isinstance(number, int) and number == 1 for number in map(plain, (inner, group_size))):
        return _by_rows(tile, sizes)
    group = tile // (inner * group_size)
    first = group * group_size
    # At least 1, also where there are no such tiles: remainders and quotients by it have bounds.
    rows = maximum(minimum(sizes[0] - first, group_size), 1)
    rest = tile % (inner * group_size)
    coordinates = [first + rest % rows]
    rest = rest // rows
    for n, size in enumerate(sizes[1:], start=2):
        later = _product(sizes[n:])
        coordinates.append(rest // later % size if n > 2 else rest // later)
    return tuple(coordinates)


def _by_rows(tile: Expr, sizes: Sequence[Expr]) -> tuple[Any, ...] | Any:
    """The coordinates of tile number ``tile``, the last one running fastest."""
    if len(sizes) == 1:
        return tile
    coordinates = []
    for n, size in enumerate(sizes):
        step = _product(sizes[n + 1 :])
        coordinates.append(tile // step % size if n else tile // step)
    return tuple(coordinates)
