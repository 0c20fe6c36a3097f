"""Buffers and addresses of TIR: ``T.alloc_buffer``, ``T.match_buffer``, ``T.tvm_access_ptr``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import errors
from ...ir import span
from ...ir.buffer import Buffer, plain
from ...ir.dtype import dtype_of
from ...ir.expr import Var, as_expr
from ..allocate import (
    alloc_fragment,
    alloc_global,
    alloc_local,
    alloc_shared,
    alloc_tmem,
)
from ..builder import current
from ..make_view import view
from ..pointer import access_ptr, element_of
from ..tensor import TensorType
from ..variable import Ref

_ALLOCATE: dict[str, Callable[..., Any]] = {
    "shared": alloc_shared,
    "shared.dyn": alloc_shared,
    "local": alloc_local,
    "local.var": alloc_local,
    "local.fragment": alloc_fragment,
    "shared.tmem": alloc_tmem,
    "global": alloc_global,
}


def alloc_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
) -> Any:
    """Memory of that scope: as ``T.alloc_shared``, ``T.alloc_fragment``, ``T.alloc_local``, ...

    Args:
        shape, dtype: of the buffer.
        data: None; with the ``data`` of a buffer, :func:`decl_buffer`.
        strides, elem_offset: not supported.
        scope: "global" (outside of kernels), "shared", "local.fragment" or "local".
        align, offset_factor: accepted; the compiler aligns.

    Raises:
        ScopeError: there is no such scope, or not here.
    """
    del align, offset_factor
    if data is not None:
        return decl_buffer(shape, dtype, data, strides, elem_offset, scope)
    _refuse_details("T.alloc_buffer", strides, elem_offset)
    if scope not in _ALLOCATE:
        raise errors.ScopeError(
            f"unknown memory scope {scope!r}", span=span.here(), notes=[f"known: {list(_ALLOCATE)}"]
        )
    return _ALLOCATE[scope](shape, dtype)


sblock_alloc_buffer = alloc_buffer


def _refuse_details(what: str, strides: Any, elem_offset: Any) -> None:
    if strides or (elem_offset is not None and elem_offset != 0):
        raise errors.UnsupportedError(
            f"{what} does not support strides and elem_offset",
            span=span.here(),
            notes=["index a buffer of the whole memory instead"],
        )


def known_true(condition: Any) -> bool:
    """Returns whether a condition is a constant that holds."""
    value = plain(as_expr(condition))
    return isinstance(value, int) and value != 0


def allocate(extents: Any, dtype: Any, scope: str = "global", condition: Any = None) -> Any:
    """The address of new memory, for ``T.Buffer(..., data=)`` and ``T.decl_buffer``.

    Raises:
        UnsupportedError: a condition other than a constant that holds.
    """
    if condition is not None and not known_true(condition):
        raise errors.UnsupportedError(
            f"T.allocate under the condition `{condition}`",
            span=span.here(),
            notes=["allocate without a condition, and use the memory under one"],
        )
    return alloc_buffer(extents, dtype, scope=scope).data


def decl_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
) -> Any:
    """A buffer on the memory of another (``data=A.data``); without ``data``, new memory.

    Raises:
        SemanticsError: ``data`` is no buffer's.
    """
    del align, offset_factor  # as of T.alloc_buffer
    _refuse_details("T.decl_buffer", strides, elem_offset)
    if data is None:
        return alloc_buffer(shape, dtype, scope=scope)
    return view(element_of(data).buffer, shape, dtype)


buffer_decl = decl_buffer


def match_buffer(
    param: Any,
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = (),
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
) -> Any:
    """Declares what a parameter of type ``T.handle`` points to; of a slice, a view of it.

    Args:
        param: the parameter.
        shape, dtype, strides: as of ``T.Tensor`` and ``T.StridedTensor``.
        data, elem_offset: not supported.
        scope: "global".
        align, offset_factor: accepted; the compiler aligns.

    Raises:
        SemanticsError: ``param`` is no pointer parameter.
    """
    del align, offset_factor
    _refuse_details("T.match_buffer", None, elem_offset)
    builder = current("T.match_buffer")
    if data is not None or not isinstance(param, Var):
        if isinstance(param, (Buffer, Ref)):
            return view(param, shape, dtype)
        raise errors.SemanticsError(
            f"T.match_buffer of `{param}`, which is no parameter of type T.handle", span=span.here()
        )
    return builder.parameters.point(param, TensorType(shape, dtype, strides or (), scope))


def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any = None, rw_mask: Any = 1) -> Any:
    """The address of an element, ``offset`` elements from the start of a buffer.

    Args:
        ptype: the type of the elements, from ``T.type_annotation``.
        data: ``A.data`` of a buffer.
        offset: in elements.
        extent, rw_mask: accepted; what a call reads and writes is taken from the callee.

    Raises:
        DTypeError: ``ptype`` is not the type of the buffer.
    """
    del extent, rw_mask
    element = element_of(data)
    if isinstance(ptype, str) and dtype_of(ptype) != element.buffer.dtype:
        raise errors.DTypeError(
            f"T.tvm_access_ptr of {ptype} elements in {element.buffer.describe()}",
            span=span.here(),
        )
    return access_ptr(element, offset=offset)


def index_to_coordinates(index: Any, shape: Any) -> list[Any]:
    """The coordinates of an element by its number, the last dimension fastest."""
    found: list[Any] = []
    for extent in reversed(tuple(shape)[1:]):
        found.append(index % extent)
        index = index // extent
    return [index, *reversed(found)]
