"""``T.view`` and ``T.reshape``: views of the memory of a buffer, checked."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, make_buffer, plain
from ..ir.dtype import DType, dtype_of
from ..ir.stmt import emit
from .builder import in_block
from .codec import NarrowType, narrow_type
from .variable import Ref
from .vector_tile import VectorTile
from .view import View, all_equal

_alloc = _ffi.get("ir.Alloc")


def _checked(what: str, source: Any, shape: Any, dtype: Any) -> View | Buffer:
    if isinstance(source, Ref):
        source = source.buffer
    if isinstance(source, VectorTile):
        source = source.source
    if isinstance(source, View) and source.is_unpacked and dtype in (None, source.dtype):
        return _of_values(what, source, shape)
    if isinstance(source, View):
        if source.codec is not None and (dtype is None or source.is_unpacked or source.is_padded):
            raise errors.UnsupportedError(
                f"{what} of {source.describe()}",
                span=span.here(),
                notes=["a view of another type of elements must precede all uses of the tile"]
                if source.is_unpacked
                else [],
            )
        source = source.source
    if not isinstance(source, Buffer) or source.strides:
        name = source.describe() if isinstance(source, Buffer) else f"`{source}`"
        raise errors.UnsupportedError(
            f"{what} of {name}: a view needs a whole contiguous buffer",
            span=span.here(),
            notes=["index the buffer, or take a slice of the view"],
        )
    narrow = None if dtype is None else narrow_type(dtype)
    if narrow is not None and source.dtype.bits == 8 and source.scope != "shared.tmem":
        return _of_bytes(what, source, shape, narrow)
    kind = source.dtype if dtype is None else dtype_of(dtype)
    bits = prod_or_none(source.shape), source.dtype.bits
    dims = tuple(map(plain, shape if isinstance(shape, (list, tuple)) else (shape,)))
    size = prod_or_none(dims)
    if bits[0] is not None and size is not None and size * kind.bits != bits[0] * bits[1]:
        raise errors.ShapeError(
            f"{what} of {source.describe()} as {kind}{list(dims)}: the view needs "
            f"{size * kind.bits} bits, but the buffer has {bits[0] * bits[1]}",
            span=span.here(),
        )
    if source.scope == "shared.tmem":
        return _in_tensor_memory(what, source, dims, kind)
    return View(source, dims, kind, None)


def _of_values(what: str, source: View, shape: Any) -> View:
    """Returns a view of elements of a narrow type, one in each element of the buffer."""
    dims = tuple(map(plain, shape if isinstance(shape, (list, tuple)) else (shape,)))
    if prod_or_none(dims) != prod_or_none(source.shape):
        raise errors.ShapeError(
            f"{what} of {source.describe()} as {source.dtype}{list(dims)}: the numbers of elements "
            "differ",
            span=span.here(),
        )
    return View(source.source, dims, source.dtype, source.codec, is_unpacked=True)


def _of_bytes(what: str, source: Buffer, shape: Any, narrow: NarrowType) -> View:
    """Elements of a narrow type in bytes, in the order of bits."""
    dims = tuple(map(plain, shape if isinstance(shape, (list, tuple)) else (shape,)))
    size, length = prod_or_none(dims), prod_or_none(source.shape)
    if size is not None and length is not None and size * narrow.bits != length * 8:
        raise errors.ShapeError(
            f"{what} of {source.describe()} as {narrow}{list(dims)}: the view needs "
            f"{size * narrow.bits} bits, but the buffer has {length * 8}",
            span=span.here(),
        )
    return View(source, dims, narrow, narrow.codec)


def _in_tensor_memory(what: str, source: Buffer, dims: tuple[Any, ...], kind: DType) -> Buffer:
    """A tile on the columns of another one: rows keep their lanes."""
    if not all_equal(dims[:-1], source.shape[:-1]):
        raise errors.ShapeError(
            f"{what} of {source.describe()} as {kind}{list(dims)}: rows of tensor memory are lanes "
            "and stay as they are",
            span=span.here(),
            notes=["change the type and the last extent only"],
        )
    if kind == source.dtype:
        return source
    builder = in_block(what)
    name = builder.take_hint(f"{source.name}_view")
    base = dict(source.attrs).get("view_of", source)
    buffer = make_buffer(name, kind, dims, source.scope, attrs={"view_of": base})
    emit(_alloc(buffer, span.current()))
    return buffer


def prod_or_none(shape: Sequence[Any]) -> int | None:
    """The number of elements; None where it is known only at run time."""
    dims = list(map(plain, shape))
    return prod(dims) if all(isinstance(dim, int) for dim in dims) else None


def reshape(src: Any, shape: Any) -> Any:
    """A buffer's memory as a tile of another shape, of as many elements.

    Raises:
        ShapeError: another number of elements, or other rows of tensor memory.
        UnsupportedError: a buffer with strides.
    """
    return _checked("T.reshape", src, shape, None)


def view(src: Any, shape: Any = None, dtype: Any = None, strides: Any = None) -> Any:
    """A buffer's memory as a tile of another shape or type.

    Elements are read and written one by one in the type of the view. A tile operator takes what is
    a box of ``src`` as well; T.copy, T.fill and T.clear take every region.

    A view of tensor memory is a tile of its own on the same columns, for T.copy and T.gemm. It may
    have another type of elements; rows stay rows. As T.alloc_tmem, it stands in ``T.Kernel``.

    Args:
        src: a contiguous buffer.
        shape: of the view; that of ``src`` when omitted, its last extent by the size of the type.
        dtype: of the view; that of ``src`` when omitted.
        strides: not supported.

    Raises:
        ShapeError: another number of bits, or other rows of tensor memory.
        UnsupportedError: a buffer with strides.
    """
    if strides:
        raise errors.UnsupportedError("T.view does not support strides", span=span.here())
    if shape is None:
        old = getattr(src, "dtype", None)
        dims = list(src.shape)
        if dtype is not None and old is not None:
            dims[-1] = dims[-1] * old.bits // dtype_of(dtype).bits
        shape = dims
    if isinstance(src, View) and dtype is not None and dtype != src.dtype:
        src.pack()
    return _checked("T.view", src, shape, dtype)
