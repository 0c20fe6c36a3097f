"""Productions of control flow: loops, branches, roles, barriers, mbarriers between roles."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from fuzz.programs import loads, model
from fuzz.programs.generate import Context, Generator
from fuzz.programs.model import Linear, Statement, times, whole
from fuzz.programs.tiles import Proposal

_DEEPEST = 2


def sync(g: Generator) -> Proposal:
    return None if g.context.owner else [model.Sync()]


def assign(g: Generator) -> Proposal:
    """Scalars belong to all threads; a role would change its own copy only."""
    if not g.program.variables or g.context.owner:
        return None
    variable = g.pick(list(g.program.variables))
    value = times(variable, 1, 1)
    if g.context.loops and g.chance(0.5):
        value = times(g.pick(g.context.loops)[0], g.pick((1, 2)))
    return [model.Assign(variable, value)]


def _value(g: Generator) -> Linear:
    """Something that is the same in all threads."""
    names = [v for v, _ in (*g.context.drivers, *g.context.loops, *g.context.loops)]
    return times(g.pick(names + list(g.program.scalars) + list(g.program.variables)), 1)


def condition(g: Generator) -> model.Condition:
    op = g.pick(("==", "!=", "<", ">", ">=", "<="))
    if g.chance(0.3):
        return model.Condition(_value(g), g.pick(("==", "!=")), g.pick((0, 1)), 2)
    return model.Condition(_value(g), op, g.pick((0, 1, 1, 2)))


def branch(g: Generator) -> Proposal:
    if g.context.depth >= _DEEPEST:
        return None
    context = replace(g.context, depth=g.context.depth + 1)
    then = g.inner(g.pick((1, 1, 2)), context)
    orelse = g.inner(1, context) if g.chance(0.4) else ()
    return [model.If(condition(g), then, orelse)] if then else None


def _trips(g: Generator) -> tuple[Linear, int]:
    """How often a loop runs, and the most that can be; often known at run time only."""
    roll = g.rng.random()
    if roll < 0.2 and g.program.scalars:
        return times("n0", 1), g.program.scalars["n0"]
    if roll < 0.3:
        variable, count = g.pick(g.context.drivers)
        return times(variable, 1, g.pick((0, 1))), count
    trips = g.pick((0, 1, 2, 2, 3, 3, 4))
    return Linear(trips), trips


def loop(g: Generator) -> Proposal:
    if g.context.depth >= _DEEPEST:
        return None
    kind = g.pick(("serial", "serial", "unroll", "Pipelined", "Pipelined", "Pipelined"))
    stop, most = _trips(g)
    if kind == "unroll" and not stop.is_constant:
        kind = "serial"
    start = 1 if most > 1 and g.chance(0.1) else 0
    variable = g.name("k")
    context = replace(
        g.context,
        loops=(*g.context.loops, (variable, most)),
        depth=g.context.depth + 1,
        in_pipeline=g.context.in_pipeline or kind == "Pipelined",
    )
    count = g.pick((1, 1, 2)) if kind == "Pipelined" else 0
    first = [loads.any_load(g) for _ in range(count)]
    body = g.inner(g.pick((1, 2, 3)), context, first)
    if not body:
        return None
    if kind == "serial" and g.chance(0.2):
        leave = model.Leave(g.pick(("break", "continue")), _leaving(g, variable, most))
        at = g.rng.randrange(len(body) + 1)
        body = (*body[:at], leave, *body[at:])
    stages = g.pick((0, 1, 2, 2, 3, 4)) if kind == "Pipelined" else 0
    return [model.For(kind, variable, start, stop, body, stages)]


def _leaving(g: Generator, variable: str, most: int) -> model.Condition:
    value = times(variable, 1) if g.chance(0.8) else _value(g)
    return model.Condition(value, g.pick(("==", ">=", ">")), g.rng.randrange(0, most + 1))


def persistent(g: Generator) -> Proposal:
    """The blocks of a one-dimensional grid share the tiles of a matrix."""
    if g.context.depth or len(g.program.grid) != 1 or g.context.owner:
        return None
    rows, columns = g.pick((1, 2, 3)), g.pick((1, 2))
    y, x = g.name("y"), g.name("x")
    drivers = ((y, rows), (x, columns))
    context = replace(g.context, drivers=drivers, depth=1)
    body = g.inner(g.pick((2, 3)), context, [loads.any_load(g)])
    if not body:
        return None
    group = g.pick((1, 2, 8))
    wave = g.program.grid[0]
    # The tiles of a block follow from its number: it is alone, or each has one at most.
    counted = wave == 1 or rows * columns <= wave
    return [model.Persistent((y, x), (rows, columns), wave, group, body, counted)]


# ---------------------------------------------------------------------------------------- roles


def _cuts(g: Generator, parts: int) -> list[tuple[int, int]] | None:
    """The threads of the block in consecutive whole warps or warpgroups."""
    unit = 128 if g.tensor_core and g.chance(0.85) else 32
    units, rest = divmod(g.program.threads, unit)
    if rest or units < parts:
        return None
    edges = sorted(g.rng.sample(range(1, units), parts - 1))
    edges = [0, *edges, units]
    return [(a * unit, b * unit) for a, b in pairwise(edges)]


def selects(g: Generator, first: int, last: int) -> str:
    """A condition that holds in these threads, in one of many spellings."""
    ways = [f"(tid >= {first}) & (tid < {last})"]
    size = last - first
    if first == 0:
        ways += [f"tid < {last}", f"T.get_warp_idx() < {last // 32}"]
    if last == g.program.threads:
        ways += [f"tid >= {first}", f"T.get_warp_idx() >= {first // 32}"]
    if first % size == 0:
        ways.append(f"tid // {size} == {first // size}")
    if first % 128 == 0 and last % 128 == 0:
        groups = range(first // 128, last // 128)
        ways += [f"T.ws({', '.join(map(str, groups))})"] * 2
        if size == 128:
            ways.append(f"T.get_warp_group_idx() == {first // 128}")
    return g.pick(ways)


def _role_context(g: Generator, first: int, last: int) -> Context:
    return replace(
        g.context, owner=f"{first}_{last}", first=first, last=last, depth=g.context.depth + 1
    )


def _is_ws(test: str) -> bool:
    return test.startswith("T.ws(")


def _plain(g: Generator, first: int, last: int) -> str:
    while _is_ws(test := selects(g, first, last)):
        pass
    return test


def role(g: Generator) -> Proposal:
    """Parts of the block do different work, one after the other or at the same time."""
    if g.context.owner or g.context.depth >= _DEEPEST:
        return None
    parts = _cuts(g, g.pick((2, 2, 3)))
    if parts is None:
        return None
    chained = g.chance(0.5)
    if not chained and g.chance(0.5):
        parts = [g.pick(parts)]
    tests, bodies = [], []
    context = g.context
    kept = g.machine.keep()
    no_read, no_write = set(context.no_read), set(context.no_write)
    for n, (first, last) in enumerate(parts):
        inner = _role_context(g, first, last)
        if chained:
            inner = replace(inner, no_read=frozenset(no_read), no_write=frozenset(no_write))
        body = g.inner(g.pick((1, 2, 3)), inner, [loads.any_load(g)] if g.chance(0.5) else [])
        read, written = model.effects(body)
        no_read |= written
        no_write |= read | written
        g.attempt(body)
        at_end = chained and n == len(parts) - 1
        spelled = _plain(g, first, last) if chained else selects(g, first, last)
        tests.append("" if at_end and g.chance(0.7) else spelled)
        bodies.append(body)
    g.machine.restore(kept)
    if not all(bodies):
        return None
    return [model.Role(tuple(tests), tuple(bodies), chained)]


def handshake(g: Generator) -> Proposal:
    """A producer fills a ring of shared tiles, a consumer empties it; mbarriers order them."""
    if g.context.owner or g.context.loops or g.context.depth:
        return None
    parts = _cuts(g, 2)
    if parts is None:
        return None
    if g.chance(0.5):
        parts.reverse()
    (p0, p1), (c0, c1) = parts
    stages, (trips, most) = g.pick((1, 2, 2, 3)), _trips(g)
    shape, dtype = (g.rows, g.columns), g.pick(g.types)
    if g.rows * g.columns * stages > 1 << 14 or g.rows * g.columns > 48 * (c1 - c0):
        return None
    variable, stage = g.name("k"), g.name("d")
    loops = (*g.context.loops, (variable, most))
    ring = g.allocate("shared", (stages, *shape), dtype)
    slot = model.Region(ring, (times(stage, 1), Linear(), Linear()), (1, *shape))
    producer = replace(_role_context(g, p0, p1), loops=loops)
    consumer = replace(_role_context(g, c0, c1), loops=loops)
    g.context, outer = producer, g.context
    source = g.input_tile(shape, dtype)
    g.context = consumer
    total = g.allocate("fragment", shape, g.pick(("float32", "int32", dtype)))
    i, j = f"{variable}_i", f"{variable}_j"
    added: model.Expression = model.Load(ring, (times(stage, 1), times(i, 1), times(j, 1)))
    if added.dtype != total.dtype:
        added = model.Cast(added, total.dtype)
    at = (times(i, 1), times(j, 1))
    value = model.Binary(g.pick(("+", "max", "-")), model.Load(total, at), added)
    drain: list[Statement] = [model.Parallel((i, j), shape, (model.Store(total, at, value),))]
    if g.chance(0.3):
        drain.append(model.Copy(slot, g.output_tile(shape, dtype), disable_tma=g.chance(0.3)))
    g.context = outer
    result = g.output_tile(shape, total.dtype)
    return [
        model.Handshake(
            variable, stage, trips, stages, _plain(g, p0, p1),
            "" if g.chance(0.5) else _plain(g, c0, c1), p1 - p0, c1 - c0,
            (model.Fill(whole(total), 0),),
            (model.Copy(source, slot, disable_tma=g.chance(0.3)),),
            tuple(drain),
            (model.Copy(whole(total), result),),
        )
    ]  # fmt: skip


def finish_roles(g: Generator) -> tuple[Statement, ...]:
    """Copies of what roles left in their fragments to outputs, in the same threads."""
    body: list[Statement] = []
    owners = sorted({b.owner for b in g.locals if b.owner})
    for owner in owners[:2]:
        first, last = map(int, owner.split("_"))
        outer = g.context
        g.context = _role_context(g, first, last)
        inner = g.finish()[:2]
        g.context = outer
        statement = model.Role((selects(g, first, last),), (inner,), False)
        if inner:
            body.append(statement)
    return tuple(body)


PRODUCTIONS = (
    (2, sync),
    (2, assign),
    (4, branch),
    (9, loop),
    (2, persistent),
    (4, role),
    (2, handshake),
)
