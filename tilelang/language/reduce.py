"""Reductions of a tile along one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Region, shape_text, whole
from ..ir.dtype import FLOAT32
from ..ir.expr import Expr, const
from ..ir.stmt import emit
from .allocate import alloc_fragment
from .builder import in_block
from .copy import copy
from .reduce_axes import PLAIN, reduce_tensor, stages
from .reducer import check_batch
from .region import as_part, as_region, axis_in, significant
from .view import Part, all_equal
from .view_copy import VIEWS, boxed
from .ws_schedule import named

_reduce = _ffi.get("ir.Reduce")

_BIT_OPERATIONS = ("bitand", "bitor", "bitxor")
_TESTS = ("any", "all")
_OPERATIONS = ("sum", "max", "min", "abssum", "absmax", "prod", *_TESTS, *_BIT_OPERATIONS)


class Source(NamedTuple):
    """The source of a reduction, and its dimensions.

    Attributes:
        region: the memory.
        axes: dimensions of ``region``, from 0 on and in order.
        shape: that of the tile as the program names it: of a view its own.
        dims: the dimensions of ``shape`` that are ``axes``.
    """

    region: Region
    axes: list[int]
    shape: tuple[Any, ...]
    dims: list[int]

    @property
    def left(self) -> tuple[Any, ...]:
        """The extents of dimensions that are not reduced."""
        return tuple(extent for d, extent in enumerate(self.shape) if d not in self.dims)


def source_of(name: str, buffer: Any, dim: Any) -> Source:
    """Returns the source of a reduction along ``dim``, one dimension or several.

    A view that is no box of the memory below is copied to a fragment first, and so is one along a
    dimension of extent 1 that the memory does not have.

    Raises:
        ShapeError: there is no such dimension, or none at all.
    """
    is_view = isinstance(buffer, VIEWS)
    tile = as_part(buffer) if is_view else as_region(f"buffer of {name}", buffer)
    shape, named = tuple(tile.shape), (tile.view if isinstance(tile, Part) else tile.buffer).name
    dims = _dimensions(named, len(shape), dim if isinstance(dim, (tuple, list)) else [dim])
    region = boxed(tile)
    if not isinstance(region, Region):
        return _in_fragment(tile, dims)
    placed = [axis_in(region, shape, d) for d in dims]
    # Beside other dimensions one of extent 1 changes nothing.
    axes = [axis for axis in placed if axis is not None]
    return Source(region, axes, shape, dims) if axes else _in_fragment(tile, dims)


def _in_fragment(tile: Part | Region, dims: list[int]) -> Source:
    held = alloc_fragment(tile.shape, tile.dtype)
    copy(tile, held)
    return Source(whole(held), dims, tuple(tile.shape), dims)


def _dimensions(named: str, rank: int, dims: Sequence[Any]) -> list[int]:
    for dim in dims:
        if isinstance(dim, bool) or not isinstance(dim, int) or not -rank <= dim < rank:
            raise errors.ShapeError(
                f"dim={dim} of a reduction of {named}, which has {rank} dimensions",
                span=span.here(),
                notes=[f"dim must be from {-rank} to {rank - 1}"],
            )
    if not dims:
        raise errors.ShapeError(f"reduction of {named} along no dimension", span=span.here())
    return sorted({dim % rank for dim in dims})


def _is_complete(src: Source, results: Sequence[Any]) -> bool:
    """Returns whether results have the shape without, or with 1 at, what is reduced."""
    return all_equal(significant(results), significant(src.left))


def wrong_results(name: str, src: Source, dst: Region) -> errors.ShapeError:
    """The error for results of another shape."""
    along = f"dimension {src.dims[0]}" if len(src.dims) == 1 else f"dimensions {tuple(src.dims)}"
    return errors.ShapeError(
        f"{name} of {shape_text(src.shape)} along {along} gives {shape_text(src.left)}, "
        f"but {dst.buffer.name} has shape {shape_text(dst.shape)}",
        span=span.here(),
        notes=[src.region.buffer.describe(), dst.buffer.describe()],
    )


def _is_partial(shape: tuple[Any, ...], results: tuple[Any, ...], dim: int) -> bool:
    """Returns whether results are several for each row of ``shape``."""
    if len(results) != len(shape) or not isinstance(shape[dim], int):
        return False
    alike = all_equal((*shape[:dim], results[dim], *shape[dim + 1 :]), results)
    return alike and isinstance(results[dim], int) and shape[dim] % results[dim] == 0


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
        reduce_type: sum, max, min, abssum, absmax, prod, any, all, bitand, bitor or bitxor.
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
    src, dst = source_of(name, buffer, dim), as_region(f"out of {name}", out)
    check_batch("T.reduce", batch, dst.shape)
    dtype = src.region.dtype
    if reduce_type in _BIT_OPERATIONS and (dtype.is_float or dst.dtype.is_float):
        raise errors.DTypeError(
            f"{name} of {dtype} into {dst.dtype}: bit operations take integers",
            span=span.here(),
        )
    if isinstance(dim, (tuple, list)) or chunk is not None:
        exact = nan_propagate or slack is not None
        _along(src, dst, reduce_type, Turns(bool(clear), chunk, exact))
        return
    region, axis = _along_one(name, src, dst)
    allowed = None if slack is None else _slack(name, dst, slack, clear or nan_propagate)
    emit(
        _reduce(region, dst, reduce_type, axis, bool(clear), nan_propagate, allowed, span.current())
    )


def _along_one(name: str, src: Source, dst: Region) -> tuple[Region, int]:
    """The region and the dimension of it that give results of the shape of ``dst``."""
    if not (_is_complete(src, dst.shape) or _is_partial(src.region.shape, dst.shape, src.axes[0])):
        if not _is_partial(src.shape, dst.shape, src.dims[0]):
            raise wrong_results(name, src, dst)
        held = alloc_fragment(src.shape, src.region.dtype)
        copy(src.region, held)
        return whole(held), src.dims[0]
    return src.region, src.axes[0]


class Turns(NamedTuple):
    """The turns of a reduction; see :func:`reduce`."""

    clear: bool
    chunk: int | None
    exact: bool  # asks for what only one dimension has


def _along(source: Source, dst: Region, op: str, turns: Turns) -> None:
    """Reduces along all of its dimensions."""
    name, src, axes = f"T.reduce_{op}", source.region, source.axes
    if turns.exact:
        raise errors.UnsupportedError(
            f"nan_propagate and slack of {name} are for one dimension, without chunk=",
            span=span.here(),
        )
    if not _is_complete(source, dst.shape):
        raise wrong_results(name, source, dst)
    if src.buffer.scope == "global":
        if op == "prod":
            raise errors.UnsupportedError(
                f"{name} of {src.buffer.describe()} is for one dimension, without chunk=",
                span=span.here(),
                notes=["reduce one dimension after the other, or copy tiles to fragments first"],
            )
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
def reduce_prod(
    buffer: Any,
    out: Any,
    dim: Any = -1,
    clear: bool = True,
    batch: int = 1,
) -> None:
    """The product along ``dim``; see :func:`reduce`.

    Raises:
        UnsupportedError: of a tensor, along several dimensions.
    """
    reduce(buffer, out, "prod", dim, clear, batch)


@named
def reduce_any(
    buffer: Any,
    out: Any,
    dim: Any = -1,
    clear: bool = True,
    batch: int = 1,
    chunk: int | None = None,
) -> None:
    """1 where an element along ``dim`` is not 0, else 0; see :func:`reduce`.

    ``out`` is of bool or a type of numbers. With ``clear=False`` it counts as one element more.
    """
    reduce(buffer, out, "any", dim, clear, batch, chunk=chunk)


@named
def reduce_all(
    buffer: Any,
    out: Any,
    dim: Any = -1,
    clear: bool = True,
    batch: int = 1,
    chunk: int | None = None,
) -> None:
    """1 where no element along ``dim`` is 0, else 0; see :func:`reduce_any`."""
    reduce(buffer, out, "all", dim, clear, batch, chunk=chunk)


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
