"""Tensors at addresses that the kernel gets as data: ``T.make_tensor``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, Load, make_buffer, plain, shape_text
from ..ir.dtype import HANDLE, INT64, UINT64, VOID, DType, dtype_of
from ..ir.expr import Expr, Var, as_element, as_expr, call, cast
from ..ir.stmt import emit
from .builder import current
from .view import View

_evaluate = _ffi.get("ir.Evaluate")
_cuda_name = _ffi.get("ir.CudaName")


class PointerTensor(View):
    """Memory from an address on, read and written element by element.

    The compiler does not see which memory it is: where other threads write it in this kernel, the
    program orders that itself (T.sync_threads, atomic operations on tensors).

    Attributes:
        address: of the first element, uint64.
        strides: in elements.
    """

    def __init__(
        self, name: str, address: Expr, shape: Sequence[Any], dtype: DType, strides: Sequence[Any]
    ) -> None:
        # A buffer that nothing accesses stands for the memory in messages.
        super().__init__(make_buffer(name, dtype, shape, "global"), shape, dtype, None)
        self.address = address
        self.strides = strides or _contiguous(self.shape)

    @property
    def sharing(self) -> int:
        return 1

    def _offset(self, indices: Sequence[Any]) -> Expr:
        offset: Any = 0
        for index, stride in zip(indices, self.strides, strict=True):
            offset = offset + cast(as_expr(index), INT64) * stride
        return cast(as_expr(offset), INT64)

    def _call(self, function: str, dtype: DType, indices: Sequence[Any], *value: Expr) -> Expr:
        name = f"tl::{function}<{_cuda_name(self.dtype)}>"
        arguments = [self.address, self._offset(indices), *value]
        return call(dtype, name, arguments, {"header": "pointer.h"})

    def read(self, indices: Sequence[Any]) -> Expr:
        """The value of an element."""
        return self._call("load_at", self.dtype, indices)

    def write(self, indices: Sequence[Any], value: Any) -> None:
        """Emits ``tensor[indices] = value``."""
        converted = as_element(value, self.dtype)
        emit(_evaluate(self._call("store_at", VOID, indices, converted), span.current()))

    def place(self, indices: Sequence[Any]) -> Load:
        """Refuses: no buffer is there.

        Raises:
            UnsupportedError: always.
        """
        raise errors.UnsupportedError(
            f"cannot take the address of an element of {self.describe()}, which T.make_tensor made",
            span=span.here(),
            notes=["pass the tensor as a parameter for atomic operations and calls of C functions"],
        )

    def box(self, part: Any) -> None:
        """No region of a buffer."""


def _contiguous(shape: Sequence[Any]) -> list[Any]:
    strides: list[Any] = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, extent * strides[0])
    return strides


def make_tensor(ptr: Any, shape: Any, dtype: Any = "float32", strides: Any = None) -> PointerTensor:
    """A tensor at an address: that of a ``T.ptr`` parameter, or an element of a tensor of them.

    Outside of a kernel it is for the kernels of the function that follow.
    Tile operators other than T.copy, T.fill and T.clear take tiles, to which it is copied.

    Args:
        ptr: a parameter of type T.ptr, or an address: an integer of 64 bits.
        shape: extents; may be known only at run time.
        dtype: of the elements.
        strides: in elements; contiguous when omitted.

    Raises:
        DTypeError: ``ptr`` is no address.
        ShapeError: another number of strides than dimensions.
        ScopeError: outside of a kernel, where ``ptr`` is no parameter.
    """
    builder = current("T.make_tensor")
    value = as_expr(ptr.data if isinstance(ptr, Buffer) else ptr)
    if value.dtype == HANDLE:
        address: Expr = call(UINT64, "reinterpret", [value])
    elif value.dtype in ("int64", "uint64"):
        address = cast(value, UINT64)
    else:
        raise errors.DTypeError(
            f"T.make_tensor: the address must have 64 bits, but `{value}` has type {value.dtype}",
            span=span.here(),
        )
    dims = tuple(map(plain, shape if isinstance(shape, (list, tuple)) else (shape,)))
    steps = tuple(strides or ())
    if steps and len(steps) != len(dims):
        raise errors.ShapeError(
            f"T.make_tensor got {len(steps)} strides for a tensor of shape {shape_text(dims)}",
            span=span.here(),
        )
    name = builder.take_hint("tensor")
    if builder.kernel is not None:
        address = builder.bind("address", address)
    elif value.dtype != HANDLE or not isinstance(value, Var):
        raise errors.ScopeError(
            f"T.make_tensor at `{value}` must be inside `with T.Kernel(...)`",
            span=span.here(),
            notes=["the host cannot read addresses from tensors"],
        )
    return PointerTensor(name, address, dims, dtype_of(dtype), steps)


def make_tensor_from_addr(
    addr: Any,
    shape: Any,
    dtype: Any = "float32",
    strides: Any = None,
    storage_scope: str = "global",
) -> PointerTensor:
    """As :func:`make_tensor`; the memory is that of the device.

    Raises:
        ScopeError: another scope.
    """
    if storage_scope != "global":
        raise errors.ScopeError(
            f"T.make_tensor_from_addr does not support {storage_scope} memory", span=span.here()
        )
    return make_tensor(addr, shape, dtype, strides)


__all__ = ["PointerTensor", "make_tensor", "make_tensor_from_addr"]
