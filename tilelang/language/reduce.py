"""Reductions of a tile along one dimension."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Region, shape_text
from ..ir.stmt import emit
from .builder import in_block
from .ignored import remark_ignored
from .region import as_region, significant

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
    raise errors.ShapeError(
        f"{name} of {shape_text(shape)} along dimension {dim} gives {shape_text(dropped)}, "
        f"but {dst.buffer.name} has shape {shape_text(dst.shape)}",
        span=span.here(),
        notes=[src.buffer.describe(), dst.buffer.describe()],
    )


def reduce(
    buffer: Any,
    out: Any,
    reduce_type: str,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
) -> None:
    """Reduces ``buffer`` along ``dim`` into ``out``.

    Args:
        buffer: a fragment or a shared-memory tile, whole or a slice.
        out: of the shape of ``buffer`` without ``dim``, or with extent 1 there.
        reduce_type: sum, max, min, abssum, absmax, bitand, bitor or bitxor.
        dim: the dimension; negative ones count from the end.
        clear: overwrite ``out``; else combine with what it holds.
        batch: accepted; the compiler decides how many rows go through shared memory at once.
        nan_propagate: of max and min: NaN if any element is.

    Raises:
        ShapeError: the shape of ``out`` does not fit.
        DTypeError: a bit operation on floats.
    """
    in_block(f"T.reduce_{reduce_type}")
    if reduce_type not in _OPERATIONS:
        raise errors.SemanticsError(
            f"unknown reduction {reduce_type!r}",
            span=span.here(),
            notes=[f"known: {', '.join(_OPERATIONS)}"],
        )
    remark_ignored("T.reduce", batch=batch)
    name = f"T.reduce_{reduce_type}"
    src, dst = as_region(f"buffer of {name}", buffer), as_region(f"out of {name}", out)
    axis = _dimension(src, dim)
    _check(name, src, dst, axis)
    if reduce_type in _BIT_OPERATIONS and (src.dtype.is_float or dst.dtype.is_float):
        raise errors.DTypeError(
            f"{name} of {src.dtype} into {dst.dtype}: bit operations take integers",
            span=span.here(),
        )
    emit(_reduce(src, dst, reduce_type, axis, bool(clear), nan_propagate, span.current()))


def reduce_sum(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1) -> None:
    """The sum along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "sum", dim, clear, batch)


def reduce_max(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
) -> None:
    """The greatest element along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "max", dim, clear, batch, nan_propagate)


def reduce_min(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
) -> None:
    """The least element along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "min", dim, clear, batch, nan_propagate)


def reduce_absmax(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
) -> None:
    """The greatest absolute value along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "absmax", dim, clear, batch, nan_propagate)


def reduce_abssum(buffer: Any, out: Any, dim: int = -1, batch: int = 1, clear: bool = True) -> None:
    """The sum of absolute values along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "abssum", dim, clear, batch)


def reduce_bitand(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1) -> None:
    """Bitwise and along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "bitand", dim, clear, batch)


def reduce_bitor(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1) -> None:
    """Bitwise or along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "bitor", dim, clear, batch)


def reduce_bitxor(buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1) -> None:
    """Bitwise exclusive or along ``dim``; see :func:`reduce`."""
    reduce(buffer, out, "bitxor", dim, clear, batch)
