"""Shared tiles whose extents are known at the call: ``T.alloc_shared((n,), dtype)``.

The compiler sees tiles as large as a block may have, which it places behind all other tiles, each
one behind the bytes that the tile before it has at the call. The program sees a view of the first
elements of a tile, and a launch asks for the bytes of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, Load, plain
from ..ir.dtype import INT64, DType
from ..ir.expr import Call, Operand, Var, as_expr, cast
from .builder import Builder, in_block
from .view import View

#: Bytes that a block may have on the GPUs with the most of them; a multiple of all types' sizes.
_MOST_BYTES = 227 * 1024


def is_sized_at_call(shape: Any) -> bool:
    """Returns whether one of the extents is an expression that is no constant."""
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    return any(isinstance(plain(extent), Operand) for extent in extents)


def allocate_at_call(
    shape: Any, dtype: DType, allocate: Callable[[Sequence[int], dict[str, Any]], Buffer]
) -> View:
    """Allocates a shared tile with extents of the call.

    Args:
        shape: extents, of which some are expressions.
        dtype: of its elements.
        allocate: makes a shared buffer of a constant shape, with these attributes.

    Raises:
        DTypeError: an extent is no integer.
        ShapeError: an extent below 1, or one that only the kernel knows.
    """
    builder = in_block("T.alloc_shared")
    extents = [plain(each) for each in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    for extent in extents:
        _check(builder, extent)
    bytes_of_element = int(dtype.bits) // 8
    size: Any = reduce(lambda a, b: a * cast(b, INT64), extents, as_expr(bytes_of_element, INT64))
    tile = allocate([_MOST_BYTES // bytes_of_element], {"bytes_at_call": size})
    return View(tile, extents, dtype, None)


def _check(builder: Builder, extent: Any) -> None:
    expr = as_expr(extent)
    if not expr.dtype.is_integer:
        raise errors.DTypeError(
            f"extent `{expr}` of T.alloc_shared has type {expr.dtype}; extents are integers",
            span=span.here(),
        )
    if isinstance(extent, int) and extent < 1:
        raise errors.ShapeError(
            f"extent {extent} of T.alloc_shared is not positive", span=span.here()
        )
    known = _variables(list(builder.parameters.in_order()))
    for part in _parts(expr):
        of_kernel = isinstance(part, Var) and not any(part.same_as(each) for each in known)
        if of_kernel or isinstance(part, (Load, Call)):
            raise errors.ShapeError(
                f"extent `{expr}` of T.alloc_shared: `{part}` is known in the kernel only",
                span=span.here(),
                notes=[
                    "the launch asks for the memory; use constants, dimensions of tensors and "
                    "integer parameters, and compute the extent before T.Kernel"
                ],
            )


def _variables(parameters: Sequence[Any]) -> list[Var]:
    """The variables that a call binds: scalars, and those in the shapes of tensors."""
    found: list[Var] = []
    for parameter in parameters:
        tensor = getattr(parameter, "source", parameter)
        given = (*tensor.shape, *tensor.strides) if isinstance(tensor, Buffer) else (parameter,)
        for each in given:
            found.extend(part for part in _parts(each) if isinstance(part, Var))
    return found


def _parts(value: Any) -> list[Any]:
    found: list[Any] = []
    if isinstance(value, Operand):
        _ffi.tvm_ffi.structural_walk(as_expr(value), found.append)
    return found


__all__ = ["allocate_at_call", "is_sized_at_call"]
