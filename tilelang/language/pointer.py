"""Addresses, calls of C++ functions, and expressions as statements."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, Load, Region, load, plain
from ..ir.dtype import HANDLE, VOID, DType, dtype_of
from ..ir.expr import Call, Expr, StringImm, as_expr, call
from ..ir.extensions import extensions
from ..ir.stmt import emit
from .builder import in_kernel
from .scalar import convert
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
            f"T.access_ptr: offset= is not supported for {buffer.describe()}, which has strides",
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


extensions.access_ptr = access_ptr


def ldg(element: Any) -> Expr:
    """Reads an element; of a tensor that the kernel only reads, every read is ``ld.global.nc``."""
    return as_expr(element_of(element))


#: Conversions of CUDA's headers, whose 16-bit types are not those of generated code.
_CONVERSIONS = {
    "__float2half": ("float16", "rn"),
    "__half2float": ("float32", "rn"),
    "__float2bfloat16": ("bfloat16", "rn"),
    "__bfloat162float": ("float32", "rn"),
    "__float2bfloat16_rn": ("bfloat16", "rn"),
    "__float2bfloat16_rz": ("bfloat16", "rz"),
    **{f"__float2half_{mode}": ("float16", mode) for mode in ("rn", "rz", "ru", "rd")},
}


def call_extern(*args: Any, dtype: Any = None) -> Any:
    """A call of a C++ function that the kernel's prelude or a device header defines.

    ``T.call_extern(dtype, name, ...)``, or ``T.call_extern(name, ..., dtype=dtype)``.

    Args:
        args: what it returns ("void" for nothing), its name, and the arguments: values, and
            addresses from ``T.access_ptr`` or ``T.address_of``; a buffer stands for its address.
        dtype: what it returns, where ``args`` do not begin with it.

    Returns:
        The value of the call, or None when it has none. As a statement of its own in a kernel,
        the call is made for its effect.

    Raises:
        SemanticsError: there is no name of a function.
    """
    in_kernel("T.call_extern")
    result, name, rest = _callee("T.call_extern", args, dtype)
    if name in _CONVERSIONS and len(rest) == 1:
        return convert(rest[0], *_CONVERSIONS[name])
    tiles = (Buffer, Region, View, Part)
    values = [address_of(a) if isinstance(a, tiles) else as_expr(a) for a in rest]
    operation = call(result, "call_extern", [name, *values])
    if result != VOID:
        return operation
    emit(_evaluate(operation, span.current()))
    return None


def _callee(what: str, args: tuple[Any, ...], dtype: Any) -> tuple[DType, str, tuple[Any, ...]]:
    """Returns the type of a call, the name of the called function, and the arguments."""
    given = args if dtype is None else (dtype, *args)
    if len(given) < 2 or not isinstance(given[1], (str, StringImm)):
        raise errors.SemanticsError(
            f"{what} needs the name of a function",
            span=span.here(),
            notes=[f'{what}("float32", "name", x), or {what}("name", x, dtype="float32")'],
        )
    name = given[1].value if isinstance(given[1], StringImm) else given[1]
    return dtype_of(given[0]), str(name), given[2:]


def call_intrin(*args: Any, dtype: Any = None) -> Call:
    """A call of an intrinsic of the compiler by its name; arguments as of :func:`call_extern`."""
    in_kernel("T.call_intrin")
    result, name, rest = _callee("T.call_intrin", args, dtype)
    return call(result, name.removeprefix("tl."), rest)


def evaluate(value: Any) -> None:
    """Makes a call for its effect: ``T.evaluate(T.call_extern(...))``."""
    in_kernel("T.evaluate")
    if isinstance(value, Expr):
        emit(_evaluate(value, span.current()))
