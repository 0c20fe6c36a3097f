"""Persistent kernels: which tiles a block works on, one after the other."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..ir import span
from ..ir.dtype import INT32
from ..ir.expr import Expr, as_expr, cast
from .builder import in_kernel
from .scalar import ceildiv
from .scalar import min as minimum
from .variable import Ref, allocate


class BaseTileScheduler:
    """The state of a walk over tiles; a subclass says which tile a number is.

    Attributes:
        m_idx, n_idx: the tile, int32 variables.
        current_iter: how many tiles came before it in this block.
        linear_idx: its number.
    """

    def __init__(self, name: str | None = None) -> None:
        in_kernel("T.BaseTileScheduler")
        prefix = f"{name}_" if name else ""
        self.m_idx, self.n_idx, self.linear_idx, self.current_iter = (
            _variable(prefix + each) for each in ("m_idx", "n_idx", "linear_idx", "current_iter")
        )
        self._total: Any = 0
        self._step: Any = 1

    def update_current_idx(self, linear_idx: Any) -> None:
        """Sets ``m_idx`` and ``n_idx`` for a number.

        Raises:
            NotImplementedError: the subclass does not say.
        """
        raise NotImplementedError

    def init(self, linear_init: Any) -> None:
        """Starts at a tile: the index of the block."""
        self.current_iter.assign(0)
        self.linear_idx.assign(linear_init)
        self.update_current_idx(as_expr(self.linear_idx))

    def next_tile(self, step: Any = None) -> None:
        """Goes on by ``step`` tiles, the number of blocks by default."""
        self.current_iter.assign(self.current_iter + 1)
        self.linear_idx.assign(self.linear_idx + (self._step if step is None else step))
        self.update_current_idx(as_expr(self.linear_idx))

    def valid(self) -> Expr:
        """Returns whether there is such a tile."""
        return as_expr(self.linear_idx) < self._total


def _variable(name: str) -> Ref:
    found = allocate(name, INT32, init=0)
    found.fresh = False
    return found


class PersistentTileScheduler(BaseTileScheduler):
    """The tiles of a matrix, spread over the blocks of a grid.

    ``sched = T.PersistentTileScheduler(m_tiles, n_tiles)``, ``sched.init(block)``,
    ``while sched.valid(): ... sched.m_idx ... sched.next_tile()``. Block b works on the tiles b,
    b + workers, ... of an order by panels: ``swizzle_size`` columns of tiles (rows, without
    ``column_major``) are worked off together, for reuse in the L2 cache.

    Args:
        args: the numbers of tiles along M and N; before them a name, as in older programs.
        num_workers: blocks that share the work (with ``cluster_size``: clusters); those of the
            grid by default.
        swizzle_size: tiles across a panel.
        column_major: whether m changes faster than n; so by default.
        cluster_size: blocks of a cluster, which take neighbouring rows of tiles together. Then
            ``m_idx`` counts clusters: a block works on row ``m_idx * cluster_size + rank``, and
            ``init`` takes the number of the cluster, ``block // cluster_size``.
        name: of the variables in the IR.
        stateful: False for :meth:`coord` alone.

    Raises:
        SemanticsError: not two numbers of tiles.
    """

    def __init__(
        self,
        *args: Any,
        num_workers: Any = None,
        swizzle_size: int = 1,
        column_major: bool = True,
        name: str | None = None,
        stateful: bool = True,
        cluster_size: int = 1,
    ) -> None:
        if args and isinstance(args[0], str):
            name, args = args[0], args[1:]
        if len(args) != 2 or swizzle_size < 1 or cluster_size < 1:
            raise errors.SemanticsError(
                "T.PersistentTileScheduler takes the numbers of tiles along M and N, a positive "
                f"swizzle_size and a positive cluster_size, not {args}, {swizzle_size} and "
                f"{cluster_size}",
                span=span.here(),
            )
        self._m, self._n = (cast(as_expr(each), INT32) for each in args)
        if cluster_size > 1:
            self._m = ceildiv(self._m, cluster_size)
        self._swizzle, self._by_columns = swizzle_size, column_major
        if stateful:
            super().__init__(name)
        grid: Any = 1
        for extent in in_kernel("T.PersistentTileScheduler").kernel.grid:
            grid = extent * grid
        workers = grid // cluster_size if cluster_size > 1 else grid
        self._step = workers if num_workers is None else num_workers
        self._total = self._m * self._n

    def coord(self, tile_id: Any) -> tuple[Any, Any]:
        """The row and the column of a tile by its number."""
        along, across = (self._m, self._n) if self._by_columns else (self._n, self._m)
        number, panel = as_expr(tile_id), along * self._swizzle
        first = number // panel * self._swizzle
        width = minimum(across - first, self._swizzle)
        rest = number % panel
        place = rest // width, first + rest % width
        return place if self._by_columns else place[::-1]

    def update_current_idx(self, linear_idx: Any) -> None:
        """Sets ``m_idx`` and ``n_idx`` for a number."""
        m, n = self.coord(linear_idx)
        self.m_idx.assign(m)
        self.n_idx.assign(n)
