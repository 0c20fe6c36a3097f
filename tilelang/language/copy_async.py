"""Copies by ``cp.async`` that the program waits for: ``T.async_copy``, ``T.ptx_cp_async``."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Load, Region, load, plain
from ..ir.dtype import INT32, VOID
from ..ir.expr import Expr, as_expr, call, cast, condition, const, select, var
from ..ir.stmt import emit, store
from .builder import in_block, in_kernel
from .copy import copy_regions
from .pointer import address_of, element_of
from .region import place_in, significant
from .sync import arrive_by_copies
from .view import Part
from .view_copy import VIEWS, reader, sides
from .ws_schedule import named

_evaluate = _ffi.get("ir.Evaluate")
_parallel = _ffi.get("ir.ParallelFor")
_commit_group = _ffi.get("ir.CommitGroup")
_wait_group = _ffi.get("ir.WaitGroup")
#: the engine of these groups, as the IR numbers it (src/ir/async.h)
_CP_ASYNC = 7
_SIZES = (4, 8, 16)


def ptx_commit_group() -> None:
    """Makes a group of the thread's ``cp.async`` copies since its last commit."""
    in_kernel("T.ptx_commit_group")
    emit(_commit_group(_CP_ASYNC, span.current()))


def ptx_wait_group(num: int) -> None:
    """Waits until all groups of this thread but the ``num`` newest are complete.

    What other threads copied is there after they have waited, and a barrier.

    Raises:
        SemanticsError: ``num`` is no constant from 0 on.
    """
    in_kernel("T.ptx_wait_group")
    left = plain(num)
    if isinstance(left, bool) or not isinstance(left, int) or left < 0:
        raise errors.SemanticsError(
            f"T.ptx_wait_group: the number of groups must be a constant of at least 0, got `{num}`",
            span=span.here(),
        )
    emit(_wait_group(_CP_ASYNC, left, False, span.current()))


def _checked(target: Load, source: Load, size: Any) -> int:
    scopes = target.buffer.scope, source.buffer.scope
    if scopes[0] not in ("shared", "shared.dyn") or scopes[1] != "global":
        raise errors.ScopeError(
            "T.ptx_cp_async copies from global to shared memory, got "
            f"{source.buffer.describe()} and {target.buffer.describe()}",
            span=span.here(),
        )
    if size not in _SIZES:
        raise errors.SemanticsError(
            f"T.ptx_cp_async copies {', '.join(map(str, _SIZES))} bytes, got {size}",
            span=span.here(),
            notes=["num_elems is the number of elements"],
        )
    return size


def ptx_cp_async(
    dst_access_ptr: Any, src_access_ptr: Any, *args: Any, predicate: Any = None
) -> None:
    """Copies a few adjacent elements from global to shared memory, without waiting.

    ``T.ptx_cp_async(T.access_ptr(S[i], "w", 8), T.access_ptr(A[i], "r", 8), 8)``; in the older form
    ``T.ptx_cp_async(dtype, S.data, i, A.data, j, num_bytes)``.

    Args:
        dst_access_ptr, src_access_ptr: the addresses, multiples of the size.
        args: the number of elements, 4, 8 or 16 bytes of them, and a predicate.
        predicate: where it does not hold, zeros are written and nothing is read.

    Raises:
        ScopeError: other memory.
        SemanticsError: another size.
    """
    in_kernel("T.ptx_cp_async")
    if isinstance(dst_access_ptr, str):
        data, offset, source_data, source_offset, size, *rest = (src_access_ptr, *args)
        target, source = _at(data, offset), _at(source_data, source_offset)
        count = plain(size)
    else:
        target, source = element_of(dst_access_ptr), element_of(src_access_ptr)
        number, *rest = args
        count = plain(number) * target.dtype.bytes if isinstance(plain(number), int) else number
    test = rest[0] if rest else predicate
    size = _checked(target, source, count)
    read: Expr = const(size, INT32)
    if test is not None:
        read = select(condition(test), read, const(0, INT32))
    attrs = {"elements": size // target.dtype.bytes}
    arguments = [address_of(target), address_of(source), const(size, INT32), read]
    emit(_evaluate(call(VOID, "cp_async", arguments, attrs), span.current()))


def _at(data: Any, offset: Any) -> Load:
    """The element ``offset`` elements after an address."""
    first = element_of(data)
    indices: list[Any] = []
    number: Any = as_expr(offset)
    for extent in reversed(first.buffer.shape[1:]):
        indices.append(number % extent)
        number = number // extent
    return load(first.buffer, [number, *reversed(indices)])


@named
def async_copy(
    src: Any, dst: Any, *, coalesced_width: int | None = None, loop_layout: Any = None
) -> None:
    """Copies a tile from global to shared memory by ``cp.async``, as a group, without waiting.

    ``T.ptx_wait_group`` waits; then each thread sees what it copied, and after a barrier what
    others did. Where ``cp.async`` cannot carry the copy out, the threads store the elements
    themselves.

    Args:
        src: a tile of a tensor.
        dst: a tile in shared memory, of the same shape and type.
        coalesced_width, loop_layout: as of ``T.copy``.

    Raises:
        ShapeError: the tiles differ in shape.
        ScopeError: other memory.
    """
    in_block("T.async_copy")
    views = isinstance(src, VIEWS) or isinstance(dst, VIEWS)
    source, side = (sides if views else copy_regions)("T.async_copy", src, dst)
    target = _checked_tile(source, side)
    dims = [as_expr(extent) for extent in significant(target.shape) or [1]]
    variables = [var(f"i{n}", INT32) for n, _ in enumerate(dims)]
    notes = {"cp_async": False, "coalesced_width": coalesced_width, "loop_layout": loop_layout}
    given = {name: value for name, value in notes.items() if value is not None}
    value = cast(reader(source)(variables), target.dtype)
    place = load(target.buffer, place_in(target, variables))
    emit(_parallel(variables, dims, store(place, value), given, span.current()))
    ptx_commit_group()


def _checked_tile(source: Part | Region, target: Part | Region) -> Region:
    """Returns the tile in shared memory that a copy from a tensor fills."""
    holders = [
        side.view.source if isinstance(side, Part) else side.buffer for side in (source, target)
    ]
    in_shared = holders[1].scope in ("shared", "shared.dyn")
    if holders[0].scope != "global" or isinstance(target, Part) or not in_shared:
        raise errors.ScopeError(
            "T.async_copy copies from global to shared memory, got "
            f"{holders[0].describe()} and {holders[1].describe()}",
            span=span.here(),
            notes=["T.copy copies between any two memories"],
        )
    return target


def cp_async_barrier_noinc(barrier: Any) -> None:
    """The mbarrier gets one arrival of this thread when its copies so far by cp.async are there.

    It counts among the arrivals that the barrier was made for.
    """
    in_kernel("T.cp_async_barrier_noinc")
    arrive_by_copies(barrier)


ptx_cp_async_barrier = cp_async_barrier_noinc

__all__ = [
    "async_copy",
    "cp_async_barrier_noinc",
    "ptx_commit_group",
    "ptx_cp_async",
    "ptx_cp_async_barrier",
    "ptx_wait_group",
]
