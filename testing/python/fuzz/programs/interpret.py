"""The reference: what a program means, statement after statement, on float64 tensors.

NaN marks elements that nothing has written; a program that reads one is rejected, as is one whose
values leave what their types hold exactly. Memory is never changed in place, so that copying a
dictionary keeps a state.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Iterable, Mapping

import torch
from fuzz.programs import model
from fuzz.programs.formats import Inexact, cast, exact, exact_sum

_COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "min": torch.minimum,
    "max": torch.maximum,
}
_UNARY = {"neg": operator.neg, "abs": torch.abs}


class Rejected(Exception):
    """The program has no meaning that the language promises: it reads what nothing wrote, ..."""


class _Left(Exception):
    """``break`` or ``continue``."""


def input_values(buffer: model.Buffer, bounds: tuple[int, int, float], seed: int) -> torch.Tensor:
    """The random data of an input, float64: integers of a range times a factor."""
    low, high, factor = bounds
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {buffer.name}".encode()))
    values = torch.randint(low, high + 1, buffer.shape, generator=generator).double() * factor
    return exact(values, buffer.dtype)


def value_of(linear: model.Linear, env: Mapping[str, int]) -> int:
    return linear.const + sum(factor * env[name] for name, factor in linear.terms)


def holds(condition: model.Condition, env: Mapping[str, int]) -> bool:
    value = value_of(condition.value, env)
    if condition.modulus:
        value %= condition.modulus
    return bool(_COMPARE[condition.op](value, condition.const))


class Block:
    """One block of the grid: its own memory and variables, and the tensors of all."""

    def __init__(
        self,
        env: Mapping[str, int],
        shared: dict[model.Buffer, torch.Tensor],
        program: model.Program,
    ) -> None:
        self.env = dict(env)
        self.own: dict[model.Buffer, torch.Tensor] = {}
        self._global = shared
        self._program = program

    # ------------------------------------------------------------------------------- memory

    def _memory(self, buffer: model.Buffer) -> dict[model.Buffer, torch.Tensor]:
        return self._global if buffer.is_global else self.own

    def tensor(self, buffer: model.Buffer) -> torch.Tensor:
        memory = self._memory(buffer)
        if buffer not in memory:
            bounds = self._program.ranges.get(buffer.name)
            if bounds is not None:
                memory[buffer] = input_values(buffer, bounds, self._program.seed)
            else:
                memory[buffer] = torch.full(buffer.shape, torch.nan, dtype=torch.float64)
        return memory[buffer]

    def _box(self, region: model.Region) -> list[tuple[int, int, int]]:
        """Of each dimension: first element, and how many lie inside, of how many."""
        box = []
        dims = zip(region.mins, region.extents, region.buffer.shape, strict=True)
        for low, extent, size in dims:
            first = int(self._vector(low, {}))
            if first < 0 or (not region.buffer.is_global and first + extent > size):
                raise Rejected(f"a region leaves {region.buffer.name}")
            box.append((first, max(0, min(extent, size - first)), extent))
        return box

    def read(self, region: model.Region, undefined: bool = False) -> torch.Tensor:
        """The elements, without extents of 1; what lies outside of a tensor is 0."""
        box = self._box(region)
        inside = self.tensor(region.buffer)[tuple(slice(a, a + n) for a, n, _ in box)]
        if inside.isnan().any() and not undefined:
            raise Rejected(f"{region.buffer.name} is read before it is written")
        result = torch.zeros(tuple(full for *_, full in box), dtype=torch.float64)
        result[tuple(slice(n) for _, n, _ in box)] = inside
        return result.reshape([n for n in result.shape if n != 1])

    def write(self, region: model.Region, values: torch.Tensor) -> None:
        box = self._box(region)
        changed = self.tensor(region.buffer).clone()
        part = values.reshape(region.extents)[tuple(slice(n) for _, n, _ in box)]
        changed[tuple(slice(a, a + n) for a, n, _ in box)] = part + 0.0
        self._memory(region.buffer)[region.buffer] = changed

    # -------------------------------------------------------------------------- expressions

    def _load(self, load: model.Load, grid: Mapping[str, torch.Tensor]) -> torch.Tensor:
        tensor = self.tensor(load.buffer)
        index, inside = [], torch.tensor(True)
        for linear, size in zip(load.indices, load.buffer.shape, strict=True):
            at = self._vector(linear, grid)
            inside = inside & (at >= 0) & (at < size)
            index.append(at.clamp(0, size - 1))
        if not load.buffer.is_global and not inside.all():
            raise Rejected(f"an index leaves {load.buffer.name}")
        values = torch.where(inside, tensor[tuple(torch.broadcast_tensors(*index))], 0.0)
        if values.isnan().any():
            raise Rejected(f"{load.buffer.name} is read before it is written")
        return values

    def _vector(
        self, linear: model.Linear | model.Indirect, grid: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        if isinstance(linear, model.Indirect):
            return self._load(linear.load, grid).long() * linear.factor
        total = torch.tensor(linear.const)
        for name, factor in linear.terms:
            total = total + factor * (grid[name] if name in grid else self.env[name])
        return total

    def evaluate(self, e: model.Expression, grid: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The values over an iteration space, each step exact in its type."""
        if isinstance(e, model.Load):
            return self._load(e, grid)
        if isinstance(e, model.Constant):
            return exact(torch.tensor(e.value, dtype=torch.float64), e.dtype)
        if isinstance(e, model.Index):
            return self._vector(e.value, grid).double()
        if isinstance(e, model.Cast):
            return cast(self.evaluate(e.value, grid), e.value.dtype, e.dtype)
        if isinstance(e, model.Unary):
            return exact(_UNARY[e.op](self.evaluate(e.a, grid)) + 0.0, e.dtype)
        if isinstance(e, model.Binary):
            operands = torch.broadcast_tensors(self.evaluate(e.a, grid), self.evaluate(e.b, grid))
            return exact(_BINARY[e.op](*operands) + 0.0, e.dtype)
        left, right = self.evaluate(e.left, grid), self.evaluate(e.right, grid)
        a, b = self.evaluate(e.a, grid), self.evaluate(e.b, grid)
        return torch.where(_COMPARE[e.op](left, right), a, b)

    def _store(
        self, store: model.Store, grid: Mapping[str, torch.Tensor], extents: tuple[int, ...]
    ) -> None:
        value = self.evaluate(store.value, grid)
        value = cast(value, store.value.dtype, store.buffer.dtype).expand(extents)
        keep = torch.ones(extents, dtype=torch.bool)
        if store.guard:
            keep = keep & (grid[store.guard[0]] < store.guard[1])
        index = []
        for linear, size in zip(store.indices, store.buffer.shape, strict=True):
            at = self._vector(linear, grid).expand(extents)
            outside = (at < 0) | (at >= size)
            if (outside & keep).any() and (not store.buffer.is_global or (at < 0).any()):
                raise Rejected(f"an index leaves {store.buffer.name}")
            keep = keep & ~outside
            index.append(at)
        changed = self.tensor(store.buffer).clone()
        place = tuple(at[keep] for at in index)
        if store.atomic:
            changed = self._combined(store.atomic, changed, place, value[keep], store.buffer.dtype)
        else:
            changed[place] = value[keep] + 0.0
        self._memory(store.buffer)[store.buffer] = changed

    def _combined(
        self, op: str, old: torch.Tensor, place: tuple, values: torch.Tensor, dtype: str
    ) -> torch.Tensor:
        """What atomics make of a tensor; a sum is checked to be the same in any order."""
        if old[place].isnan().any():
            raise Rejected("an atomic on what nothing has written")
        if op == "add":
            exact_sum(old.abs().index_put(place, values.abs(), accumulate=True), values, dtype)
            return old.index_put(place, values, accumulate=True)
        flat = torch.arange(old.numel()).reshape(old.shape)[place].flatten()
        reduce = {"max": "amax", "min": "amin"}[op]
        return old.flatten().scatter_reduce(0, flat, values.flatten(), reduce).reshape(old.shape)

    # --------------------------------------------------------------------------- statements

    def run(self, body: Iterable[model.Statement]) -> None:
        for statement in body:
            getattr(self, "_" + type(statement).__name__.lower())(statement)

    def _copy(self, s: model.Copy) -> None:
        self.write(s.dst, cast(self.read(s.src), s.src.buffer.dtype, s.dst.buffer.dtype))

    def _fill(self, s: model.Fill) -> None:
        values = torch.full(s.dst.extents, float(s.value), dtype=torch.float64)
        self.write(s.dst, exact(values, s.dst.buffer.dtype))

    def _parallel(self, s: model.Parallel) -> None:
        rank = len(s.extents)
        grid = {
            name: torch.arange(extent).reshape([-1 if d == n else 1 for d in range(rank)])
            for n, (name, extent) in enumerate(zip(s.variables, s.extents, strict=True))
        }
        for store in s.stores:
            self._store(store, grid, s.extents)

    def _reduce(self, s: model.Reduce) -> None:
        dtype = s.dst.buffer.dtype
        values = self.read(model.Region(s.src.buffer, s.src.mins, s.src.extents))
        values = values.reshape(s.src.extents)
        old = None if s.clear else self.read(s.dst).reshape(values.sum(s.dim).shape)
        if s.op.startswith("abs"):
            values = values.abs()
        if s.op in ("sum", "abssum"):
            result = values.sum(s.dim)
            magnitude = values.abs().sum(s.dim)
            if old is not None:
                result, magnitude = result + old, magnitude + old.abs()
            for held in (s.src.buffer.dtype, dtype):
                exact_sum(magnitude, values, held)
        else:
            result = values.amin(s.dim) if s.op == "min" else values.amax(s.dim)
            if old is not None:
                result = torch.minimum(result, old) if s.op == "min" else torch.maximum(result, old)
        self.write(s.dst, exact(result, dtype))

    def _cumsum(self, s: model.Cumsum) -> None:
        values = self.read(model.whole(s.src)).reshape(s.src.shape)
        exact_sum(values.abs().sum(s.dim), values, s.src.dtype)
        flipped = [s.dim] if s.reverse else []
        result = values.flip(flipped).cumsum(s.dim).flip(flipped)
        self.write(model.whole(s.dst), cast(result, s.src.dtype, s.dst.dtype))

    def _transpose(self, s: model.Transpose) -> None:
        values = self.read(model.whole(s.src)).reshape(s.src.shape).T
        self.write(model.whole(s.dst), cast(values, s.src.dtype, s.dst.dtype))

    def _gemm(self, s: model.Gemm) -> None:
        a = self.read(s.a).reshape(s.a.extents[-2:])
        b = self.read(s.b).reshape(s.b.extents[-2:])
        a, b = a.T if s.transpose_a else a, b.T if s.transpose_b else b
        clear = holds(s.clear, self.env) if isinstance(s.clear, model.Condition) else s.clear
        old = torch.zeros(()) if clear else self.read(s.c).reshape(s.c.extents[-2:])
        for operand in (s.a, s.b):
            if operand.buffer.dtype == "float32" and (_tf32(self.read(operand))).any():
                raise Inexact("a float32 operand is no tf32 number")
        dtype = s.c.buffer.dtype
        products = a[:, :, None] * b[None] if a.numel() * b.shape[1] <= 1 << 15 else a @ b
        exact_sum(a.abs() @ b.abs() + old.abs(), torch.cat([products.flatten(), old.flatten()]),
                  dtype)  # fmt: skip
        self.write(s.c, exact(a @ b + old, dtype))

    def _atomic(self, s: model.Atomic) -> None:
        values = cast(self.read(s.src), s.src.buffer.dtype, s.dst.buffer.dtype)
        box = self._box(s.dst)
        values = values.reshape(s.dst.extents)[tuple(slice(n) for _, n, _ in box)]
        ranges = [torch.arange(a, a + n) for a, n, _ in box]
        place = tuple(torch.meshgrid(*ranges, indexing="ij"))
        old = self.tensor(s.dst.buffer)
        dtype = s.dst.buffer.dtype
        self._global[s.dst.buffer] = self._combined(s.op, old, place, values, dtype)

    def _sync(self, s: model.Sync) -> None:
        pass

    def _assign(self, s: model.Assign) -> None:
        self.env[s.variable] = value_of(s.value, self.env)

    def _leave(self, s: model.Leave) -> None:
        if holds(s.condition, self.env):
            raise _Left(s.word)

    def _for(self, s: model.For) -> None:
        outer = self.env.get(s.variable)
        for index in range(s.start, value_of(s.stop, self.env)):
            self.env[s.variable] = index
            try:
                self.run(s.body)
            except _Left as left:
                if str(left) == "break":
                    break
        if outer is None:
            self.env.pop(s.variable, None)

    def _persistent(self, s: model.Persistent) -> None:
        rows, columns = s.domain
        for tile in range(self.env["bx"], rows * columns, s.wave):
            first = tile // (columns * s.group) * s.group
            height, rest = min(rows - first, s.group), tile % (columns * s.group)
            self.env[s.variables[0]] = first + rest % height
            self.env[s.variables[1]] = rest // height
            self.run(s.body)
        for name in s.variables:
            self.env.pop(name, None)

    def _if(self, s: model.If) -> None:
        self.run(s.then if holds(s.condition, self.env) else s.orelse)

    def _role(self, s: model.Role) -> None:
        for body in s.bodies:
            self.run(body)

    def _handshake(self, s: model.Handshake) -> None:
        self.run(s.start)
        for index in range(value_of(s.trips, self.env)):
            self.env[s.variable], self.env[s.stage] = index, index % s.stages
            self.run(s.fill)
            self.run(s.drain)
        self.env.pop(s.variable, None)
        self.env.pop(s.stage, None)
        self.run(s.finish)


def _tf32(values: torch.Tensor) -> torch.Tensor:
    """Where float32 values have more than tf32's 11 significant bits."""
    quantum = torch.exp2(torch.frexp(values).exponent.double() - 11)
    return (values / quantum).frac() != 0


class Machine:
    """All blocks of a program, in a state that can be kept and restored."""

    def __init__(self, program: model.Program) -> None:
        self.tensors: dict[model.Buffer, torch.Tensor] = {}
        self.blocks = []
        gx, gy = (*program.grid, 1)[:2]
        for by in range(gy):
            for bx in range(gx):
                env = {"bx": bx, "by": by, **program.scalars, **program.variables}
                self.blocks.append(Block(env, self.tensors, program))

    def run(self, body: Iterable[model.Statement]) -> None:
        for block in self.blocks:
            block.run(body)

    def keep(self) -> tuple:
        blocks = [(dict(b.env), dict(b.own)) for b in self.blocks]
        return dict(self.tensors), blocks

    def restore(self, kept: tuple) -> None:
        tensors, blocks = kept
        self.tensors.clear()
        self.tensors.update(tensors)
        for block, (env, own) in zip(self.blocks, blocks, strict=True):
            block.env, block.own = dict(env), dict(own)


def expected(program: model.Program) -> dict[model.Buffer, torch.Tensor]:
    """The tensors after the program, float64; NaN where it writes nothing.

    Raises:
        Rejected, Inexact: the program has no single right result.
    """
    machine = Machine(program)
    for buffer in model.buffers(program.body):
        if buffer.is_global:
            machine.blocks[0].tensor(buffer)
    machine.run(program.body)
    return {b: t for b, t in machine.tensors.items() if b.is_global}
