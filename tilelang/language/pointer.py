"""Addresses, calls of C++ functions, and expressions as statements."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, Load, Region, load, plain
from ..ir.dtype import HANDLE, VOID, dtype_of
from ..ir.expr import Call, Expr, as_expr, call
from ..ir.stmt import emit
from .builder import in_kernel
from .variable import Ref
from .view import Element, Part, View

_evaluate = _ffi.get("ir.Evaluate")


def address_of(element: Any) -> Expr:
    """The address of an element ``A[i]``; of a buffer or a slice, that of its first element."""
    return access_ptr(element)


def element_of(base: Any) -> Load:
    """The element that an operand names: itself, the first of a tile, or what an address is of.

    Raises:
        SemanticsError: it is nothing in memory.
    """
    if isinstance(base, Load):
        return base
    if isinstance(base, Buffer):
        return load(base, [0] * base.ndim)
    if isinstance(base, Region):
        return load(base.buffer, base.mins)
    if isinstance(base, Ref):
        return base.target
    if isinstance(base, Element):
        return base.view.place(base.indices)
    if isinstance(base, (View, Part)):
        part = base.whole() if isinstance(base, View) else base
        return part.view.place(part.mins)
    if isinstance(base, Call) and base.name == "address_of":
        return base.args[0]  # type: ignore[return-value]
    raise errors.SemanticsError(
        f"`{base}` has no address: it is neither a buffer nor an element of one", span=span.here()
    )


def access_ptr(
    base: Any, access_type: Any = "r", *extents: Any, offset: Any = 0, **_hints: Any
) -> Expr:
    """The address of an element.

    Args:
        base: a buffer, an element or a slice.
        access_type, extents: accepted; what a call reads and writes is taken from the callee.
        offset: elements to skip; only in a contiguous buffer.
    """
    element = element_of(base)
    skip = plain(offset)
    if isinstance(skip, int) and skip == 0:
        return call(HANDLE, "address_of", [element])
    buffer = element.buffer
    if buffer.strides:
        raise errors.UnsupportedError(
            f"an offset into {buffer.describe()}, which has strides",
            span=span.here(),
            notes=["index the element instead"],
        )
    linear: Any = 0
    for index, extent in zip(element.indices, buffer.shape, strict=True):
        linear = linear * extent + index
    linear = linear + offset
    indices: list[Any] = []
    for extent in reversed(buffer.shape[1:]):
        indices.append(linear % extent)
        linear = linear // extent
    return call(HANDLE, "address_of", [load(buffer, [linear, *reversed(indices)])])


def ldg(element: Any) -> Expr:
    """Reads an element; of a tensor that the kernel only reads, every read is ``ld.global.nc``."""
    return as_expr(element_of(element))


def call_extern(dtype: Any, func_name: Any, *args: Any) -> Any:
    """A call of a C++ function that the kernel's prelude or a device header defines.

    Args:
        dtype: what it returns; "void" for nothing.
        func_name: its name.
        args: values, and addresses from ``T.access_ptr`` or ``T.address_of``; a buffer stands
            for its address.

    Returns:
        The value of the call, or None when it has none. As a statement of its own in a kernel,
        the call is made for its effect.
    """
    in_kernel("T.call_extern")
    tiles = (Buffer, Region, View, Part)
    values = [address_of(a) if isinstance(a, tiles) else as_expr(a) for a in args]
    result = dtype_of(dtype)
    operation = call(result, "call_extern", [str(func_name), *values])
    if result != VOID:
        return operation
    emit(_evaluate(operation, span.current()))
    return None


def call_intrin(dtype: Any, func_name: Any, *args: Any) -> Call:
    """A call of an intrinsic of the compiler by its name."""
    in_kernel("T.call_intrin")
    return call(dtype_of(dtype), str(func_name).removeprefix("tl."), args)


def evaluate(value: Any) -> None:
    """Makes a call for its effect: ``T.evaluate(T.call_extern(...))``."""
    in_kernel("T.evaluate")
    if isinstance(value, Expr):
        emit(_evaluate(value, span.current()))
