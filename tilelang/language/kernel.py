"""``T.Kernel``: one launch of a grid of thread blocks."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import plain
from ..ir.dtype import INT32
from ..ir.expr import Expr, as_expr, var
from ..ir.stmt import Stmt, emit
from .builder import Block, Builder, current
from .ws_schedule import check_ids

_launch = _ffi.get("ir.KernelLaunch")

DEFAULT_THREADS = 128
# Blocks of a function in which a kernel may be opened.
_TRANSPARENT = frozenset({"function", "T.sblock"})
MAX_THREADS = 1024  # CUDA C++ Programming Guide, technical specifications per compute capability


class KernelFrame:
    """An open kernel.

    Attributes:
        grid: the extents of the grid, x first.
        folded: those of the third and further dimensions, which are one of the grid.
        block_vars, thread_vars: the indices, x first.
        threads: the constant extents of the block, x first.
        attrs: annotations of the launch.
        block: the open block of its body.
        conclusions: called at the end of the body, which they may add to.
        afterwards: called when the launch is complete; they may open another kernel.
        grid_stages: the reducers of the grid.
        tile_loops: how many loops of it take tiles from a scheduler.
        counted: whether something counts the blocks that run.
    """

    def __init__(self, blocks: tuple[Any, ...], threads: tuple[int, ...], attrs: Any) -> None:
        extents = [grid_extent(extent) for extent in blocks]
        self.grid = [*extents[:2], _product(extents[2:])] if len(extents) > 3 else extents
        self.folded = extents[2:] if len(extents) > 3 else []
        self.threads = threads
        self.attrs: dict[str, Any] = attrs
        self.block_vars: list[Expr] = []
        self.thread_vars: list[Expr] = []
        self._builder: Builder | None = None
        self.block: Block | None = None
        self.conclusions: list[Callable[[], None]] = []
        self.afterwards: list[Callable[[], None]] = []
        self.grid_stages: list[Any] = []
        self.tile_loops = 0
        self.counted = False
        self._where: Any = None

    @property
    def thread_count(self) -> int:
        """Threads of a block."""
        return prod(self.threads)

    def __enter__(self) -> Any:
        builder = current("T.Kernel")
        if builder.kernel is not None:
            raise errors.ScopeError("T.Kernel inside another T.Kernel", span=span.here())
        if any(block.kind not in _TRANSPARENT for block in builder.blocks):
            raise errors.ScopeError(
                "T.Kernel must not be under a condition or loop that is known only at run time",
                span=span.here(),
            )
        self._where = span.current()
        names = ("bx", "by", "bz")
        self.block_vars = [var(builder.take_hint(n), INT32) for n in names[: len(self.grid)]]
        given = self._unfolded(builder)
        self.thread_vars = [var(n, INT32) for n in ("tx", "ty", "tz")[: len(self.threads)]]
        self._builder, builder.kernel = builder, self
        builder.ws_schedule, builder.ws_ids = None, set()
        self.block = builder.push("kernel")
        self.block.stmts += builder.facts
        return self.indices() if given is None else given

    def indices(self) -> Any:
        """Returns the value of ``with``: the index of the block, or a list of indices."""
        return self.block_vars[0] if len(self.block_vars) == 1 else list(self.block_vars)

    def _unfolded(self, builder: Builder) -> list[Expr] | None:
        """The indices of a grid of more than three dimensions; None of any other."""
        if not self.folded:
            return None
        rest: Any = self.block_vars[2]
        found: list[Expr] = self.block_vars[:2]
        for extent in self.folded[:-1]:
            found.append(rest % extent)
            rest = rest // extent
        return [*found, rest]

    def __exit__(self, error: Any, *_rest: Any) -> None:
        if error is None and self.block is not None:
            emit(self.close())
            for follow in self.afterwards:
                follow()

    def close(self) -> Stmt:
        """Ends the kernel and returns the launch."""
        builder, block = self._builder, self.block
        assert builder is not None and block is not None
        check_ids(builder)
        builder.close_inner(block)
        for conclude in self.conclusions:
            conclude()
        body = builder.pop(block)
        self.block = builder.kernel = None
        builder.left = "a T.Kernel block"
        threads = [as_expr(extent) for extent in self.threads]
        return _launch(
            self.block_vars, self.grid, self.thread_vars, threads, self.attrs, body, self._where
        )


def grid_extent(extent: Any) -> Expr:
    value = as_expr(extent)
    if not value.dtype.is_integer:
        raise errors.DTypeError(
            f"grid extent `{value}` must be an integer, but has type {value.dtype}",
            span=span.here(),
            notes=["divide integers with // or T.ceildiv"],
        )
    constant = plain(value)
    if isinstance(constant, int) and constant < 0:
        raise errors.ShapeError(f"grid extent {constant} is negative", span=span.here())
    return value


def _product(extents: list[Expr]) -> Expr:
    result = extents[0]
    for extent in extents[1:]:
        result = result * extent
    return result


def thread_extents(threads: Any) -> tuple[int, ...]:
    given = DEFAULT_THREADS if threads is None else threads
    extents = tuple(plain(n) for n in (given if isinstance(given, (tuple, list)) else (given,)))
    total = 1
    for extent in extents:
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
            raise errors.ResourceError(
                f"threads={threads} of T.Kernel: the number of threads is a constant positive "
                "integer, or a tuple of up to three",
                span=span.here(),
            )
        total *= extent
    if not 1 <= len(extents) <= 3:
        raise errors.ShapeError(
            f"threads={threads} of T.Kernel has {len(extents)} dimensions; a block has up to 3",
            span=span.here(),
        )
    if total > MAX_THREADS:
        raise errors.ResourceError(
            f"T.Kernel: threads={threads} asks for {total} threads; a block has at most "
            f"{MAX_THREADS}",
            span=span.here(),
        )
    return extents


def _cluster(cluster_dims: Any) -> list[int]:
    dims = [
        int(n)
        for n in (cluster_dims if isinstance(cluster_dims, (tuple, list)) else (cluster_dims,))
    ]
    if not 1 <= len(dims) <= 3 or any(n < 1 for n in dims):
        raise errors.ShapeError(
            f"cluster_dims={cluster_dims} is not one to three positive integers", span=span.here()
        )
    return dims


def Kernel(
    *blocks: Any, threads: Any = None, prelude: str | None = None, cluster_dims: Any = None
) -> KernelFrame:
    """Launches a grid: ``with T.Kernel(gx, gy, threads=128) as (bx, by):``.

    Args:
        blocks: extents of the grid, x first; constants or expressions of parameters. Without any
            there is one block; dimensions from the third on share that of the grid; with an extent
            of 0 nothing runs.
        threads: threads of a block, or up to three extents, x first; 128 by default.
        prelude: C++ source placed before the kernel.
        cluster_dims: blocks of a cluster, or up to three extents.

    Returns:
        A context manager that gives the block index, or a list of them.

    Raises:
        ShapeError, ResourceError, DTypeError: extents that no grid or block can have.
    """
    attrs: dict[str, Any] = {}
    if prelude is not None:
        attrs["prelude"] = prelude
    if cluster_dims is not None:
        attrs["cluster_dims"] = _cluster(cluster_dims)
    return KernelFrame(blocks or (1,), thread_extents(threads), attrs)


def ClusterKernel(
    *blocks: Any, cluster_dims: Any, threads: Any = None, prelude: str | None = None
) -> KernelFrame:
    """As :func:`Kernel`, with the shape of a cluster of blocks required."""
    return Kernel(*blocks, threads=threads, prelude=prelude, cluster_dims=cluster_dims)
