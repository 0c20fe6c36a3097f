"""Productions that load other than by a copy of a box: element by element, through an index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fuzz.programs import model, tiles
from fuzz.programs.generate import Generator
from fuzz.programs.model import Buffer, Indirect, Linear, Region, Statement, times, whole
from fuzz.programs.tiles import Proposal

_ROWS = (1, 2, 5, 8, 16, 33)


def _space(g: Generator, rank: int) -> tuple[str, ...]:
    prefix = g.name("i")
    return tuple(f"{prefix}_{n}" for n in range(rank))


def _stored(dst: Region, variables: tuple[str, ...], value: model.Load) -> model.Parallel:
    """A T.Parallel that fills a region."""
    dtype = dst.buffer.dtype
    at = tuple(
        Linear(low.const, (*low.terms, (v, 1)))
        for low, v in zip(dst.mins, variables, strict=True)
        if isinstance(low, Linear)
    )
    given = value if value.dtype == dtype else model.Cast(value, dtype)
    return model.Parallel(variables, dst.extents, (model.Store(dst.buffer, at, given),))


def _filled(g: Generator) -> Region | None:
    """What a load fills: a tile, sometimes part of one, or an output."""
    shape = g.tile_shape()
    if not g.fits(shape, "fragment"):
        return None
    if g.chance(0.3):
        return tiles.destination(g, shape)
    tile = tiles.new_tile(g, shape)
    return whole(tile) if tile else None


def parallel(g: Generator) -> Proposal:
    """``tile[i, j] = A[... + i, ... + j]``, perhaps of some rows or columns only."""
    dst = _filled(g)
    if dst is None:
        return None
    dtype = dst.buffer.dtype if g.chance(0.8) else g.pick(g.types)
    source = g.input_tile(dst.extents, dtype)
    variables = _space(g, len(dst.extents))
    indices = tuple(
        Linear(low.const, (*low.terms, (v, 1)))
        for low, v in zip(source.mins, variables, strict=True)
        if isinstance(low, Linear)
    )
    loop = _stored(dst, variables, model.Load(source.buffer, indices))
    if g.chance(0.2):
        position = g.rng.randrange(len(variables))
        guard = (variables[position], g.rng.randrange(1, dst.extents[position] + 1))
        loop = replace(loop, stores=(replace(loop.stores[0], guard=guard),))
    return [loop]


def _looked_up(g: Generator, count: int, rows: int) -> tuple[list[Statement], Region] | None:
    """Places in ``rows`` rows: of an input, or of a tile that is filled from it."""
    given = g.indices(count, rows)
    if g.chance(0.6):
        return [], given
    scope = g.pick(("shared", "shared", "fragment"))
    if not g.fits((count,), scope):
        return None
    tile = g.allocate(scope, (count,), "int32")
    return [model.Copy(given, whole(tile), disable_tma=g.chance(0.2))], whole(tile)


def _table(g: Generator, rows: int, columns: int, dtype: str) -> tuple[Buffer, Linear]:
    """An input of so many rows, and where the columns begin; perhaps the last ones lack."""
    source = g.input_tile((columns,), dtype)
    buffer = Buffer(source.buffer.name, (rows, *source.buffer.shape), dtype, "input")
    low = source.mins[0]
    assert isinstance(low, Linear)
    return buffer, low


def _at(where: Region, variable: str) -> Indirect:
    low = where.mins[0]
    assert isinstance(low, Linear)
    return Indirect(model.Load(where.buffer, (Linear(low.const, (*low.terms, (variable, 1))),)))


def gather(g: Generator) -> Proposal:
    """``tile[i, j] = A[index[i], j]``"""
    dst = _filled(g)
    if dst is None or len(dst.extents) != 2:
        return None
    count, columns = dst.extents
    rows = g.pick(_ROWS)
    found = _looked_up(g, count, rows)
    if found is None:
        return None
    before, where = found
    table, low = _table(g, rows, columns, dst.buffer.dtype if g.chance(0.8) else g.pick(g.types))
    i, j = variables = _space(g, 2)
    column = Linear(low.const, (*low.terms, (j, 1)))
    value = model.Load(table, (_at(where, i), column))
    return [*before, _stored(dst, variables, value)]


def gathered_rows(g: Generator) -> Proposal:
    """A copy of each row, ``T.copy(A[index[r], ...], tile[r, ...])``, in a loop of its own."""
    count, columns = g.pick((1, 2, 3, 4, 8)), g.columns
    tile = tiles.new_tile(g, (count, columns))
    rows = g.pick(_ROWS)
    found = _looked_up(g, count, rows) if tile else None
    if tile is None or found is None:
        return None
    before, where = found
    table, low = _table(g, rows, columns, tile.dtype if g.chance(0.8) else g.pick(g.types))
    r = g.name("k")
    src = Region(table, (_at(where, r), low), (1, columns))
    dst = Region(tile, (times(r, 1), Linear()), (1, columns))
    copy = model.Copy(src, dst, disable_tma=g.chance(0.3))
    kind = g.pick(("serial", "unroll"))
    return [*before, model.For(kind, r, 0, Linear(count), (copy,))]


def page(g: Generator) -> Proposal:
    """A box whose rows begin where a table says, as of a cache that is kept in pages."""
    tile = tiles.new_tile(g, (g.rows, g.columns))
    if tile is None:
        return None
    pages = g.pick((1, 2, 3, 5))
    variables = [(v, n) for v, n in (*g.context.loops, *g.context.drivers) if n]
    variable, count = g.pick(variables) if variables else ("", 1)
    buffer = Buffer(g.name("A"), (max(1, count),), "int32", "input")
    g.program.ranges[buffer.name] = (0, pages - 1, 1.0)
    index = times(variable, 1) if variable else Linear()
    table, low = _table(
        g, pages * g.rows, g.columns, tile.dtype if g.chance(0.8) else g.pick(g.types)
    )
    first = Indirect(model.Load(buffer, (index,)), g.rows)
    source = Region(table, (first, low), (g.rows, g.columns), corner=g.chance(0.4))
    return [model.Copy(source, whole(tile), disable_tma=g.chance(0.3))]


def any_load(g: Generator) -> Callable[[Generator], Proposal]:
    """One of the ways to load, copies most often."""
    return g.pick((tiles.load, tiles.load, tiles.load, parallel, gather, page))


PRODUCTIONS = (
    (4, parallel),
    (4, gather),
    (2, gathered_rows),
    (3, page),
)
