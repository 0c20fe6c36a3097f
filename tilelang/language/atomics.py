"""Atomic operations on elements and tiles of global and shared memory."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, Load, Region, difference, load, plain, shape_text
from ..ir.dtype import INT32, VOID
from ..ir.expr import Call, Expr, as_element, as_expr, call, cast, var
from ..ir.stmt import emit
from .builder import Builder, in_block, in_kernel
from .codec import NarrowType
from .copy import copy_regions
from .copy_options import CopyCall, emit_copy
from .ignored import remark_ignored
from .lanes import Lanes
from .pointer import address_of, element_of
from .region import as_region, significant
from .variable import Ref
from .view import Element, Part, View
from .ws_schedule import named

_evaluate = _ffi.get("ir.Evaluate")
_parallel = _ffi.get("ir.ParallelFor")

_TOO_NARROW = ("bool", "int8", "uint8", "int16", "uint16", "float8_e4m3fn", "float8_e5m2")
_ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
#: Orders of loads and stores alone; what consumes acquires.
_LOADS = {"relaxed": "relaxed", "consume": "acquire", "acquire": "acquire", "seq_cst": "seq_cst"}
_STORES = {"relaxed": "relaxed", "release": "release", "seq_cst": "seq_cst"}


def _attrs(memory_order: str | None) -> dict[str, Any]:
    if memory_order is None:
        return {}
    if memory_order not in _ORDERS:
        raise errors.SemanticsError(
            f"unknown memory order {memory_order!r}",
            span=span.here(),
            notes=[f"known: {', '.join(_ORDERS)}"],
        )
    return {"memory_order": memory_order}


def _type_of(name: str, dst: Any) -> Any:
    """The type of an element or a tile, if a GPU updates it atomically."""
    dtype = getattr(dst.view if isinstance(dst, Element) else dst, "dtype", INT32)
    if isinstance(dtype, NarrowType) or dtype in _TOO_NARROW:
        raise errors.DTypeError(
            f"T.{name} does not support {dtype}: no GPU has atomic operations on this type",
            span=span.here(),
            notes=["keep the values in int32, uint32 or float32"],
        )
    return dtype


def _element(what: str, dst: Any) -> Load:
    element = element_of(dst) if isinstance(dst, (Ref, Element)) else dst
    if not isinstance(element, Load):
        region = as_region(f"dst of {what}", element)
        raise errors.ShapeError(
            f"{what} takes one element, but `{region}` has shape {shape_text(region.shape)}",
            span=span.here(),
        )
    if element.buffer.scope not in ("global", "shared.dyn"):
        raise errors.ScopeError(
            f"{what} on {element.buffer.describe()}: atomic operations need global or shared "
            "memory, which several threads can access",
            span=span.here(),
        )
    return element


def _operation(name: str, dst: Any, value: Any, order: str | None) -> Call:
    element = _element(f"T.{name}", dst)
    operand = as_element(value, element.dtype)
    return call(element.dtype, name, [address_of(element), operand], _attrs(order))


def _finish(builder: Builder, operation: Call, return_prev: bool) -> Expr | None:
    """Emits an operation; its old value, when wanted, is taken exactly once."""
    if return_prev:
        return builder.bind(builder.take_hint("prev"), operation)
    emit(_evaluate(operation, span.current()))
    return None


def _tile(name: str, dst: Any, value: Any, order: str | None) -> None:
    """``name`` for each element of a tile."""
    in_block(f"T.{name} of a tile")
    what = f"dst of T.{name}"
    source = None if _is_scalar(value) else value
    if source is None:
        target = as_region(what, dst)
    else:
        source, target = copy_regions(f"T.{name}", source, dst)
    if (
        name == "atomic_add"
        and order is None
        and source is not None
        and _may_be_stored(source, target)
    ):
        emit_copy(source, target, CopyCall.ATOMIC_ADD)
        return
    # A tile of one element is updated by one thread, too.
    dims = significant(target.shape) or [1]
    variables = [var(f"i{n}", INT32) for n, _ in enumerate(dims)]
    where = span.current()

    def at(region: Region) -> Load:
        inner = iter(variables)
        indices = [
            low if isinstance(dim, int) and dim == 1 else low + next(inner)
            for low, dim in zip(region.mins, map(plain, region.extents), strict=True)
        ]
        return load(region.buffer, indices)

    operand = value if source is None else at(source)
    body = _evaluate(_operation(name, at(target), operand, order), where)
    emit(_parallel(variables, [as_expr(dim) for dim in dims], body, {}, where))


def _may_be_stored(source: Region, target: Region) -> bool:
    """Returns whether the tile might be added by the tensor memory accelerator."""
    scopes = source.buffer.scope, target.buffer.scope
    return scopes == ("shared.dyn", "global") and source.dtype == target.dtype


def _is_scalar(value: Any) -> bool:
    """Whether it is a value rather than a tile or, of memory that threads share, its corner."""
    if isinstance(value, Buffer):
        return value.scope == "local.var"
    if isinstance(value, Load):
        return value.buffer.scope in ("local", "local.var")
    return not isinstance(value, (Region, View, Part))


def _is_tile(dst: Any, value: Any) -> bool:
    if isinstance(dst, (Buffer, Region, View, Part)):
        return True
    return isinstance(value, (Buffer, Region, View, Part)) and not _is_scalar(value)


def _update(name: str, dst: Any, value: Any, order: str | None, return_prev: bool) -> Any:
    builder = in_kernel(f"T.{name}")
    _type_of(name, dst)
    if not _is_tile(dst, value):
        return _finish(builder, _operation(name, dst, value, order), return_prev)
    if return_prev:
        raise errors.UnsupportedError(
            f"T.{name} of a tile cannot return the old values", span=span.here()
        )
    _tile(name, dst, value, order)
    return None


@named
def atomic_add(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    use_tma: bool = False,
) -> Any:
    """Adds to an element, once for each thread that gets here, or to a tile, once an element.

    Args:
        dst: an element ``A[i]`` or a tile (buffer, slice, or corner with a tile as value).
        value: converted to the element type; a scalar, or for a tile also a tile of its shape or
            the corner of one.
        memory_order: relaxed (default), acquire, release, acq_rel or seq_cst.
        return_prev: return the value before.
        use_tma: accepted; the compiler decides. A tile of float32 or of 32-bit integers in shared
            memory is added to one in global memory by the tensor memory accelerator, where it can
            store it.
    """
    remark_ignored("T.atomic_add", use_tma=use_tma)
    return _update("atomic_add", dst, value, memory_order, return_prev)


def atomic_max(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False
) -> Any:
    """Takes the maximum with an element; see :func:`atomic_add`."""
    return _update("atomic_max", dst, value, memory_order, return_prev)


def atomic_min(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False
) -> Any:
    """Takes the minimum with an element; see :func:`atomic_add`."""
    return _update("atomic_min", dst, value, memory_order, return_prev)


def _bitwise(name: str, dst: Any, value: Any, order: str | None, return_prev: bool) -> Any:
    dtype = _type_of(name, dst)
    if dtype.is_float:
        raise errors.DTypeError(f"T.{name} takes integers, got {dtype}", span=span.here())
    return _update(name, dst, value, order, return_prev)


def atomic_or(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False
) -> Any:
    """Bitwise or with an element; see :func:`atomic_add`."""
    return _bitwise("atomic_or", dst, value, memory_order, return_prev)


def atomic_and(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False
) -> Any:
    """Bitwise and with an element; see :func:`atomic_add`."""
    return _bitwise("atomic_and", dst, value, memory_order, return_prev)


def atomic_xor(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False
) -> Any:
    """Bitwise exclusive or with an element; see :func:`atomic_add`."""
    return _bitwise("atomic_xor", dst, value, memory_order, return_prev)


def _vector(name: str, width: int, dst: Any, value: Any, return_prev: bool) -> Any:
    in_kernel(f"T.{name}")
    _type_of(name, dst)
    target = _element(f"T.{name}", _first_of(f"dst of T.{name}", width, dst))
    if isinstance(value, Lanes):
        return _lane_by_lane(name, width, target, value, return_prev)
    source = as_region(f"value of T.{name}", _first_of(f"value of T.{name}", width, value))
    mins = list(source.mins)
    values = [
        cast(load(source.buffer, [*mins[:-1], mins[-1] + n]), target.dtype) for n in range(width)
    ]
    if return_prev:
        return _lane_by_lane(name, width, target, values, return_prev)
    operation = call(VOID, name, [address_of(target), *values], {"elements": width})
    emit(_evaluate(operation, span.current()))
    return None


def _first_of(what: str, width: int, operand: Any) -> Any:
    """The first element of a tile or vector of as many adjacent ones; anything else as it is."""
    if isinstance(operand, Lanes):
        return _first_lane(what, operand)
    if not isinstance(operand, (Buffer, Region)):
        return operand
    region = as_region(what, operand)
    if [*map(plain, region.extents)] != [1] * (len(region.extents) - 1) + [width]:
        raise errors.ShapeError(
            f"{what} must be {width} adjacent elements, but `{region}` has shape "
            f"{shape_text(region.shape)}",
            span=span.here(),
            notes=["loop over a larger tile with T.Parallel, or use T.atomic_add"],
        )
    return load(region.buffer, region.mins)


def _first_lane(what: str, vector: Lanes) -> Load:
    """The element of a vector's first lane, for a vector of adjacent elements of memory."""
    first = vector[0]
    for n, each in enumerate(vector):
        if not _is_beside(first, each, n):
            raise errors.ShapeError(
                f"{what} must be adjacent elements of memory, but `{vector}` is not",
                span=span.here(),
            )
    return first  # type: ignore[return-value]


def _is_beside(first: Expr, other: Expr, places: int) -> bool:
    """Whether ``other`` is the element that many places after ``first``, in the same row."""
    if not (isinstance(first, Load) and isinstance(other, Load)):
        return False
    if not first.buffer.same_as(other.buffer):
        return False
    *outer, last = map(difference, other.indices, first.indices)
    wanted = [0] * len(outer) + [places]
    return all(
        isinstance(step, int) and step == n
        for step, n in zip(map(plain, [*outer, last]), wanted, strict=True)
    )


def _lane_by_lane(name: str, width: int, target: Load, values: Any, return_prev: bool) -> Any:
    if len(values) != width:
        raise errors.ShapeError(
            f"T.{name} adds {width} values, got {len(values)}", span=span.here()
        )
    places = [
        load(target.buffer, [*target.indices[:-1], target.indices[-1] + n]) for n in range(width)
    ]
    old = [atomic_add(at, each, None, return_prev) for at, each in zip(places, values, strict=True)]
    return Lanes(old) if return_prev else None


def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """Adds two adjacent values to two adjacent elements; ``dst`` and ``value`` name the first.

    Args:
        dst: an element, or a tile of two.
        value: an element, a tile of two, or a vector of two lanes; converted to the type of
            ``dst``.
        return_prev: return a vector of the values before; the elements are not updated together.
    """
    return _vector("atomic_addx2", 2, dst, value, return_prev)


def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """Adds four adjacent values to four adjacent elements; see :func:`atomic_addx2`."""
    return _vector("atomic_addx4", 4, dst, value, return_prev)


def _one_way(name: str, orders: dict[str, str], memory_order: Any) -> dict[str, Any]:
    if memory_order not in orders:
        raise errors.SemanticsError(
            f"T.{name} does not support memory_order {memory_order!r}",
            span=span.here(),
            notes=[f"it takes {', '.join(orders)}"],
        )
    return _attrs(orders[memory_order])


def atomic_load(src: Any, memory_order: str = "seq_cst") -> Expr:
    """Reads an element atomically, at this point.

    Args:
        src: an element.
        memory_order: relaxed, consume (as acquire), acquire or seq_cst.
    """
    order = _one_way("atomic_load", _LOADS, memory_order)
    builder = in_kernel("T.atomic_load")
    element = _element("T.atomic_load", src)
    value = call(element.dtype, "atomic_load", [address_of(element)], order)
    return builder.bind(builder.take_hint("loaded"), value)


def atomic_store(dst: Any, src: Any, memory_order: str = "seq_cst") -> None:
    """Writes an element atomically.

    Args:
        dst: an element.
        src: the value, converted to its type.
        memory_order: relaxed, release or seq_cst.
    """
    order = _one_way("atomic_store", _STORES, memory_order)
    in_kernel("T.atomic_store")
    element = _element("T.atomic_store", dst)
    value = as_element(src, element.dtype)
    args = [address_of(element), value]
    emit(_evaluate(call(VOID, "atomic_store", args, order), span.current()))
