"""Reductions of a tile along one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Region, shape_text
from ..ir.dtype import FLOAT32
from ..ir.expr import Expr, const
from ..ir.stmt import emit
from .allocate import alloc_fragment
from .builder import in_block
from .copy import copy
from .reduce_axes import PLAIN, check_axes, reduce_tensor, stages
from .reducer import check_batch
from .region import as_part, as_region, significant
from .view import Part, View
from .ws_schedule import named

_reduce = _ffi.get("ir.Reduce")

_BIT_OPERATIONS = ("bitand", "bitor", "bitxor")
_OPERATIONS = ("sum", "max", "min", "abssum", "absmax", *_BIT_OPERATIONS)


def _dimension(region: Region, dim: Any) -> int:
    rank = len(region.shape)
    if isinstance(dim, bool) or not isinstance(dim, int) or not -rank <= dim < rank:
        raise errors.ShapeError(
            f"dim={dim} of a reduction of {region.buffer.name}, which has rank {rank}",
            span=span.here(),
            notes=[f"dim is from {-rank} to {rank - 1}"],
        )
    return dim % rank


def _check(name: str, src: Region, dst: Region, dim: int) -> None:
    shape = src.shape
    dropped, kept = shape[:dim] + shape[dim + 1 :], (*shape[:dim], 1, *shape[dim + 1 :])
    if dst.shape in (dropped, kept) or significant(dst.shape) == significant(dropped):
        return
    partial = len(dst.shape) == len(shape) and (*shape[:dim], dst.shape[dim], *shape[dim + 1 :])
    if dst.shape == partial and shape[dim] % dst.shape[dim] == 0:
        return
    raise errors.ShapeError(
        f"{name} of {shape_text(shape)} along dimension {dim} gives {shape_text(dropped)}, "
        f"but {dst.buffer.name} has shape {shape_text(dst.shape)}",
        span=span.here(),
        notes=[src.buffer.describe(), dst.buffer.describe()],
    )


def source_of(name: str, buffer: Any) -> Region:
    """What is reduced: of a view that is no box of the memory below, a copy in a fragment."""
    if isinstance(buffer, (View, Part)):
        part = as_part(buffer)
        if part.view.box(part) is None:
            buffer = alloc_fragment(part.extents, part.dtype)
            copy(part, buffer)
    return as_region(f"buffer of {name}", buffer)


def _check_operation(reduce_type: Any) -> None:
    in_block(f"T.reduce_{reduce_type}")
    if reduce_type not in _OPERATIONS:
        raise errors.SemanticsError(
            f"unknown reduction {reduce_type!r}",
            span=span.here(),
            notes=[f"known: {', '.join(_OPERATIONS)}"],
        )


def _slack(name: str, dst: Region, slack: Any, exact: bool) -> Expr:
    if not isinstance(slack, (int, float)) or isinstance(slack, bool) or not slack >= 0:
        raise errors.SemanticsError(
            f"slack of {name} is a number that is not negative, not {slack!r}", span=span.here()
        )
    if name not in ("T.reduce_max", "T.reduce_min"):
        raise errors.SemanticsError(f"{name} has no slack", span=span.here())
    if exact:
        raise errors.SemanticsError(
            f"slack of {name} is how far a result may stay behind: it goes with clear=False, and "
            "without nan_propagate",
            span=span.here(),
        )
    if not dst.dtype.is_float:
        raise errors.DTypeError(
            f"slack of {name}, into {dst.buffer.name} of {dst.dtype}: it is for floats",
            span=span.here(),
        )
    return const(float(slack), FLOAT32)


@named
def reduce(
    buffer: Any,
    out: Any,
    reduce_type: str,
    dim: Any = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    slack: float | None = None,
    chunk: int | None = None,
) -> None:
    """Reduces ``buffer`` along ``dim`` into ``out``.

    What does not fit registers is gone through tile by tile, with running values in registers and
    one exchange between threads at the end; a remark says in which tiles.

    Args:
        buffer: a fragment or a shared-memory tile, whole, a slice or a view; or a tensor or a
            region of one, of any extent, also one that is known at run time.
        out: of the shape of ``buffer`` without ``dim``, or with extent 1 there, or with an extent n
            that divides that of ``buffer``: then n partial results of each row, the first of its
            elements 0, n, 2n, ... Kept over a loop and reduced once after it, they spare the
            threads that share a row an exchange in each iteration.
        reduce_type: sum, max, min, abssum, absmax, bitand, bitor or bitxor.
        dim: the dimension, or several; negative ones count from the end.
        clear: overwrite ``out``; else combine with what it holds.
        batch: accepted; the compiler decides how many rows go through shared memory at once.
        nan_propagate: of max and min: NaN if any element is.
        slack: of max and min into floats, with clear=False: a row of ``out`` may stay as it is
            where no element is beyond it by more than this, which spares the threads an exchange.
            Which rows do is the compiler's choice; 0 gives exact results.
        chunk: of a tensor, the elements along ``dim`` that one turn takes at most; the compiler
            decides if it is not given.

    Raises:
        ShapeError: the shape of ``out`` does not fit, or ``batch`` does not divide its elements.
        DTypeError: a bit operation on floats; ``slack`` with other types.
        SemanticsError: ``slack`` of another reduction, negative, or beside what excludes it;
            ``chunk`` of a tile in fragments or shared memory.
        UnsupportedError: ``nan_propagate`` along several dimensions, or with ``chunk``.
    """
    _check_operation(reduce_type)
    name = f"T.reduce_{reduce_type}"
    src, dst = source_of(name, buffer), as_region(f"out of {name}", out)
    check_batch("T.reduce", batch, dst.shape)
    if reduce_type in _BIT_OPERATIONS and (src.dtype.is_float or dst.dtype.is_float):
        raise errors.DTypeError(
            f"{name} of {src.dtype} into {dst.dtype}: bit operations take integers",
            span=span.here(),
        )
    if isinstance(dim, (tuple, list)) or chunk is not None:
        exact = nan_propagate or slack is not None
        _along(src, dst, reduce_type, dim, Turns(bool(clear), chunk, exact))
        return
    axis = _dimension(src, dim)
    _check(name, src, dst, axis)
    allowed = None if slack is None else _slack(name, dst, slack, clear or nan_propagate)
    emit(_reduce(src, dst, reduce_type, axis, bool(clear), nan_propagate, allowed, span.current()))


def axes_of(src: Region, dims: Sequence[Any]) -> list[int]:
    """The dimensions ``dims``, from 0 on and in order.

    Raises:
        ShapeError: there is none, or no such dimension.
    """
    axes = sorted({_dimension(src, d) for d in dims})
    if not axes:
        raise errors.ShapeError(
            f"reduction of {src.buffer.name} along no dimension", span=span.here()
        )
    return axes


class Turns(NamedTuple):
    """How a reduction is done: see :func:`reduce`."""

    clear: bool
    chunk: int | None
    exact: bool  # asks for what only one dimension has


def _along(src: Region, dst: Region, op: str, dim: Any, turns: Turns) -> None:
    """Reduces along the dimensions ``dim``."""
    name = f"T.reduce_{op}"
    axes = axes_of(src, dim if isinstance(dim, (tuple, list)) else [dim])
    if turns.exact:
        raise errors.UnsupportedError(
            f"nan_propagate and slack of {name} are for one dimension, without chunk=",
            span=span.here(),
        )
    check_axes(name, src, dst, axes)
    if src.buffer.scope == "global":
        reduce_tensor(src, dst, op, axes, turns.clear, turns.chunk)
        return
    if turns.chunk is not None:
        raise errors.SemanticsError(
            f"chunk of {name}: {src.buffer.describe()} is reduced at once; chunks are for tensors",
            span=span.here(),
        )
    for tile, axis in stages(src, dst, axes):
        reduce(src, tile, op, axis, turns.clear if tile is dst else True)
        src, op = as_region(f"buffer of {name}", tile), PLAIN.get(op, op)


@named
def reduce_sum(
    buffer: Any,
    out: Any,
    dim: Any = -1,
    clear: bool = True,
    batch: int = 1,
    chunk: int | None = None,
) -> None:
    """The sum along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "sum", dim, clear, batch, chunk=chunk)


@named
def reduce_max(
    buffer: Any,
    out: Any,
    dim: Any = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    slack: float | None = None,
    chunk: int | None = None,
) -> None:
    """The greatest element along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "max", dim, clear, batch, nan_propagate, slack, chunk)


@named
def reduce_min(
    buffer: Any,
    out: Any,
    dim: Any = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    slack: float | None = None,
    chunk: int | None = None,
) -> None:
    """The least element along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "min", dim, clear, batch, nan_propagate, slack, chunk)


@named
def reduce_absmax(
    buffer: Any,
    out: Any,
    dim: Any = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    chunk: int | None = None,
) -> None:
    """The greatest absolute value along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "absmax", dim, clear, batch, nan_propagate, chunk=chunk)


@named
def reduce_abssum(
    buffer: Any,
    out: Any,
    dim: Any = -1,
    batch: int = 1,
    clear: bool = True,
    chunk: int | None = None,
) -> None:
    """The sum of absolute values along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "abssum", dim, clear, batch, chunk=chunk)


@named
def reduce_bitand(buffer: Any, out: Any, dim: Any = -1, clear: bool = True, batch: int = 1) -> None:
    """Bitwise and along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "bitand", dim, clear, batch)


@named
def reduce_bitor(buffer: Any, out: Any, dim: Any = -1, clear: bool = True, batch: int = 1) -> None:
    """Bitwise or along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "bitor", dim, clear, batch)


@named
def reduce_bitxor(buffer: Any, out: Any, dim: Any = -1, clear: bool = True, batch: int = 1) -> None:
    """Bitwise exclusive or along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "bitxor", dim, clear, batch)
