"""Indices of threads and blocks, and communication within a warp."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import plain
from ..ir.dtype import BOOL, INT32, UINT32
from ..ir.expr import Expr, as_expr, call, cast, condition, const
from .builder import in_kernel
from .kernel import KernelFrame

WARP_SIZE = 32
WARPS_PER_GROUP = 4


def _kernel(what: str) -> KernelFrame:
    return in_kernel(what).kernel


def _pick(what: str, values: list[Any], dim: int, default: int) -> Expr:
    if not 0 <= dim <= 2:
        raise errors.SemanticsError(
            f"{what}: the dimension must be 0, 1 or 2, got {dim}", span=span.here()
        )
    return as_expr(values[dim]) if dim < len(values) else const(default, INT32)


def get_thread_binding(dim: int = 0) -> Expr:
    """The index of the thread in its block, along x (0), y (1) or z (2)."""
    return _pick("T.get_thread_binding", _kernel("T.get_thread_binding").thread_vars, dim, 0)


def get_thread_bindings() -> list[Expr]:
    """The indices of the thread in its block, x first."""
    return list(_kernel("T.get_thread_bindings").thread_vars)


def get_block_binding(dim: int = 0) -> Expr:
    """The index of the block in the grid, along x (0), y (1) or z (2)."""
    return _pick("T.get_block_binding", _kernel("T.get_block_binding").block_vars, dim, 0)


def get_block_bindings() -> list[Expr]:
    """The indices of the block in the grid, x first."""
    return list(_kernel("T.get_block_bindings").block_vars)


def get_thread_extent(dim: int = 0) -> int:
    """Threads of a block along a dimension."""
    threads = _kernel("T.get_thread_extent").threads
    return threads[dim] if dim < len(threads) else 1


def get_thread_extents() -> list[int]:
    """Threads of a block along its dimensions, x first."""
    return list(_kernel("T.get_thread_extents").threads)


def get_block_extent(dim: int = 0) -> Any:
    """Blocks of the grid along a dimension."""
    grid = _kernel("T.get_block_extent").grid
    return plain(grid[dim]) if dim < len(grid) else 1


def get_block_extents() -> list[Any]:
    """Blocks of the grid along its dimensions, x first."""
    return [plain(extent) for extent in _kernel("T.get_block_extents").grid]


def _linear_thread(what: str) -> Expr:
    frame = _kernel(what)
    result: Expr | None = None
    for index, extent in zip(reversed(frame.thread_vars), reversed(frame.threads), strict=True):
        result = index if result is None else result * extent + index
    assert result is not None
    return result


def _count(what: str, name: str, value: Any, default: int) -> int:
    """A number of threads or warps: a positive Python integer; None is the default."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise errors.SemanticsError(
            f"{what}: {name} must be a positive integer, not {value!r}", span=span.here()
        )
    return value


def get_lane_idx(warp_size: int | None = None) -> Expr:
    """The index of the thread in its warp, or in its group of ``warp_size`` threads."""
    size = _count("T.get_lane_idx", "warp_size", warp_size, WARP_SIZE)
    return _linear_thread("T.get_lane_idx") % size


def get_warp_idx(warp_size: int | None = None) -> Expr:
    """The index of the warp in its block, or of the group of ``warp_size`` threads."""
    size = _count("T.get_warp_idx", "warp_size", warp_size, WARP_SIZE)
    return _linear_thread("T.get_warp_idx") // size


def get_warp_idx_sync(warp_size: int | None = None) -> Expr:
    """The warp's index, read from lane 0 if it is equal in the whole warp."""
    size = _count("T.get_warp_idx_sync", "warp_size", warp_size, WARP_SIZE)
    index = get_warp_idx(size)
    return call(INT32, "shfl_sync", [index, 0]) if size % WARP_SIZE == 0 else index


def get_warp_group_idx(warp_size: int | None = None, warps_per_group: int | None = None) -> Expr:
    """The index of the warpgroup (four warps) in its block."""
    what = "T.get_warp_group_idx"
    warp = _count(what, "warp_size", warp_size, WARP_SIZE)
    warps = _count(what, "warps_per_group", warps_per_group, WARPS_PER_GROUP)
    return _linear_thread(what) // (warp * warps)


def shuffle_elect(thread_extent: int) -> Expr:
    """True in one thread of each ``thread_extent``; 0 means the whole block."""
    linear = _linear_thread("T.shuffle_elect")
    if thread_extent == 0 and not isinstance(thread_extent, bool):
        return linear == 0
    return linear % _count("T.shuffle_elect", "thread_extent", thread_extent, WARP_SIZE) == 0


def _shuffle(name: str, value: Any, lane: Any, width: Any, mask: Any) -> Expr:
    in_kernel(f"T.{name}")
    moved = as_expr(value)
    if isinstance(width, int) and width not in (1, 2, 4, 8, 16, 32):
        raise errors.SemanticsError(
            f"T.{name}: width must be a power of two up to {WARP_SIZE}, not {width}",
            span=span.here(),
        )
    distance = plain(lane)
    if name != "shfl_sync" and isinstance(distance, int) and not 0 <= distance < WARP_SIZE:
        raise errors.SemanticsError(
            f"T.{name}: lanes are at most {WARP_SIZE - 1} apart, not {distance}",
            span=span.here(),
            notes=["exchange values with other warps through shared memory, or by T.reduce_sum"],
        )
    args = [moved, cast(lane, INT32), cast(width, INT32)]
    return call(moved.dtype, name, args if mask is None else [*args, cast(mask, UINT32)])


def shfl_sync(value: Any, srcLane: Any, width: int = 32, mask: Any = None) -> Expr:
    """The value of lane ``srcLane``; all lanes of the mask take part."""
    return _shuffle("shfl_sync", value, srcLane, width, mask)


def shfl_xor(value: Any, delta: Any, width: int = 32, mask: Any = None) -> Expr:
    """The value of the lane whose index differs by exclusive or with ``delta``."""
    return _shuffle("shfl_xor", value, delta, width, mask)


def shfl_up(value: Any, delta: Any, width: int = 32, mask: Any = None) -> Expr:
    """The value of the lane ``delta`` below; the lowest lanes keep theirs."""
    return _shuffle("shfl_up", value, delta, width, mask)


def shfl_down(value: Any, delta: Any, width: int = 32, mask: Any = None) -> Expr:
    """The value of the lane ``delta`` above; the highest lanes keep theirs."""
    return _shuffle("shfl_down", value, delta, width, mask)


def predicate_of(what: str, predicate: Any) -> Expr:
    """Converts the operand of a vote to a bool.

    Raises:
        DTypeError: it is neither an integer nor a truth value.
    """
    value = as_expr(predicate)
    if value.dtype.is_float:
        raise errors.DTypeError(
            f"{what} requires an integer or boolean predicate, not `{value}` of type {value.dtype}",
            span=span.here(),
            notes=["compare it: x != 0"],
        )
    return condition(value)


def _vote(name: str, predicate: Any, mask: Any, dtype: Any) -> Expr:
    args = [predicate_of(f"T.{name}", predicate)]
    return call(dtype, name, args if mask is None else [*args, cast(mask, UINT32)])


def any_sync(predicate: Any, mask: Any = None) -> Expr:
    """Returns whether ``predicate`` holds in any lane of the mask."""
    return _vote("any_sync", predicate, mask, BOOL)


def all_sync(predicate: Any, mask: Any = None) -> Expr:
    """Returns whether ``predicate`` holds in every lane of the mask."""
    return _vote("all_sync", predicate, mask, BOOL)


def ballot_sync(predicate: Any, mask: Any = None) -> Expr:
    """A bit for each lane of the mask: whether ``predicate`` holds there (uint32)."""
    return _vote("ballot", predicate, mask, UINT32)


ballot = ballot_sync


def activemask() -> Expr:
    """A bit for each lane that executes this (uint32)."""
    in_kernel("T.activemask")
    return call(UINT32, "activemask", [])


def _warp_reduce(name: str, value: Any) -> Expr:
    in_kernel(f"T.{name}")
    operand = as_expr(value)
    return call(operand.dtype, name, [operand])


def warp_reduce_sum(value: Any) -> Expr:
    """The sum over the 32 lanes of the warp, in every lane."""
    return _warp_reduce("warp_reduce_sum", value)


def warp_reduce_max(value: Any) -> Expr:
    """The maximum over the 32 lanes of the warp, in every lane."""
    return _warp_reduce("warp_reduce_max", value)


def warp_reduce_min(value: Any) -> Expr:
    """The minimum over the 32 lanes of the warp, in every lane."""
    return _warp_reduce("warp_reduce_min", value)


def warp_reduce_bitand(value: Any) -> Expr:
    """The bitwise and over the 32 lanes of the warp, in every lane."""
    return _warp_reduce("warp_reduce_bitand", value)


def warp_reduce_bitor(value: Any) -> Expr:
    """The bitwise or over the 32 lanes of the warp, in every lane."""
    return _warp_reduce("warp_reduce_bitor", value)


def _match(name: str, value: Any, mask: Any) -> Expr:
    builder = in_kernel(f"T.{name}")
    args = [as_expr(value), *([] if mask is None else [cast(mask, UINT32)])]
    return builder.bind(builder.take_hint("same"), call(UINT32, name, args))


def match_any_sync(value: Any, mask: Any = None) -> Expr:
    """A bit for each lane of the mask whose value has the same bits (uint32)."""
    return _match("match_any_sync", value, mask)


def match_all_sync(value: Any, mask: Any = None) -> Expr:
    """The mask where the values of all its lanes have the same bits, else 0 (uint32)."""
    return _match("match_all_sync", value, mask)


def fns(mask: Any, base: Any, offset: Any) -> Expr:
    """The position of a set bit of ``mask``: the ``offset``-th from bit ``base`` on (uint32).

    Negative offsets count downward; 0 asks for bit ``base`` itself. 0xFFFFFFFF if there is none.
    """
    in_kernel("T.__fns")
    return call(UINT32, "fns", [cast(mask, UINT32), cast(base, UINT32), cast(offset, INT32)])


def get_cluster_dims() -> list[int]:
    """Blocks of a cluster along x, y and z; 1 without clusters."""
    dims = list(_kernel("T.get_cluster_dims").attrs.get("cluster_dims", []))
    return [*dims, *[1] * (3 - len(dims))]


def get_cluster_size() -> int:
    """Blocks of a cluster."""
    x, y, z = get_cluster_dims()
    return x * y * z


def get_cluster_ids() -> list[Expr]:
    """The index of the cluster in the grid, x first."""
    blocks, dims = get_block_bindings(), get_cluster_dims()
    return [index // extent for index, extent in zip(blocks, dims, strict=False)]


def get_cluster_id(dim: int = 0) -> Expr:
    """The index of the cluster in the grid along x (0), y (1) or z (2)."""
    return _pick("T.get_cluster_id", get_cluster_ids(), dim, 0)


def get_cluster_extents() -> list[Any]:
    """Clusters of the grid along its dimensions, x first."""
    dims = get_cluster_dims()
    return [extent // n for extent, n in zip(get_block_extents(), dims, strict=False)]


def get_cluster_extent(dim: int = 0) -> Any:
    """Clusters of the grid along a dimension."""
    extents = get_cluster_extents()
    return extents[dim] if dim < len(extents) else 1


def tvm_warp_shuffle(mask: Any, value: Any, warp_id: Any, width: Any, warp_size: Any) -> Expr:
    """Shuffles as :func:`shfl_sync` does, with the arguments in TIR's order."""
    del warp_size
    return shfl_sync(value, warp_id, plain(width), mask)


def tvm_warp_shuffle_up(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> Expr:
    """Shuffles as :func:`shfl_up` does, with the arguments in TIR's order."""
    del warp_size
    return shfl_up(value, offset, plain(width), mask)


def tvm_warp_shuffle_down(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> Expr:
    """Shuffles as :func:`shfl_down` does, with the arguments in TIR's order."""
    del warp_size
    return shfl_down(value, offset, plain(width), mask)


tvm_warp_activemask = activemask
