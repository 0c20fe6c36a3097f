"""Counts the operations and bytes of a function from its tile operators, without a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from .. import nodes
from ..errors import ArgumentError, UnsupportedError
from ..ir.evaluate import evaluate
from ..ir.stmt import ir_function


@dataclass(frozen=True)
class AnalysisResult:
    """The work of one call of a function.

    Attributes:
        total_flops: of its gemms: two for each product.
        total_global_bytes: that its copies move between tensors in global memory and tiles.
    """

    total_flops: int
    total_global_bytes: int

    def __add__(self, other: AnalysisResult) -> AnalysisResult:
        return AnalysisResult(
            self.total_flops + other.total_flops,
            self.total_global_bytes + other.total_global_bytes,
        )

    def __mul__(self, times: int) -> AnalysisResult:
        return AnalysisResult(self.total_flops * times, self.total_global_bytes * times)


_NOTHING = AnalysisResult(0, 0)
_Known = Mapping[Any, int]


class Analyzer:
    """Counts the work of a function; times and bounds are in a kernel's report and timing.

    Args:
        fn: what ``@T.prim_func`` gives.
        device: an architecture; accepted, as the counts do not depend on it.
    """

    def __init__(self, fn: Any, device: Any = None) -> None:
        self.fn = ir_function(fn)
        self.device = device

    @classmethod
    def analysis(cls, fn: Any, device: Any = None) -> AnalysisResult:
        """Counts the work of ``fn``.

        Branches whose condition is not a number of the host's count as taken; tiles at the edge of
        a tensor count whole.

        Raises:
            ArgumentError: an extent is known only at run time.
            UnsupportedError: the function has a loop without a number of iterations.
        """
        return cls(fn, device).ir_pass().calculate()

    def ir_pass(self) -> Analyzer:
        """Returns itself: nothing is to be prepared."""
        return self

    def calculate(self) -> AnalysisResult:
        """Counts as :meth:`analysis` does."""
        try:
            return _count(self.fn.body, {})
        except KeyError as error:
            raise ArgumentError(
                f"the work of {self.fn.name} depends on {error.args[0]}, which is known only at "
                "run time",
                notes=["declare constant extents for the analysis"],
            ) from None


def _count(stmt: Any, known: _Known) -> AnalysisResult:
    """The work of a statement; KeyError of a variable that an extent in it depends on."""
    if isinstance(stmt, nodes.Seq):
        return sum((_count(each, known) for each in stmt.stmts), _NOTHING)
    if isinstance(stmt, nodes.KernelLaunch):
        grid = [evaluate(extent, known) for extent in stmt.grid]
        return _repeated(
            stmt.body, [(var, 0, n) for var, n in zip(stmt.block_vars, grid, strict=True)], known
        )
    if isinstance(stmt, nodes.For):
        low, extent = evaluate(stmt.min, known), evaluate(stmt.extent, known)
        return _repeated(stmt.body, [(stmt.var, low, extent)], known)
    if isinstance(stmt, nodes.While):
        raise UnsupportedError("a while loop's iterations are known only at run time")
    if isinstance(stmt, nodes.If):
        return _branches(stmt, known)
    if isinstance(stmt, nodes.Gemm):
        return AnalysisResult(_flops(stmt, known), 0)
    if isinstance(stmt, nodes.Copy):
        return AnalysisResult(0, _global_bytes(stmt, known))
    return _NOTHING


def _repeated(body: Any, loops: list[tuple[Any, int, int]], known: _Known) -> AnalysisResult:
    """The work of a body for all values of variables; one by one only where it depends on them."""
    times = prod(extent for _, _, extent in loops)
    if times <= 0:
        return _NOTHING
    try:
        return _count(body, known) * times
    except KeyError as error:
        if not loops or not any(error.args[0].same_as(var) for var, _, _ in loops):
            raise
    (var, low, extent), *rest = loops
    each = (_repeated(body, rest, {**known, var: value}) for value in range(low, low + extent))
    return sum(each, _NOTHING)


def _branches(stmt: Any, known: _Known) -> AnalysisResult:
    try:
        taken = bool(evaluate(stmt.condition, known))
    except (KeyError, UnsupportedError):
        taken = True
    if taken:
        return _count(stmt.then_case, known)
    return _NOTHING if stmt.else_case is None else _count(stmt.else_case, known)


def _flops(gemm: Any, known: _Known) -> int:
    a, _, c = gemm.operands[:3]
    depth = evaluate(a.region.extents[-2 if a.transposed else -1], known)
    return 2 * _elements(c.region, known) * int(depth)


def _global_bytes(copy: Any, known: _Known) -> int:
    sides = [side for side in (copy.src, copy.dst) if side.buffer.scope == "global"]
    return sum(_elements(side, known) * int(side.buffer.dtype.bits) // 8 for side in sides)


def _elements(region: Any, known: _Known) -> int:
    return prod(int(evaluate(extent, known)) for extent in region.extents)


__all__ = ["AnalysisResult", "Analyzer"]
