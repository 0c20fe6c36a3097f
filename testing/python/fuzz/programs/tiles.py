"""Productions that any target has: copies, elementwise loops, reductions, scans, atomics."""

from __future__ import annotations

from fuzz.programs import model
from fuzz.programs.formats import is_float
from fuzz.programs.generate import Generator
from fuzz.programs.model import Buffer, Linear, Region, Statement, times, whole

Proposal = list[Statement] | None


def _tile_scope(g: Generator) -> str:
    return g.pick(("shared", "fragment", "fragment"))


def new_tile(g: Generator, shape: tuple[int, ...] | None = None, dtype: str = "") -> Buffer | None:
    shape = shape or g.tile_shape()
    scope = _tile_scope(g)
    if not g.fits(shape, scope):
        return None
    return g.allocate(scope, shape, dtype or g.pick(g.types))


def destination(
    g: Generator, shape: tuple[int, ...], not_this: Buffer | None = None
) -> Region | None:
    """Somewhere to write a tile of a shape: a new buffer, an old one, a slice, or an output."""
    roll = g.rng.random()
    if roll < 0.2:
        return g.output_tile(shape, g.pick(g.types))
    if roll < 0.65:
        choices = g.writable(
            lambda b: (
                b != not_this
                and b.scope != "tmem"
                and len(b.shape) == len(shape)
                and all(x <= y for x, y in zip(shape, b.shape, strict=True))
            )
        )
        if choices:
            buffer = g.pick(choices)
            mins = tuple(
                Linear(g.rng.randrange(0, size - extent + 1)) if size > extent else Linear()
                for extent, size in zip(shape, buffer.shape, strict=True)
            )
            return Region(buffer, mins, shape)
    tile = new_tile(g, shape)
    return whole(tile) if tile else None


def load(g: Generator) -> Proposal:
    """From an input to a tile."""
    tile = new_tile(g)
    if tile is None:
        return None
    dst = whole(tile)
    source = g.input_tile(dst.extents, tile.dtype if g.chance(0.7) else g.pick(g.types))
    return [model.Copy(source, dst, disable_tma=g.chance(0.2))]


def copy(g: Generator) -> Proposal:
    """From tile to tile or output, whole or in part."""
    choices = g.readable(lambda b: b.scope != "tmem")
    if not choices:
        return load(g)
    src = g.slice_of(g.pick(choices))
    dst = destination(g, src.extents, src.buffer)
    return [model.Copy(src, dst, disable_tma=g.chance(0.1))] if dst else None


def fill(g: Generator) -> Proposal:
    choices = g.writable(lambda b: b.scope != "tmem")
    tile = g.pick(choices) if choices and g.chance(0.6) else new_tile(g)
    if tile is None:
        return None
    return [model.Fill(g.slice_of(tile), g.pick((0, 0, 1, 2, 3)))]


def _index(g: Generator, size: int, variable: str, extent: int) -> Linear:
    """An index into a dimension that follows a loop variable of T.Parallel."""
    if size == extent:
        return Linear(extent - 1, ((variable, -1),)) if g.chance(0.1) else times(variable, 1)
    if size >= 2 * extent and g.chance(0.3):
        return times(variable, 2, g.rng.randrange(0, size - 2 * extent + 2))
    return times(variable, 1, g.rng.randrange(0, size - extent + 1))


def _leaf(
    g: Generator, variables: tuple[str, ...], extents: tuple[int, ...], dst: Buffer
) -> model.Expression:
    roll = g.rng.random()
    if roll < 0.12:
        return model.Constant(g.pick((0, 1, 2, 3)), "int32")
    if roll < 0.2:
        outer = [v for v, _ in (*g.context.loops, *g.context.drivers)]
        return model.Index(times(g.pick((*variables, *outer)), g.pick((1, 1, 2))))
    if roll < 0.35:
        dtype = g.pick(g.types)
        region = g.input_tile(extents, dtype)
        indices = tuple(
            Linear(low.const, (*low.terms, (v, 1)))
            for low, v in zip(region.mins, variables, strict=True)
        )
        return model.Load(region.buffer, indices)
    space = list(zip(variables, extents, strict=True))
    ways = []
    for buffer in g.readable(lambda b: b != dst):
        orders = [space] if len(buffer.shape) == len(space) else []
        if len(buffer.shape) == 1 and len(space) == 2:
            orders = [[space[0]], [space[1]]]
        elif len(orders) == 1 and len(space) == 2 and buffer.scope != "tmem":
            orders.append(space[::-1])
        for order in orders:
            if all(size >= extent for size, (_, extent) in zip(buffer.shape, order, strict=True)):
                ways += [(buffer, order)] * (3 if order is space else 1)
    if not ways:
        return model.Constant(g.pick((1, 2, 3)), "int32")
    buffer, order = g.pick(ways)
    dims = zip(buffer.shape, order, strict=True)
    indices = tuple(_index(g, size, v, extent) for size, (v, extent) in dims)
    return model.Load(buffer, indices)


def expression(
    g: Generator, variables: tuple[str, ...], extents: tuple[int, ...], dtype: str, dst: Buffer,
    depth: int = 2,
) -> model.Expression:  # fmt: skip
    """A random expression of a type over an iteration space that does not read ``dst``."""
    roll = g.rng.random()
    if depth == 0 or roll < 0.25:
        leaf = _leaf(g, variables, extents, dst)
        return leaf if leaf.dtype == dtype else model.Cast(leaf, dtype)
    if roll < 0.3:
        other = g.pick(g.types)
        inner = expression(g, variables, extents, other, dst, depth - 1)
        return inner if other == dtype else model.Cast(inner, dtype)
    if roll < 0.4 and dtype != "uint8":
        return model.Unary(
            g.pick(("neg", "abs")), expression(g, variables, extents, dtype, dst, depth - 1)
        )
    parts = [expression(g, variables, extents, dtype, dst, depth - 1) for _ in range(4)]
    if roll < 0.5:
        return model.Where(g.pick(("<", "<=", "==", "!=", ">", ">=")), *parts)
    return model.Binary(g.pick(("+", "+", "-", "*", "min", "max")), *parts[:2])


def _compute_type(g: Generator, dtype: str) -> str:
    if "8" in dtype or dtype == "int16" or g.chance(0.5):
        return g.pick(("float32", "int32")) if g.chance(0.3) else (
            "float32" if is_float(dtype) else "int32"
        )  # fmt: skip
    return dtype


def elementwise(g: Generator) -> Proposal:
    """A T.Parallel that writes one tile, perhaps with itself among the operands."""
    shape = g.tile_shape()
    if not g.fits(shape, "fragment"):
        return None
    dst = destination(g, shape)
    if dst is None:
        return None
    prefix = g.name("i")
    variables = tuple(f"{prefix}_{n}" for n in range(len(shape)))
    indices = tuple(
        Linear(low.const, (*low.terms, (v, 1))) for low, v in zip(dst.mins, variables, strict=True)
    )
    buffer = dst.buffer
    compute = _compute_type(g, buffer.dtype)
    value = expression(g, variables, shape, compute, buffer)
    if not buffer.is_global and g.defined(buffer) and g.chance(0.5):
        old: model.Expression = model.Load(buffer, indices)
        old = old if old.dtype == compute else model.Cast(old, compute)
        value = model.Binary(g.pick(("+", "-", "max")), old, value)
    if compute != buffer.dtype and g.chance(0.5):
        value = model.Cast(value, buffer.dtype)
    guard = None
    if g.chance(0.1) and shape[0] > 1:
        position = g.rng.randrange(len(shape))
        guard = (variables[position], g.rng.randrange(0, shape[position] + 1))
    store = model.Store(buffer, indices, value, guard)
    return [model.Parallel(variables, shape, (store,))]


_FLOAT_REDUCTIONS = ("sum", "sum", "max", "min", "absmax", "abssum")


def reduce(g: Generator) -> Proposal:
    choices = g.readable(lambda b: len(b.shape) == 2)
    if not choices:
        return load(g)
    src = g.pick(choices)
    dim = g.rng.randrange(2)
    kept = (src.shape[1 - dim],)
    clear = g.chance(0.8)
    shape = kept if g.chance(0.8) else ((kept[0], 1) if dim == 1 else (1, kept[0]))
    old = g.writable(lambda b: b.shape == shape and b.scope != "tmem" and b.dtype == src.dtype)
    scope = "fragment" if src.scope != "shared" or g.chance(0.7) else "shared"
    if not g.fits(shape, scope):
        return None
    dtype = src.dtype if g.chance(0.8) else "float32" if is_float(src.dtype) else "int32"
    dst = g.pick(old) if old and g.chance(0.4) else g.allocate(scope, shape, dtype)
    region = whole(src)
    if src.scope != "tmem" and g.chance(0.15):
        region = g.slice_of(src)
        if region.extents[1 - dim] != kept[0]:
            region = whole(src)
    op = g.pick(_FLOAT_REDUCTIONS)
    if src.dtype == "uint8":
        op = op.removeprefix("abs")
    return [model.Reduce(op, region, whole(dst), dim - (2 if g.chance(0.3) else 0), clear)]


def cumsum(g: Generator) -> Proposal:
    choices = g.readable(lambda b: is_float(b.dtype) or b.dtype == "int32")
    choices = [b for b in choices if b.scope != "tmem" and b not in g.context.no_write]
    if not choices:
        return None
    src = g.pick(choices)
    same = [b for b in g.writable(lambda b: b.shape == src.shape and b.dtype == src.dtype)
            if b.scope != "tmem"]  # fmt: skip
    return [model.Cumsum(src, g.pick(same), g.rng.randrange(len(src.shape)), g.chance(0.4))]


def transpose(g: Generator) -> Proposal:
    choices = g.readable(lambda b: len(b.shape) == 2 and b.scope != "tmem")
    if not choices:
        return None
    src = g.pick(choices)
    shape = src.shape[::-1]
    old = g.writable(lambda b: b.shape == shape and b.scope != "tmem" and b != src)
    dst = g.pick(old) if old and g.chance(0.5) else new_tile(g, shape, src.dtype)
    return [model.Transpose(src, dst)] if dst else None


def atomic(g: Generator) -> Proposal:
    """To a tensor that all blocks share: a tile, or element by element."""
    choices = g.readable(lambda b: b.scope != "tmem" and b.dtype in ("float32", "int32"))
    if not choices:
        return None
    src = g.pick(choices)
    op = "add" if src.dtype == "float32" else g.pick(("add", "max", "min"))
    target = g.output_tile(src.shape, src.dtype, sums=True)
    if g.chance(0.5):
        return [model.Atomic(op, whole(src), target)]
    prefix = g.name("i")
    variables = tuple(f"{prefix}_{n}" for n in range(len(src.shape)))
    indices = tuple(
        Linear(low.const, (*low.terms, (v, 1)))
        for low, v in zip(target.mins, variables, strict=True)
    )
    if g.chance(0.4):
        indices = (*indices[:-1], target.mins[-1])
    value = model.Load(src, tuple(times(v, 1) for v in variables))
    store = model.Store(target.buffer, indices, value, None, op)
    return [model.Parallel(variables, src.shape, (store,))]


def read_back(g: Generator) -> Proposal:
    """A tile goes to an output and comes back from there."""
    choices = g.readable(lambda b: b.scope != "tmem")
    if not choices:
        return None
    src = g.pick(choices)
    place = g.output_tile(src.shape, src.dtype)
    tile = new_tile(g, src.shape, src.dtype)
    return [model.Copy(whole(src), place), model.Copy(place, whole(tile))] if tile else None


PRODUCTIONS = (
    (10, load),
    (10, copy),
    (4, fill),
    (16, elementwise),
    (8, reduce),
    (2, cumsum),
    (2, transpose),
    (3, atomic),
    (2, read_back),
)
