"""The tiles and loops of a traced kernel."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .. import nodes
from .._ffi import tvm_ffi
from ..errors import UnsupportedError
from ..ir.evaluate import evaluate, variables
from ..ir.expr import Var
from ..ir.stmt import ir_function
from .same_work import Work

#: Sizes that only the call knows are ranked as this one.
TYPICAL = 4096
NO_SIZES: Mapping[str, int] = MappingProxyType({})


class TracedKernel:
    """The statements of a function that tell its tiles.

    Args:
        func: what tracing gives.
        sizes: of dimensions that only calls know, by the names of their variables.

    Attributes:
        gemms, reductions, launches, results: its operators, its grids, and the tensors that it
            copies or stores to, in order.
        tensors: the buffers among its parameters.
        extents: of the axes of its grids, then of its loops.
        axes: the variables of grids.
        work: what it does with the elements of its tiles.
        counts_threads: whether it has barriers that count threads.
        stages: of its pipelined loops.
    """

    def __init__(self, func: Any, sizes: Mapping[str, int] = NO_SIZES) -> None:
        self._sizes = sizes
        self._loops: list[Any] = []
        self._parallel: list[list[Any]] = []
        self.gemms: list[Any] = []
        self.reductions: list[Any] = []
        self.launches: list[Any] = []
        self.results: list[Any] = []
        self.counts_threads = False
        #: Tiles that are copied from tensors.
        self._loaded: list[Any] = []
        #: Tensors that are read and written, and where along their last dimension.
        self._reads: list[tuple[Any, Any]] = []
        self._writes: list[tuple[Any, Any]] = []
        function = ir_function(func)
        self.tensors = [each for each in function.params if hasattr(each, "shape")]
        notes = {  # by class, since there are many nodes
            nodes.Gemm: self.gemms.append,
            nodes.Reduce: self.reductions.append,
            nodes.For: self._loops.append,
            nodes.ParallelFor: lambda node: self._parallel.append(list(node.extents)),
            nodes.KernelLaunch: self.launches.append,
            nodes.Copy: self._note_copy,
            nodes.Load: lambda node: _note_last(self._reads, node.buffer, node.indices),
            nodes.Store: self._note_store,
            nodes.Alloc: self._note_tile,
            nodes.MbarrierInit: self._note_barrier,
            nodes.Barrier: self._note_barrier,
        }
        tvm_ffi.structural_walk(function, lambda node: notes.get(type(node), _nothing)(node))
        self.extents = [axis for launch in self.launches for axis in launch.grid]
        self.axes = [var for launch in self.launches for var in launch.block_vars]
        self.work = Work(function)
        self.extents += [self.work.meaning(loop.extent) for loop in self._loops]
        noted = [int(loop.annotations.get("num_stages", 0)) for loop in self._loops]
        self.stages = [count for count in noted if count]

    def _note_copy(self, copy: Any) -> None:
        self._parallel.append(list(copy.src.extents))
        if str(copy.src.buffer.scope) == "global":
            self._loaded.append(copy.dst.buffer)
        _note_last(self._reads, copy.src.buffer, copy.src.mins)
        _note_last(self._writes, copy.dst.buffer, copy.dst.mins)
        self._note_result(copy.dst.buffer)

    def _note_store(self, store: Any) -> None:
        self._note_result(store.buffer)
        _note_last(self._writes, store.buffer, store.indices)

    def _note_tile(self, alloc: Any) -> None:
        self.counts_threads |= "barrier" in str(alloc.buffer.scope)

    def _note_barrier(self, barrier: Any) -> None:
        self.counts_threads |= getattr(barrier, "count", None) is not None

    def _note_result(self, buffer: Any) -> None:
        if str(buffer.scope) == "global":
            self.results.append(buffer)

    @property
    def uses_threads(self) -> bool:
        """Returns whether the program says what a thread does, or counts them at barriers."""
        return self.counts_threads or any(map(_uses_threads, self.launches))

    @property
    def transposes(self) -> bool:
        """Returns whether blocks that lie side by side in a tensor do not in the result."""
        sides = [
            [self._side(where) for buffer, where in accesses if len(buffer.shape) > 1]
            for accesses in (self._reads, self._writes)
        ]
        return any(a and b and not a & b for a, b in itertools.product(*sides))

    def _side(self, where: Any) -> set[int]:
        """The axes of the grid that a position depends on."""
        used = variables(where)
        return {i for i, axis in enumerate(self.axes) if any(axis.same_as(var) for var in used)}

    @property
    def copies_operands(self) -> bool:
        """Returns whether the operands of its first product are copies of parts of tensors."""
        operands = [each.region.buffer for each in self.gemms[0].operands[:2]]
        return all(any(a.same_as(b) for b in self._loaded) for a in operands)

    @property
    def threads(self) -> int:
        """The threads of a block."""
        threads = 1
        for extent in self.launches[0].threads if self.launches else ():
            threads *= self.number(extent)
        return threads

    def tiles(self) -> dict[str, int]:
        """Extents of a block's tile by role: m and n of the result, k along what is added up."""
        if len(self.gemms) == 2:  # attention: queries, and keys of a step
            rows, keys = self._last(self.gemms[0].operands[2].region.extents)
            return {"m": rows, "n": keys}
        if self.gemms:
            rows, columns = self._last(self.gemms[0].operands[2].region.extents)
            return {"m": rows, "n": columns, "k": self.depth(self.gemms[0])}
        if self.reductions:
            first = self.reductions[0]
            extents = [self.number(each) for each in first.src.extents]
            reduced = extents.pop(first.dim)
            return {"m": extents[-1] if extents else 1, "k": reduced}
        tile = max(self._parallel, key=len, default=[])
        rows, columns = self._last(tile)
        return {"m": rows, "n": columns} if len(tile) > 1 else {"n": columns}

    def _last(self, extents: Any) -> tuple[int, int]:
        known = [1, *(self.number(each) for each in extents)][-2:]
        return known[0], known[-1]

    def depth(self, gemm: Any) -> int:
        """Elements that a gemm adds up."""
        a = gemm.operands[0]
        return self.number(a.region.extents[-2 if a.transposed else -1])

    def steps(self, gemm: Any) -> int:
        """Iterations of the innermost loop around a gemm."""
        for loop in self._loops:  # inner ones first
            inside: list[Any] = []
            tvm_ffi.structural_walk(loop.body, inside.append)
            if any(isinstance(node, nodes.Gemm) and node.same_as(gemm) for node in inside):
                return max(1, self.number(loop.extent))
        return 1

    def blocks(self) -> int:
        """Blocks of the grid."""
        blocks = 1
        for extent in self.launches[0].grid:
            blocks *= self.number(extent)
        return blocks

    def is_size(self, expr: Any) -> bool:
        """Whether an extent is known to a launch: a number of constants and sizes of tensors."""
        shapes = [extent for tensor in self.tensors for extent in tensor.shape]
        sizes = [var for extent in shapes for var in variables(extent)]
        try:
            evaluate(expr, dict.fromkeys(sizes, TYPICAL))
        except (KeyError, UnsupportedError):
            return False
        return True

    def by_block(self, expr: Any, unknown: int) -> list[int]:
        """An extent in the first, a middle and the last block; empty where more decides."""
        shapes = [extent for tensor in self.tensors for extent in tensor.shape]
        values = {v: self.number(v, unknown) for each in shapes for v in variables(each)}
        found = []
        for part in (0, 1, 2):
            for axis, extent in zip(self.axes, self.extents, strict=False):
                values[axis] = (self.number(extent, unknown) - 1) * part // 2
            try:
                found.append(int(evaluate(expr, values)))
            except (KeyError, UnsupportedError):
                return []
        return found

    def number(self, expr: Any, typical: int = 0) -> int:
        """A constant; what only the call knows counts as a typical size of its class."""
        value = getattr(expr, "value", expr)
        if type(value) is int:
            return value
        typical = typical or TYPICAL
        known = {each: self._sizes.get(str(each.name), typical) for each in variables(expr)}
        try:
            return int(evaluate(expr, known))
        except (KeyError, UnsupportedError):
            return typical


def _note_last(accesses: list[tuple[Any, Any]], buffer: Any, indices: Any) -> None:
    if str(buffer.scope) == "global":
        accesses.append((buffer, indices[-1]))


def _nothing(node: Any) -> None:
    del node


def _uses_threads(launch: Any) -> bool:
    inside: list[Any] = []
    tvm_ffi.structural_walk(launch.body, inside.append)
    used = [node for node in inside if isinstance(node, Var)]
    return any(var.same_as(each) for var in launch.thread_vars for each in used)
