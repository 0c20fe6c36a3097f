"""Random programs from seeds.

Statements are proposed one at a time by the productions of ``tiles``, ``tensor`` and ``control``,
run by the reference at once, and kept if they have one exact result on the program's own data.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fuzz.programs import model
from fuzz.programs.formats import Inexact, is_float
from fuzz.programs.interpret import Machine, Rejected, _Left
from fuzz.programs.model import Buffer, Linear, Region, Statement, times, whole


@dataclass
class Context:
    """Where a statement stands.

    Attributes:
        owner: of the fragments here: "" or the role's name.
        first, last: the threads that are here.
        drivers: variables that tell the tiles of blocks apart, with how many values they have.
        loops: variables of the loops around, with one more than their largest value.
        no_read, no_write: buffers that a role at the same time uses.
        depth: nesting.
    """

    owner: str
    first: int
    last: int
    drivers: tuple[tuple[str, int], ...]
    loops: tuple[tuple[str, int], ...] = ()
    no_read: frozenset[Buffer] = frozenset()
    no_write: frozenset[Buffer] = frozenset()
    depth: int = 0
    in_pipeline: bool = False

    @property
    def threads(self) -> int:
        return self.last - self.first

    @property
    def warpgroups(self) -> bool:
        return self.threads % 128 == 0 and self.first % 128 == 0


_THREADS = (32, 64, 96, 128, 128, 128, 160, 192, 256, 256, 384, 512)
_ROWS = (1, 2, 3, 5, 8, 13, 16, 16, 24, 31, 32, 32, 33, 48, 57, 64, 64, 65, 96, 100, 128)
_COLUMNS = (1, 2, 4, 7, 8, 8, 12, 16, 16, 20, 24, 31, 32, 32, 40, 48, 63, 64, 64, 72, 96, 128, 130)
_SIMT_TYPES = ("float32",) * 4 + ("float16", "bfloat16", "int32") * 2 + (
    "int8", "uint8", "int16", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip


@dataclass
class Generator:
    """A program in the making."""

    rng: random.Random
    program: model.Program
    context: Context
    rows: int
    columns: int
    types: tuple[str, ...]
    tensor_core: bool
    machine: Machine = field(init=False)
    locals: list[Buffer] = field(default_factory=list)
    outputs: list[tuple[Region, str]] = field(default_factory=list)
    names: int = 0

    def __post_init__(self) -> None:
        self.machine = Machine(self.program)

    # -------------------------------------------------------------------------------- choices

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, values: Sequence):
        return values[self.rng.randrange(len(values))]

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    # -------------------------------------------------------------------------------- buffers

    def allocate(self, scope: str, shape: tuple[int, ...], dtype: str, use: str = "") -> Buffer:
        letter = {"shared": "s", "fragment": "f", "tmem": "t"}[scope]
        owner = self.context.owner if scope == "fragment" else ""
        buffer = Buffer(self.name(letter), shape, dtype, scope, owner, use)
        self.locals.append(buffer)
        return buffer

    def defined(self, buffer: Buffer) -> bool:
        """Whether every element has a value in every block that has begun."""
        return all(not block.tensor(buffer).isnan().any() for block in self.machine.blocks)

    def usable(self, buffer: Buffer) -> bool:
        if buffer.scope == "fragment":
            return buffer.owner == self.context.owner
        return buffer.scope != "tmem" or self.context.warpgroups

    def readable(self, accept: Callable[[Buffer], bool] = lambda b: True) -> list[Buffer]:
        return [
            b
            for b in self.locals
            if b not in self.context.no_read and self.usable(b) and accept(b) and self.defined(b)
        ]

    def writable(self, accept: Callable[[Buffer], bool] = lambda b: True) -> list[Buffer]:
        return [
            b
            for b in self.locals
            if b not in self.context.no_write and self.usable(b) and accept(b)
        ]

    def fits(self, shape: tuple[int, ...], scope: str) -> bool:
        """Whether one more tile of a shape leaves registers and shared memory enough."""
        size = 1
        for extent in shape:
            size *= extent
        if scope == "fragment":
            return size <= 48 * self.context.threads
        return size <= 1 << 13

    def tile_shape(self) -> tuple[int, ...]:
        m, n = self.rows, self.columns
        return self.pick([(m, n)] * 6 + [(n, m), (m,), (n,), (m, max(1, n // 2))])

    # -------------------------------------------------------------------------------- tensors

    def values_of(self, dtype: str) -> tuple[int, int, float]:
        """The range of random inputs: small, so that sums are exact."""
        high = self.pick((1, 2, 3, 3))
        factor = self.pick((1.0, 1.0, 1.0, 0.5, 0.25)) if is_float(dtype) else 1.0
        return (0 if dtype == "uint8" else -high), high, factor

    def _place(self, shape: tuple[int, ...], distinct: bool) -> tuple[list[Linear], list[int]]:
        """Where a tile of a shape lies in a tensor that has one for every block and iteration.

        Args:
            distinct: blocks must not share elements.
        """
        drivers = list(self.context.drivers)
        loop = self.pick(self.context.loops) if self.context.loops and self.chance(0.7) else None
        mins, sizes = [], []
        for position, extent in enumerate(shape):
            low, size = Linear(), extent
            if position == len(shape) - 1 and loop and extent > 1:
                low, size = times(loop[0], extent), extent * max(1, loop[1])
            at_last = position == min(len(shape), len(self.context.drivers)) - 1
            while drivers and (distinct or self.chance(0.8)):
                variable, count = drivers.pop(0)
                low = Linear(low.const, (*low.terms, (variable, size)))
                size *= count
                if not at_last or not distinct:
                    break
            mins.append(low)
            sizes.append(size)
        return mins, sizes

    def input_tile(self, shape: tuple[int, ...], dtype: str) -> Region:
        """A tile of an input, new or already there; the tensor may end inside of the last one."""
        mins, sizes = self._place(shape, distinct=False)
        for position, extent in enumerate(shape):
            if self.chance(0.15):
                offset = self.pick((1, 4, 8, 16))
                mins[position], sizes[position] = (
                    mins[position].plus(offset),
                    sizes[position] + offset,
                )
            elif self.chance(0.15) and extent > 2:
                sizes[position] -= self.rng.randrange(1, extent)
        buffer = Buffer(self.name("A"), tuple(sizes), dtype, "input")
        self.program.ranges[buffer.name] = self.values_of(dtype)
        return self._tile_of(buffer, mins, shape)

    def indices(self, count: int, rows: int) -> Region:
        """As many places in ``rows`` rows, of an input of int32."""
        mins, sizes = self._place((count,), distinct=False)
        buffer = Buffer(self.name("A"), tuple(sizes), "int32", "input")
        self.program.ranges[buffer.name] = (0, rows - 1, 1.0)
        return Region(buffer, tuple(mins), (count,))

    def output_tile(self, shape: tuple[int, ...], dtype: str, sums: bool = False) -> Region:
        """A tile of a new output, of its own for every block; ``sums``: atomics go there."""
        mins, sizes = self._place(shape, distinct=not sums)
        for position, extent in enumerate(shape):
            if self.chance(0.15) and extent > 2:
                sizes[position] -= self.rng.randrange(1, extent)
        buffer = Buffer(self.name("C"), tuple(sizes), dtype, "output")
        if sums:
            self.program.ranges[buffer.name] = self.values_of(dtype)
        return self._tile_of(buffer, mins, shape)

    def _tile_of(self, buffer: Buffer, mins: list[Linear], shape: tuple[int, ...]) -> Region:
        """As a slice or by its corner; a slice that surely ends outside is refused."""
        outside = any(
            low.is_constant and low.const + extent > size
            for low, extent, size in zip(mins, shape, buffer.shape, strict=True)
        )
        return Region(buffer, tuple(mins), shape, corner=outside or self.chance(0.4))

    def slice_of(self, buffer: Buffer, whole_rows: bool = False) -> Region:
        """The whole buffer, or a box inside of it, perhaps placed by a loop's variable."""
        if self.chance(0.6):
            return whole(buffer)
        mins, extents = [], []
        for position, size in enumerate(buffer.shape):
            keep = size < 2 or self.chance(0.4) or (whole_rows and position < len(buffer.shape) - 1)
            if keep:
                mins.append(Linear())
                extents.append(size)
                continue
            divisor = self.pick((2, 2, 4, 3))
            extent = size // divisor if size % divisor == 0 else self.rng.randrange(1, size)
            loop = next((v for v, n in self.context.loops if n and n * extent <= size), None)
            if loop and self.chance(0.7):
                mins.append(times(loop, extent))
            else:
                step = extent if size % extent == 0 else 1
                mins.append(Linear(self.rng.randrange(0, size - extent + 1) // step * step))
            extents.append(extent)
        return Region(buffer, tuple(mins), tuple(extents))

    # ------------------------------------------------------------------------------ statements

    def allowed(self, statements: Sequence[Statement]) -> bool:
        read, written = model.effects(tuple(statements))
        return not (read & self.context.no_read or written & self.context.no_write)

    def attempt(self, statements: Sequence[Statement]) -> bool:
        """Runs statements on the reference's state; where they have no meaning, it stays."""
        kept = self.machine.keep()
        try:
            if not self.allowed(statements):
                raise Rejected("used by a role at the same time")
            self.machine.run(statements)
        except _Left:
            self.machine.restore(kept)
            return True
        except (Rejected, Inexact):
            self.machine.restore(kept)
            return False
        return True

    def inner(self, count: int, context: Context, prefer: Sequence = ()) -> tuple[Statement, ...]:
        """The body of a statement, generated in another context; the state is as before after it.

        Each loop variable has its first value.
        """
        outer, kept, known = self.context, self.machine.keep(), list(self.locals)
        self.context = context
        for block in self.machine.blocks:
            for variable, _ in context.loops:
                block.env.setdefault(variable, 0)
            for variable, _ in context.drivers:
                block.env.setdefault(variable, 0)
        body = self.statements(count, prefer)
        self.context = outer
        self.machine.restore(kept)
        used = set(model.buffers(body))
        self.locals = [b for b in self.locals if b in known or b in used]
        return body

    def statements(self, count: int, prefer: Sequence = ()) -> tuple[Statement, ...]:
        """``count`` statements or a few more; those of ``prefer`` are proposed first."""
        from fuzz.programs import control, loads, tensor, tiles

        tables = [tiles.PRODUCTIONS, loads.PRODUCTIONS, control.PRODUCTIONS]
        if self.tensor_core and self.context.warpgroups:
            tables.append(tensor.PRODUCTIONS)
            if self.program.target == "sm_100a":
                tables.append(tensor.TENSOR_MEMORY)
        productions = [entry for table in tables for entry in table]
        body: list[Statement] = []
        todo = list(prefer)
        for _ in range(4 * count + len(todo)):
            if len(body) >= count and not todo:
                break
            produce = todo.pop(0) if todo else self._production(productions)
            known = list(self.locals)
            proposal = produce(self)
            if proposal and self.attempt(proposal):
                body += proposal
            else:
                self.locals = known
        return tuple(body)

    def _production(self, productions: Sequence) -> Callable:
        weights = [weight for weight, _ in productions]
        return self.rng.choices([p for _, p in productions], weights)[0]

    def finish(self) -> tuple[Statement, ...]:
        """Copies of what is left in tiles to outputs, so that every value is seen."""
        body: list[Statement] = []
        read_last = [b for b in reversed(self.locals) if self.context.owner == b.owner]
        for buffer in read_last:
            if len(body) >= 4:
                break
            if buffer in self.readable():
                store = model.Copy(whole(buffer), self.output_tile(buffer.shape, buffer.dtype))
                if self.attempt([store]):
                    body.append(store)
        return tuple(body)


def _target(rng: random.Random) -> str:
    return rng.choices(("sm_100a", "sm_90a", "sm_80"), (4, 3, 3))[0]


def new(seed: int) -> Generator:
    """An empty program with its sizes chosen."""
    rng = random.Random(seed)
    target = _target(rng)
    tensor_core = rng.random() < 0.7
    gx, gy = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2))
    grid = (gx, gy) if rng.random() < 0.5 else (gx,)
    drivers = (("by", gy), ("bx", gx)) if len(grid) == 2 else (("bx", gx),)
    if tensor_core:
        threads = rng.choice((128, 128, 128, 256, 256, 384, 512))
        rows, columns = rng.choice((64, 128, 128)), rng.choice((16, 16, 32, 32, 48, 64))
        choices: Sequence[str] = ("float32", "float32", "float16", "bfloat16", "int32", "int8",
                                  *(() if target == "sm_80" else ("float8_e4m3fn",)))  # fmt: skip
    else:
        threads = rng.choice(_THREADS)
        rows, columns = rng.choice(_ROWS), rng.choice(_COLUMNS)
        while rows * columns > 24 * threads:
            rows, columns = rng.choice(_ROWS), rng.choice(_COLUMNS)
        choices = _SIMT_TYPES
    types = tuple(rng.choice(choices) for _ in range(rng.choice((1, 2, 2, 3))))
    scalars = {"n0": rng.choice((0, 1, 2, 3))} if rng.random() < 0.3 else {}
    variables = {"v0": rng.choice((0, 1))} if rng.random() < 0.3 else {}
    program = model.Program(target, grid, threads, (), {}, scalars, variables, {}, seed)
    context = Context("", 0, threads, drivers)
    return Generator(rng, program, context, rows, columns, types, tensor_core)


def generate(seed: int, size: int = 5, in_pairs: bool = False) -> model.Program:
    """The program of a seed.

    Args:
        size: about how many statements it has.
        in_pairs: pairs of blocks carry it out, their gemms together.
    """
    from fuzz.programs import control, pairs

    for attempt in range(400 if in_pairs else 20):
        g = new(seed + attempt * 10**9)
        body = g.statements(g.rng.randrange(2, size + 2))
        body += g.finish() + control.finish_roles(g)
        program = replace(g.program, body=body, ranges=_used(g, body))
        if in_pairs and not pairs.are_possible(program):
            continue
        if model.effects(body)[1]:
            return replace(program, in_pairs=in_pairs)
    raise AssertionError(f"no program for seed {seed}")


def _used(g: Generator, body: tuple[Statement, ...]) -> dict:
    names = {b.name for b in model.buffers(body)}
    return {name: bounds for name, bounds in g.program.ranges.items() if name in names}
