"""Views of elements of narrow types: tensors, and tiles that hold them packed, padded or apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer, make_buffer, plain
from ..ir.dtype import dtype_of
from ..ir.extensions import extensions
from .codec import NarrowType
from .view import View


def tensor_of(
    name: str, shape: Sequence[Any], dtype: NarrowType, strides: Sequence[Any] = ()
) -> View:
    """A tensor parameter of a narrow type: bytes, elements that share one in the order of bits.

    Args:
        name: of the parameter.
        shape, dtype: of its elements.
        strides: in elements; empty for a contiguous tensor.

    Raises:
        ShapeError: rows that do not fill their bytes, or strides that do not begin with a byte.
    """
    what = f"{name}: {dtype}{list(map(plain, shape))}"
    extents = extents_in_bytes(what, shape, dtype)
    steps = strides_in_bytes(what, strides, dtype) if strides else ()
    attrs = {"packed": True, "elements": str(dtype)}
    source = make_buffer(name, dtype_of("uint8"), extents, "global", steps, attrs)
    return View(source, shape, dtype, dtype.codec)


def as_declared(param: Buffer) -> Any:
    """Returns a tensor parameter as its annotation describes it: of a narrow type, a view."""
    name = dict(param.attrs).get("elements")
    if name is None:
        return param
    dtype = NarrowType(str(name))
    elements, size = dtype.packing
    *outer, last = param.shape
    return View(param, [*outer, last // size * elements], dtype, dtype.codec)


extensions.as_declared = as_declared


def strides_in_bytes(what: str, strides: Sequence[Any], dtype: NarrowType) -> list[Any]:
    """The strides of the bytes that elements lie in.

    Raises:
        ShapeError: the last one is not 1, or another is known to begin within a byte.
    """
    elements, size = dtype.packing
    *outer, last = map(plain, strides)
    split = [stride for stride in outer if isinstance(stride, int) and stride % elements]
    if not (isinstance(last, int) and last == 1) or split:
        stride = split[0] if split else last
        asked = f"a multiple of {elements}" if split else "1"
        raise errors.ShapeError(
            f"stride {stride} of {what} is not {asked}: {elements} elements of {dtype.bits} bits "
            f"share {'a byte' if size == 1 else f'{size} bytes'}",
            span=span.here(),
        )
    return [*(stride // elements * size for stride in outer), 1]


def extents_in_bytes(what: str, shape: Sequence[Any], dtype: NarrowType) -> list[Any]:
    """The extents of the bytes that elements lie in, in the order of bits.

    Raises:
        ShapeError: rows that do not fill their bytes.
    """
    last, (elements, size) = plain(shape[-1]), dtype.packing
    if isinstance(last, int) and last % elements:
        raise errors.ShapeError(
            f"the last extent of {what} must be a multiple of {elements}: {elements} elements of "
            f"{dtype.bits} bits share {'a byte' if size == 1 else f'{size} bytes'}",
            span=span.here(),
        )
    return [*shape[:-1], last // elements * size]


def tile_of(buffer: Buffer, dtype: NarrowType) -> View:
    """A tile whose elements are values of a narrow type, each in an element of ``buffer``."""
    return View(buffer, buffer.shape, dtype, dtype.codec, is_unpacked=True)


def codes_of(buffer: Buffer, dtype: NarrowType) -> View:
    """A tile of elements of a narrow type as they lie in tensors, in the bytes of ``buffer``."""
    elements, size = dtype.packing
    shape = [*buffer.shape[:-1], buffer.shape[-1] // size * elements]
    return View(buffer, shape, dtype, dtype.codec)


def padded_of(buffer: Buffer, dtype: NarrowType) -> View:
    """A tile of elements of 4 or 6 bits, of which 16 begin in each 16 bytes of ``buffer``."""
    return View(buffer, buffer.shape, dtype, dtype.codec, is_padded=True)
