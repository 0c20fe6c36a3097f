"""Proves by statements whether a program computes the same with another tile.

Two traces are compared, of a tile and of one twice (or so many times) as large: block or turn
2 x of the small tiles has to begin where x of the large ones does, and what is one number for a
tile (a sum, a scan, the largest element) must not become one for another tile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from .. import nodes
from .._ffi import tvm_ffi
from ..errors import UnsupportedError
from ..ir.evaluate import evaluate, variables
from ..ir.expr import BinaryOp, Var

#: Blocks and turns of the larger tile that are compared.
_STEPS = (0, 1, 2, 3, 5, 64)
#: Stands for sizes that only calls know.
_SIZE = 4096
_NOWHERE: Mapping[Var, int] = MappingProxyType({})
_COMPARES = {BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE}


class _Reduced(NamedTuple):
    """An axis of a tile that becomes one number, and whether a loop around adds these up."""

    extent: str
    is_summed: bool


class Work:
    """The work of a program on the elements of its tiles.

    Args:
        function: in the IR.

    Attributes:
        regions: the parts of tensors that are copied.
        names: variables that stand for a value, and these.
    """

    def __init__(self, function: Any) -> None:
        self.regions: list[Any] = []
        self.names: list[tuple[Any, Any]] = []
        #: Where tensors are accessed by element, and what is compared.
        self._positions: list[Any] = []
        self._comparisons: list[Any] = []
        #: Where tiles are accessed, and constants.
        self._inside: list[str] = []
        self._reductions: list[Any] = []
        self._gemms: list[Any] = []
        self._parallel: list[Any] = []
        self._loops: list[Any] = []
        self._launches: list[Any] = []
        notes: dict[type, Callable[[Any], Any]] = {
            nodes.Copy: self._note_copy,
            nodes.Load: lambda node: self._note_access(node.buffer, node.indices),
            nodes.Store: lambda node: self._note_access(node.buffer, node.indices),
            nodes.FloatImm: lambda node: self._inside.append(str(node)),
            nodes.Binary: self._note_binary,
            nodes.Bind: lambda node: self.names.append((node.var, node.value)),
            nodes.Reduce: self._reductions.append,
            nodes.Gemm: self._gemms.append,
            nodes.ParallelFor: self._parallel.append,
            nodes.For: self._loops.append,
            nodes.KernelLaunch: self._launches.append,
        }
        tvm_ffi.structural_walk(function, lambda node: notes.get(type(node), _nothing)(node))
        axes = [(v, e) for launch in self._launches for v, e in _axes(launch)]
        self._grid = len(axes)
        axes += [(loop.var, loop.extent) for loop in self._loops]
        #: Variables of the grid, then of loops, and their extents.
        self._variables = [variable for variable, _ in axes]
        self._extents = [self.meaning(extent) for _, extent in axes]

    def is_same(self, other: Work, default: int, value: int) -> bool:
        """Whether another program, with ``value`` for a tile of ``default``, is proved the same."""
        if value < default:
            return other.is_same(self, value, default)
        if value % default or self._counts() != other._counts() or self._inside != other._inside:
            return False
        pairs = zip(self._extents, other._extents, strict=True)
        moved = [place for place, (a, b) in enumerate(pairs) if str(a) != str(b)]
        # A loop through the elements of a tile may use one for the next.
        grows = [_constant(other._extents[p]) > _constant(self._extents[p]) >= 0 for p in moved]
        return (
            not any(grows)
            and _Meeting(self, other, value // default, moved).is_everywhere()
            and self._reduces_the_same(other, moved)
        )

    def meaning(self, expr: Any) -> Any:
        """The value that a name stands for; what is no name itself."""
        for name, value in reversed(self.names):
            if isinstance(expr, Var) and name.same_as(expr):
                expr = value
        return expr

    def _counts(self) -> list[int]:
        lists: list[list[Any]] = [self._extents, self._positions, self._comparisons]
        lists += [self.regions, self._parallel, self.names]
        return [len(each) for each in lists]

    # Numbers of a tile ----------------------------------------------------------------------

    def _reduces_the_same(self, other: Work, moved: Collection[int]) -> bool:
        mine, theirs = list(self._reduced()), list(other._reduced())
        if len(mine) != len(theirs):
            return False
        pairs = zip(mine, theirs, strict=True)
        changed = [a for a, b in pairs if a.extent != b.extent]
        if not changed or not moved:
            return True
        loops = [self._loops[place - self._grid] for place in moved if place >= self._grid]
        in_loops = len(loops) == len(moved) and not any(map(_writes_tensors, loops))
        return in_loops and all(each.is_summed for each in changed)

    def _reduced(self) -> Iterable[_Reduced]:
        attends = len(self._gemms) == 2
        for each in self._reductions:
            extents = each.src.extents
            online = attends and each.op in ("max", "sum") and each.dim == len(extents) - 1
            is_scan = str(each.op).startswith("cum")
            summed = not is_scan and (online or not each.clear)
            yield _Reduced(str(extents[each.dim]), summed)
        for each in self._gemms:
            a = each.operands[0]
            clears = _constant(each.clear_accum) > 0
            yield _Reduced(str(a.region.extents[-2 if a.transposed else -1]), not clears)
        for each in self._parallel:
            targets = _local_targets(each)
            for var, extent in zip(each.vars, each.extents, strict=True):
                if any(not _mentions(indices, var) for indices in targets):
                    yield _Reduced(str(extent), False)

    # Notes ----------------------------------------------------------------------------------

    def _note_copy(self, copy: Any) -> None:
        for region in (copy.src, copy.dst):
            if _is_tensor(region.buffer):
                self.regions.append(region)
            else:
                self._note_access(region.buffer, region.mins)

    def _note_binary(self, node: Any) -> None:
        if node.op in _COMPARES:
            self._comparisons.append(node)

    def _note_access(self, buffer: Any, indices: Any) -> None:
        if _is_tensor(buffer):
            self._positions += indices
        else:
            self._inside.append(f"{buffer.name}{[str(each) for each in indices]}")


class _Meeting:
    """The first elements of tiles of two programs; those of the second are ``ratio`` x as large."""

    def __init__(self, mine: Work, theirs: Work, ratio: int, moved: Collection[int]) -> None:
        self._mine, self._theirs, self._ratio = mine, theirs, ratio
        self._moved = moved
        self._moving = [mine._variables[place] for place in moved]
        self._kept: list[Any] = []
        for (name, a), (_, b) in zip(mine.names, theirs.names, strict=True):
            moves = self._moves(a) or str(a) != str(b)
            (self._moving if moves else self._kept).append(name)

    def is_everywhere(self) -> bool:
        """Returns whether they begin at the same elements and go on where the next one begins."""
        mine, theirs = self._mine, self._theirs
        pairs = zip(mine._positions, theirs._positions, strict=True)
        if not all(self._agrees(a, b) and self._goes_on(a, b) for a, b in pairs):
            return False
        pairs = zip(mine._comparisons, theirs._comparisons, strict=True)
        if not all(self._agrees(a, b) for a, b in pairs if not _loads(a)):
            return False
        return all(map(self._is_region, mine.regions, theirs.regions))

    def _is_region(self, mine: Any, theirs: Any) -> bool:
        for a, b, size, other in zip(
            mine.mins, theirs.mins, mine.extents, theirs.extents, strict=True
        ):
            grown = _constant(other) == self._ratio * _constant(size) > 0
            if not self._agrees(a, b) or (self._moves(a) and not grown):
                return False
        return True

    def _agrees(self, mine: Any, theirs: Any) -> bool:
        if not self._moves(mine) and str(mine) == str(theirs):
            return True
        try:
            return all(
                self._at(self._mine, mine, self._ratio * step, inner)
                == self._at(self._theirs, theirs, step, inner)
                for step in _STEPS
                for inner in (0, 1)
            )
        except (KeyError, UnsupportedError, ZeroDivisionError):
            return False

    def _goes_on(self, mine: Any, theirs: Any) -> bool:
        """Returns whether the second small tile is the rest of the large one."""
        if not self._moves(mine):
            return True
        rest: dict[Var, int] = {}
        for a, b in zip(self._mine._parallel, self._theirs._parallel, strict=True):
            for var, small, large in zip(b.vars, a.extents, b.extents, strict=True):
                rest[var] = _constant(small) if str(small) != str(large) else 0
        try:
            first = self._at(self._mine, mine, 1, 0)
            return bool(first == self._at(self._theirs, theirs, 0, 0, rest))
        except (KeyError, UnsupportedError, ZeroDivisionError):
            return False

    def _moves(self, expr: Any) -> bool:
        """Returns whether an expression has a variable that counts tiles, or a name for such."""
        return any(_mentions([expr], var) for var in self._moving)

    def _at(
        self, work: Work, expr: Any, step: int, inner: int, rest: Mapping[Var, int] = _NOWHERE
    ) -> Any:
        values: dict[Var, int] = dict.fromkeys(variables(expr), _SIZE)
        values |= {var: inner for loop in work._parallel for var in loop.vars}
        for place, var in enumerate(work._variables):
            last = _constant(work._extents[place]) - 1
            values[var] = step if place in self._moved else 0 if last == 0 else inner
        values.update(rest)
        for name, value in work.names:
            try:
                values[name] = evaluate(value, values)
            except (KeyError, UnsupportedError):  # one of memory: the same unless it moves
                values[name] = _SIZE
                if not any(name.same_as(kept) for kept in self._kept_in(work)):
                    del values[name]
        return evaluate(expr, values)

    def _kept_in(self, work: Work) -> list[Any]:
        """Names whose value is that of the other program and counts no tiles."""
        if work is self._mine:
            return self._kept
        pairs = zip(self._mine.names, work.names, strict=True)
        return [b for (a, _), (b, _) in pairs if any(a.same_as(kept) for kept in self._kept)]


def _nothing(node: Any) -> None:
    del node


def _axes(launch: Any) -> Iterable[tuple[Any, Any]]:
    return zip(launch.block_vars, launch.grid, strict=True)


def _constant(expr: Any) -> int:
    """The value of a constant; -1 of what is none."""
    value = getattr(expr, "value", expr)
    return int(value) if isinstance(value, int) else -1


def _is_tensor(buffer: Any) -> bool:
    return str(buffer.scope) == "global"


def _nodes(part: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(part, found.append)
    return found


def _loads(expr: Any) -> bool:
    return any(isinstance(node, (nodes.Load, nodes.Call)) for node in _nodes(expr))


def _mentions(exprs: Iterable[Any], var: Var) -> bool:
    found = [node for expr in exprs for node in _nodes(expr) if isinstance(node, Var)]
    return any(var.same_as(node) for node in found)


def _writes_tensors(loop: Any) -> bool:
    inside = _nodes(loop.body)
    written = [node.dst.buffer for node in inside if isinstance(node, nodes.Copy)]
    written += [node.buffer for node in inside if isinstance(node, nodes.Store)]
    written += [load.buffer for load in _addressed(inside)]
    return any(map(_is_tensor, written))


def _addressed(inside: Iterable[Any]) -> list[Any]:
    """Elements whose addresses are given to something: an atomic addition, say."""
    calls = [node for node in inside if isinstance(node, nodes.Call)]
    args = [call.args[0] for call in calls if str(call.name) == "address_of"]
    return [arg for arg in args if isinstance(arg, nodes.Load)]


def _local_targets(loop: Any) -> list[Any]:
    """Indices of the elements of tiles that a parallel loop writes."""
    inside = _nodes(loop.body)
    written = [node for node in inside if isinstance(node, nodes.Store)]
    return [each.indices for each in written + _addressed(inside) if not _is_tensor(each.buffer)]
