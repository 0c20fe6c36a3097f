"""Reductions along several dimensions at once, and of tensors by turns of a given size."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer, Load, Region, load, shape_text
from ..ir.dtype import FLOAT32, INT32, DType
from ..ir.expr import as_expr, cast
from .allocate import alloc_fragment
from .function import macro
from .loops import Parallel
from .reducer import Reducer, alloc_reducer, finalize_reducer, reducer_update
from .region import place_in
from .scalar import abs_value
from .scalar import max as maximum
from .scalar import min as minimum

#: The reduction of values that took part already.
PLAIN = {"absmax": "max", "abssum": "sum", "any": "max", "all": "min"}


def running_type(dtype: DType) -> DType:
    """The type of the running value of results of type ``dtype``."""
    if dtype.is_float:
        return FLOAT32 if dtype.bits < 32 else dtype
    return INT32 if dtype.bits < 32 else dtype


def reduce_tensor(
    src: Region, dst: Region, op: str, axes: list[int], clear: bool, chunk: int | None
) -> None:
    """Reduces memory of any extent along ``axes``, in one pass over it."""
    kept = [d for d, extent in enumerate(src.shape) if d not in axes and extent != 1]
    shape = [src.shape[d] for d in kept]
    if not all(isinstance(extent, int) for extent in shape):
        raise errors.ShapeError(
            f"results of shape {shape_text(shape)} of a reduction along several dimensions, or by "
            "chunks, have no constant shape",
            span=span.here(),
            notes=["loop over the results, or reduce one dimension without chunk="],
        )
    plain_op = PLAIN.get(op, op)
    total = alloc_reducer(shape or [1], running_type(dst.dtype), op=plain_op, chunk=chunk)
    _contribute(src, total, kept, op)
    finalize_reducer(total)
    _conclude(total, dst, plain_op, clear)


@macro
def _contribute(src: Any, total: Any, kept: Any, op: Any) -> None:
    for place in Parallel(*src.shape):
        here = place if isinstance(place, tuple) else (place,)
        reducer_update(_result(total, here, kept), _element(src, here, op, total.dtype))


@macro
def _conclude(total: Any, dst: Any, op: Any, clear: Any) -> None:
    for place in Parallel(*total.shape):
        here = place if isinstance(place, tuple) else (place,)
        there = place_in(dst, here)
        found = total[here]
        held = found if clear else _combine(op, cast(dst.buffer[there], total.dtype), found)
        dst.buffer[there] = cast(held, dst.dtype)


def _result(total: Reducer, here: tuple[Any, ...], kept: list[int]) -> Load:
    return load(total.buffer, [here[d] for d in kept] or [as_expr(0)])


def _element(src: Region, here: tuple[Any, ...], op: str, dtype: DType) -> Any:
    value = load(src.buffer, [low + at for low, at in zip(src.mins, here, strict=True)])
    if op in ("any", "all"):
        return cast(value != 0, dtype)
    converted = cast(value, dtype)
    return abs_value(converted) if op in ("absmax", "abssum") else converted


def _combine(op: str, a: Any, b: Any) -> Any:
    if op == "sum":
        return a + b
    if op in ("max", "min"):
        return (maximum if op == "max" else minimum)(a, b)
    if op == "bitand":
        return a & b
    return a | b if op == "bitor" else a ^ b


def stages(src: Region, dst: Region, axes: list[int]) -> list[tuple[Any, int]]:
    """The tiles and axes of reductions of one dimension each, the last into ``dst``."""
    found: list[tuple[Any, int]] = []
    shape = list(src.shape)
    for axis in sorted(axes, reverse=True)[:-1]:
        del shape[axis]
        tile: Buffer = alloc_fragment(tuple(shape), running_type(dst.dtype))
        found.append((tile, axis))
    return [*found, (dst, min(axes))]
