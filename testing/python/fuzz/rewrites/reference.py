"""What a program must leave in memory: its blocks one after another, in float64.

Blocks of a program run in any order, so one that depends on the order has no result: who reads and
writes an element is recorded, and a program with a race is refused as :class:`Racy`.
"""

from __future__ import annotations

import functools
import itertools
import math
import zlib
from types import CodeType, SimpleNamespace
from typing import Any, ClassVar

import torch
from fuzz.programs.formats import FORMATS, exact, rounded
from fuzz.rewrites import model

_NOBODY, _SEVERAL, _SUMS = -1, -2, -3


class Racy(Exception):
    """Two blocks, or two iterations of a parallel loop, touch what one of them writes."""


#: Elements of a memory or of a tensor: their numbers, or a slice or number for each dimension.
_At = torch.Tensor | tuple[slice | int, ...]


class Memory:
    """One allocation: values, and which blocks have touched them.

    ``constant``: nothing writes to it, so who reads it does not matter.
    """

    def __init__(self, values: torch.Tensor, constant: bool) -> None:
        self.values, self._constant = values, constant
        self.readers = torch.full(values.shape, _NOBODY)
        self.writers = torch.full(values.shape, _NOBODY)

    def part(self, first: int, shape: tuple[int, ...]) -> Memory:
        """Elements from ``first`` on, in the shape of a tensor; shares what it holds."""
        result = Memory.__new__(Memory)
        result._constant = self._constant
        for name in ("values", "readers", "writers"):
            flat = getattr(self, name)[first : first + math.prod(shape)]
            setattr(result, name, flat.view(shape))
        return result

    def _require(self, owners: torch.Tensor, *allowed: int) -> None:
        fits = owners == _NOBODY
        for owner in allowed:
            fits |= owners == owner
        if not fits.all():
            raise Racy

    def read(self, at: _At, block: int) -> torch.Tensor:
        if self._constant:
            return self.values[at]
        self._require(self.writers[at], block)
        known = self.readers[at]
        alone = (known == _NOBODY) | (known == block)
        self.readers[at] = torch.where(alone, block, _SEVERAL)
        return self.values[at]

    def write(self, at: _At, values: torch.Tensor, block: int) -> None:
        self._require(self.writers[at], block)
        self._require(self.readers[at], block)
        self.writers[at] = block
        self.values[at] = values

    def add(self, at: torch.Tensor, values: torch.Tensor) -> None:
        self._require(self.writers[at], _SUMS)
        self._require(self.readers[at])
        self.writers[at] = _SUMS
        self.values.index_put_((at,), values, accumulate=True)


class View:
    """A tensor argument: a contiguous part of a memory."""

    def __init__(self, memory: Memory, first: int, shape: tuple[int, ...], dtype: str) -> None:
        self.memory, self.first, self.shape, self.dtype = memory, first, shape, dtype
        self.part = memory.part(first, shape)
        self.reached: dict[str, bool] = {}  # by dimensions of places in the program

    def places(
        self, indices: list[Any], loop: Iterations, where: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The element of each iteration in memory, and whether it is used: inside of the tensor.

        ``where``: the place in the program, for :meth:`Run.is_outside`.
        """
        at = torch.as_tensor(0)
        inside = torch.as_tensor(True)
        for dimension, (index, extent) in enumerate(zip(indices, self.shape, strict=True)):
            index = torch.as_tensor(index)
            fits = (index >= 0) & (index < extent)
            if loop.active.any():
                self._note(where, dimension, bool((fits & loop.active).any()))
            inside = inside & fits
            at = at * extent + index
        return (self.first + at).expand(loop.shape), inside & loop.active

    def _note(self, where: str, dimension: int, fits: bool) -> None:
        key = f"{where} {dimension}"
        self.reached[key] = self.reached.get(key, False) or fits

    def region(
        self, corner: list[int], moving: dict[int, int], where: str
    ) -> tuple[tuple[slice | int, ...], tuple[slice, ...]] | None:
        """The part of a tile inside of the tensor, as indices of the tensor and of the tile.

        None: nothing of it is. ``moving``: the extent of each dimension that the tile spans.
        """
        at: list[slice | int] = []
        of_tile = []
        inside = True
        for dimension, (first, size) in enumerate(zip(corner, self.shape, strict=True)):
            self._note(where, dimension, 0 <= first < size)
            low, high = max(first, 0), min(first + moving.get(dimension, 1), size)
            inside = inside and low < high
            if dimension in moving:
                of_tile.append(slice(low - first, high - first))
            at.append(slice(low, high) if dimension in moving else first)
        return (tuple(at), tuple(of_tile)) if inside else None

    def values(self) -> torch.Tensor:
        return self.part.values


def to_type(values: torch.Tensor, dtype: str) -> torch.Tensor:
    """Values as stored: integers stay, floats are rounded, float8 stops at its largest number."""
    form = FORMATS[dtype]
    if not form.is_float:
        return exact(values, dtype)
    if form.significand < 5:
        values = values.clamp(form.lowest, form.highest)
    return exact(rounded(values, dtype), dtype)


_LANGUAGE = SimpleNamespace(
    ceildiv=lambda a, b: -(-a // b),
    max=lambda a, b: torch.maximum(torch.as_tensor(a), torch.as_tensor(b)),
    min=lambda a, b: torch.minimum(torch.as_tensor(a), torch.as_tensor(b)),
    cast=lambda a, dtype: torch.as_tensor(a).double(),
    if_then_else=lambda c, a, b: torch.where(c, torch.as_tensor(a), torch.as_tensor(b)).double(),
)


@functools.cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<program>", "eval")


class _Elements:
    """A tensor or tile as the names of a parallel loop see it: ``X[i, j]`` for all iterations."""

    def __init__(self, block: Block, name: str) -> None:
        self._block, self._name = block, name

    def __getitem__(self, indices: Any) -> torch.Tensor:
        at = list(indices) if isinstance(indices, tuple) else [indices]
        return self._block.load(self._name, at)


class Block:
    """One block of the launch."""

    def __init__(self, run: Run, number: int, names: dict[str, int]) -> None:
        self._run, self._number = run, number
        self._names: dict[str, Any] = dict(names)
        self._tiles = {
            tile.name: torch.full(tile.shape, torch.nan).double() for tile in run.program.tiles
        }
        objects = {name: _Elements(self, name) for name in (*self._tiles, *run.views)}
        self._scope = {"__builtins__": {}, **run.sizes, **objects, "T": _LANGUAGE}
        self._loop: Iterations | None = None
        self._where = ""  # the statement

    def evaluate(self, text: str) -> Any:
        return eval(_compiled(text), self._scope, self._names)

    def load(self, name: str, at: list[Any]) -> torch.Tensor:
        """Elements for the iterations of the loop around; zero outside of a tensor."""
        if name in self._tiles:
            return self._tiles[name][tuple(torch.as_tensor(index) for index in at)]
        assert self._loop is not None
        view = self._run.views[name]
        places, used = view.places(at, self._loop, self._where)
        self._loop.read(view.memory, places, used)
        values = torch.zeros(self._loop.shape).double()
        values[used] = view.memory.read(places[used], self._number)
        return values

    def execute(self, body: tuple[model.Statement, ...]) -> None:
        for s in body:
            self._where = str(id(s))
            self._STATEMENTS[type(s)](self, s)

    def _bind(self, s: model.Bind) -> None:
        self._names[s.name] = self.evaluate(s.value)

    def _barrier(self, s: model.Barrier) -> None:
        pass

    def _clear(self, s: model.Clear) -> None:
        self._tiles[s.tile].zero_()

    def _iterate(self, s: model.Loop) -> None:
        for n in range(int(self.evaluate(s.extent))):
            self._names[s.variable] = n
            self.execute(s.body)

    def _gemm(self, s: model.Gemm) -> None:
        a, b = self._tiles[s.a], self._tiles[s.b]
        self._tiles[s.c] += (a.T if s.transpose_a else a) @ (b.T if s.transpose_b else b)

    def _region(self, corner: model.Corner, shape: tuple[int, ...]) -> tuple[View, Any]:
        view = self._run.views[corner.tensor]
        first = [int(self.evaluate(text)) for text in corner.indices]
        moving = dict(zip(corner.moving, shape, strict=True))
        return view, view.region(first, moving, self._where)

    def _copy(self, s: model.Copy) -> None:
        if isinstance(s.source, model.Corner):
            assert isinstance(s.target, str)
            tile = self._run.program.tile(s.target)
            view, region = self._region(s.source, tile.shape)
            values = torch.zeros(tile.shape).double()
            if region:
                values[region[1]] = view.part.read(region[0], self._number)
            same = view.dtype == tile.dtype  # then nothing is rounded
            self._tiles[s.target] = values if same else to_type(values, tile.dtype)
        elif isinstance(s.target, model.Corner):
            tile = self._run.program.tile(s.source)
            view, region = self._region(s.target, tile.shape)
            if region:
                values = to_type(self._tiles[s.source][region[1]], view.dtype)
                view.part.write(region[0], values, self._number)
        else:
            dtype = self._run.program.tile(s.target).dtype
            self._tiles[s.target] = to_type(self._tiles[s.source].clone(), dtype)

    def _parallel(self, s: model.Parallel) -> None:
        outer = dict(self._names)
        self._loop = loop = Iterations(s.extents)
        self._names["i"] = torch.arange(s.extents[0]).view(-1, 1)
        self._names["j"] = torch.arange(s.extents[1]).view(1, -1)
        for name, text in s.names:
            self._names[name] = self.evaluate(text)
        for condition in s.conditions:
            loop.active = loop.active & self.evaluate(condition)
        for store in s.stores:
            value = torch.as_tensor(self.evaluate(store.value)).double().expand(s.extents)
            at = [self.evaluate(index) for index in store.indices]
            if store.target in self._tiles:
                self._store_tile(store, at, value, loop)
                continue
            view = self._run.views[store.target]
            places, used = view.places(at, loop, self._where)
            values = to_type(value[used], view.dtype)
            if store.adds:
                view.memory.add(places[used], values)
            else:
                loop.write(view.memory, places, used)
                view.memory.write(places[used], values, self._number)
        loop.check()
        self._loop, self._names = None, outer

    def _store_tile(
        self, store: model.Store, at: list[Any], value: torch.Tensor, loop: Iterations
    ) -> None:
        tile = self._run.program.tile(store.target)
        index = tuple(torch.as_tensor(x).expand(loop.shape)[loop.active] for x in at)
        self._tiles[store.target][index] = to_type(value[loop.active], tile.dtype)

    _STATEMENTS: ClassVar = {
        model.Bind: _bind,
        model.Barrier: _barrier,
        model.Clear: _clear,
        model.Loop: _iterate,
        model.Gemm: _gemm,
        model.Copy: _copy,
        model.Parallel: _parallel,
    }


class Iterations:
    """The iterations of one parallel loop, and what each touches in memory."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.active = torch.ones(shape, dtype=torch.bool)
        self._number = torch.arange(math.prod(shape)).view(shape)
        self._reads: list[tuple[Memory, torch.Tensor, torch.Tensor]] = []
        self._writes: list[tuple[Memory, torch.Tensor, torch.Tensor]] = []

    def read(self, memory: Memory, places: torch.Tensor, used: torch.Tensor) -> None:
        self._reads.append((memory, places[used], self._number[used]))

    def write(self, memory: Memory, places: torch.Tensor, used: torch.Tensor) -> None:
        self._writes.append((memory, places[used], self._number[used]))

    def check(self) -> None:
        """Raises Racy where an iteration touches what another one writes."""
        for memory, places, numbers in self._writes:
            writer = torch.full(memory.values.shape, _NOBODY)
            writer[places] = numbers
            if not torch.equal(writer[places], numbers):
                raise Racy
            for other, at, touching in (*self._reads, *self._writes):
                if other is memory and ((writer[at] != _NOBODY) & (writer[at] != touching)).any():
                    raise Racy


class Run:
    """One call: its memories and views."""

    def __init__(
        self, program: model.Program, call: model.Call, initial: dict[str, torch.Tensor]
    ) -> None:
        """``initial``: the values of each memory, by the name of its tensor; float64, flat."""
        self.program, self.sizes = program, call.sizes
        written = {
            call.places.get(tensor.name, (tensor.name, 0))[0]
            for tensor in program.tensors
            if tensor.written
        }
        self.memories = {
            name: Memory(values.clone(), constant=name not in written)
            for name, values in initial.items()
        }
        self.views = {}
        for tensor in program.tensors:
            owner, first = call.places.get(tensor.name, (tensor.name, 0))
            shape = shape_of(tensor, call)
            self.views[tensor.name] = View(self.memories[owner], first, shape, tensor.dtype)

    def execute(self) -> None:
        """Runs all blocks.

        Raises:
            Racy: the result depends on their order.
            Inexact: a sum is no number of its type.
        """
        names = [index for index, _ in self.program.grid]
        extents = [eval(text, {"T": _LANGUAGE}, dict(self.sizes)) for _, text in self.program.grid]
        blocks = itertools.product(*(range(extent) for extent in extents))
        for number, place in enumerate(blocks):
            Block(self, number, dict(zip(names, place, strict=True))).execute(self.program.body)

    def is_outside(self) -> bool:
        """Whether an index is never inside of its tensor: such programs are refused."""
        return not all(all(view.reached.values()) for view in self.views.values())


def shape_of(tensor: model.Tensor, call: model.Call) -> tuple[int, ...]:
    return tuple(eval(text, {}, dict(call.sizes)) for text in tensor.shape)


def initial_values(program: model.Program, call: model.Call) -> dict[str, torch.Tensor]:
    """What each memory holds before a call, flat: small integers, also in outputs.

    A tensor in the memory of another one makes it as large as both need.
    """
    size: dict[str, int] = {}
    for tensor in program.tensors:
        owner, first = call.places.get(tensor.name, (tensor.name, 0))
        size[owner] = max(size.get(owner, 0), first + math.prod(shape_of(tensor, call)))
    values = {}
    for tensor in program.tensors:
        if tensor.name not in size:
            continue
        generator = torch.Generator().manual_seed(
            zlib.crc32(f"{program.seed}{tensor.name}".encode())
        )
        alone = tensor.written and all(owner != tensor.name for owner, _ in call.places.values())
        low, high = (-7, -3) if alone else (-1, 1)
        drawn = torch.randint(low, high + 1, (size[tensor.name],), generator=generator)
        values[tensor.name] = drawn.double()
    return values


def expected(program: model.Program, call: model.Call) -> Run:
    """The memories after a call.

    Raises:
        Racy, Inexact: it has no single exact result.
    """
    run = Run(program, call, initial_values(program, call))
    run.execute()
    return run
