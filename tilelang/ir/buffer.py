"""Buffers, their elements and their regions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from .. import _ffi, errors
from . import span
from .definitions import definition
from .dtype import HANDLE, DType, intern
from .expr import (
    Binary,
    BinaryOp,
    Expr,
    IntImm,
    Operand,
    Unary,
    UnaryOp,
    Var,
    as_expr,
    call,
    cast,
    raw_field,
)
from .extensions import extensions
from .span import Span

tvm_ffi = _ffi.tvm_ffi
_buffer = _ffi.get("ir.Buffer")
_load = _ffi.get("ir.Load")
_region = _ffi.get("ir.Region")
_print = _ffi.get("ir.Print")

Dim = int | Expr


def plain(value: Any) -> Any:
    """A constant expression as a Python int; anything else as it is."""
    return value.value if isinstance(value, IntImm) else value


@functools.lru_cache(maxsize=1024)
def _address(buffer: Buffer) -> Expr:
    return call(HANDLE, "address_of", [load(buffer, [0] * buffer.ndim)])


@tvm_ffi.register_object("tl.ir.Buffer")
class Buffer(tvm_ffi.Object):
    """A piece of memory with a shape: a tensor parameter or something allocated.

    ``A[i, j]`` is an element (and, as an operand of a tile operator, the corner of a tile),
    ``A[i:i + 64, 0:32]`` a region, ``A[i, j] = x`` a store that converts to the element type.
    """

    __slots__ = ()
    name: str
    scope: str
    attrs: Any
    span: Span | None

    @property
    def dtype(self) -> DType:
        return intern(_raw_dtype(self))

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The extents: ints where they are constant."""
        return tuple(plain(dim) for dim in _raw_shape(self))

    @property
    def strides(self) -> tuple[Dim, ...]:
        """The strides in elements; empty when the buffer is contiguous."""
        return tuple(plain(dim) for dim in _raw_strides(self))

    @property
    def ndim(self) -> int:
        return len(_raw_shape(self))

    @property
    def data(self) -> Expr:
        """The address of the first element; one expression for each buffer."""
        return _address(self)

    def access_ptr(self, access_mask: Any = "r", *args: Any, **kwargs: Any) -> Expr:
        """The address of the first element, as ``T.access_ptr(A, ...)`` gives it."""
        return extensions.access_ptr(self, access_mask, *args, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        if _has_vector(index):
            return extensions.gather(self, index)
        return element_or_region(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        from .stmt import emit_store

        if _has_vector(index) or _has_vector(value):
            extensions.scatter(self, index, value)
            return

        emit_store(self, index, value)

    def __iter__(self) -> Any:
        raise errors.UnsupportedSyntaxError(
            f"buffer {self.name} cannot be iterated over", span=span.here(), notes=_LOOP_HINT
        )

    def __bool__(self) -> bool:
        raise errors.UnsupportedSyntaxError(
            f"buffer {self.name} is not a condition", span=span.here(), notes=["test an element"]
        )

    def __len__(self) -> int:
        extent = self.shape[0]
        if isinstance(extent, int):
            return extent
        raise errors.UnsupportedSyntaxError(
            f"the length of {self.name} is known only at run time", span=span.here()
        )

    def describe(self) -> str:
        """Returns e.g. ``A (float16[128, 64] in shared memory)``."""
        shape = ", ".join(str(dim) for dim in self.shape)
        return f"{self.name} ({self.dtype}[{shape}] in {memory_name(self.scope)})"

    def __str__(self) -> str:
        return self.describe()

    __repr__ = __str__


def memory_name(scope: str) -> str:
    """Returns the memory of a scope in words, such as "shared memory"."""
    return _MEMORIES.get(scope, scope)


def _has_vector(value: Any) -> bool:
    """Returns whether it is a vector (language/lanes.py), or an index with one in it."""
    if isinstance(value, tuple):
        return any(map(_has_vector, value))
    return type(value).__name__ == "Lanes"


_LOOP_HINT = ["loop over its indices with T.serial or T.Parallel"]
#: Memories as errors name them, by scope.
_MEMORIES = {
    "global": "global memory", "shared": "shared memory", "shared.dyn": "shared memory",
    "shared.tmem": "tensor memory", "shared.barrier": "shared memory",
    "local.fragment": "a fragment", "local": "a local array", "local.var": "a variable",
}  # fmt: skip


_raw_dtype = raw_field(Buffer, "dtype")
_raw_shape = raw_field(Buffer, "shape")
_raw_strides = raw_field(Buffer, "strides")


@tvm_ffi.register_object("tl.ir.Load")
class Load(Expr):
    """An element of a buffer."""

    __slots__ = ()
    buffer: Buffer
    indices: Sequence[Expr]


@tvm_ffi.register_object("tl.ir.Region")
class Region(Operand, tvm_ffi.Object):
    """A box of a buffer: ``extents`` elements from ``mins`` on in each dimension."""

    __slots__ = ()
    buffer: Buffer
    mins: Sequence[Expr]
    extents: Sequence[Expr]

    __hash__ = tvm_ffi.Object.__hash__

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tuple(plain(dim) for dim in self.extents)

    def __getitem__(self, index: Any) -> Any:
        raise errors.ShapeError(
            f"`{self}` is already a part of {self.buffer.describe()}",
            span=span.here(),
            notes=[f"give all indices at once: {self.buffer.name}[i, j]"],
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index]

    def __tl_load__(self) -> Expr:
        raise errors.ShapeError(
            f"`{self}` is a region of shape {shape_text(self.shape)}, not an element",
            span=span.here(),
            notes=[
                f"{self.buffer.describe()} takes {self.buffer.ndim} indices; compute on tiles "
                "element by element in T.Parallel"
            ],
        )

    def __str__(self) -> str:
        return _print(self)

    __repr__ = __str__


def shape_text(shape: Sequence[Any]) -> str:
    """Returns ``(128, m, 64)``."""
    return "(" + ", ".join(str(dim) for dim in shape) + ")"


def make_buffer(
    name: str,
    dtype: DType,
    shape: Sequence[Any],
    scope: str,
    strides: Sequence[Any] = (),
    attrs: dict[str, Any] | None = None,
) -> Buffer:
    """Returns a new buffer."""
    dims = [as_expr(dim) for dim in shape]
    steps = [as_expr(stride) for stride in strides]
    return _buffer(name, dtype, dims, steps, scope, attrs or {}, span.current())


def load(buffer: Buffer, indices: Sequence[Any]) -> Load:
    """Returns the element of ``buffer`` at ``indices``."""
    return _load(buffer, [as_expr(index) for index in indices], span.current())


def make_region(buffer: Buffer, mins: Sequence[Any], extents: Sequence[Any]) -> Region:
    """Returns a region of ``buffer``."""
    return _region(buffer, [as_expr(m) for m in mins], [as_expr(e) for e in extents])


def whole(buffer: Buffer) -> Region:
    """Returns the region of all elements."""
    return make_region(buffer, [0] * buffer.ndim, buffer.shape)


def full_index(buffer: Buffer, index: Any) -> tuple[Any, ...]:
    """The parts of an index, with an ellipsis written out.

    Raises:
        ShapeError: more of them than dimensions.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if any(part is Ellipsis for part in parts):
        at = next(n for n, part in enumerate(parts) if part is Ellipsis)
        missing = buffer.ndim - len(parts) + 1
        parts = (*parts[:at], *[slice(None)] * missing, *parts[at + 1 :])
    if len(parts) > buffer.ndim:
        raise errors.ShapeError(
            f"{len(parts)} indices for {buffer.describe()}, which has {buffer.ndim} dimensions",
            span=span.here(),
        )
    return parts


def element_or_region(buffer: Buffer, index: Any) -> Load | Region:
    """Returns what ``buffer[index]`` means: a region if it has slices or too few indices.

    Raises:
        ShapeError: more indices than dimensions.
        BoundsError: a constant index or slice outside the buffer.
        DTypeError: an index that is no integer.
    """
    parts = full_index(buffer, index)
    if len(parts) == buffer.ndim and not any(isinstance(part, slice) for part in parts):
        indices = [_index(buffer, dim, part) for dim, part in enumerate(parts)]
        return _load(buffer, indices, span.current())
    mins: list[Any] = []
    extents: list[Any] = []
    for dim, part in enumerate((*parts, *[slice(None)] * (buffer.ndim - len(parts)))):
        if isinstance(part, slice):
            low, extent = _slice(buffer, dim, part)
        else:
            low, extent = _index(buffer, dim, part), 1
        mins.append(low)
        extents.append(extent)
    return make_region(buffer, mins, extents)


def _index(buffer: Buffer, dim: int, index: Any) -> Expr:
    if isinstance(index, (float, str, list, tuple)) or index is None:
        several = isinstance(index, (list, tuple)) and len(index) > 1
        raise errors.DTypeError(
            f"index {index!r} of {buffer.describe()} is not an integer",
            span=span.here(),
            notes=["name each of several: `as (bx, by)`, `for i, j in`"] if several else [],
        )
    value = as_expr(index)
    if value.dtype.is_float:
        raise errors.DTypeError(
            f"index `{value}` of {buffer.describe()} has type {value.dtype}",
            span=span.here(),
            notes=["divide integers with // , or convert with T.cast"],
        )
    if isinstance(value, IntImm):
        value = as_expr(_from_start(buffer, dim, value.value))
    if isinstance(value, IntImm):
        _check_bounds(buffer, dim, value.value, value.value + 1)
    return cast(value, "int32") if value.dtype.is_bool else value


def _from_start(buffer: Buffer, dim: int, index: Any) -> Any:
    """A constant index below 0 counts from the end, as in Python."""
    extent = buffer.shape[dim]
    if not isinstance(index, int) or index >= 0:
        return index
    return extent + index if not isinstance(extent, int) or extent + index >= 0 else index


def _check_bounds(buffer: Buffer, dim: int, low: Any, high: Any) -> None:
    extent = buffer.shape[dim]
    too_low = isinstance(low, int) and low < 0
    last, end = high, extent
    if buffer.scope == "global" and isinstance(low, int) and isinstance(extent, int):
        # A tile at the edge of a tensor may reach beyond it, and all of one without elements does.
        last, end = low + 1, max(extent, 1)
    too_high = isinstance(last, int) and isinstance(end, int) and last > end
    if not (too_low or too_high):
        return
    what = f"index {low}" if high == low + 1 else f"slice {low}:{high}"
    notes = [f"negative indices count from the end: -1 to -{extent}"] if too_low else []
    raise errors.BoundsError(
        f"{what} is out of bounds: dimension {dim} of {buffer.describe()} has extent {extent}",
        span=span.here(),
        notes=notes,
    )


def _slice(buffer: Buffer, dim: int, part: slice) -> tuple[Any, Any]:
    if part.step is not None and plain(part.step) != 1:
        raise errors.UnsupportedSyntaxError(
            f"slice with step {part.step} of {buffer.describe()}",
            span=span.here(),
            notes=["slices of a tile are contiguous; use strided tensors or T.Parallel"],
        )
    start = 0 if part.start is None else _bound(buffer, dim, part.start)
    stop = buffer.shape[dim] if part.stop is None else _bound(buffer, dim, part.stop)
    _check_bounds(buffer, dim, start, stop)
    extent = plain(difference(stop, start))
    if isinstance(extent, int) and extent <= 0:
        raise errors.BoundsError(
            f"slice {start}:{stop} of dimension {dim} of {buffer.describe()} is empty",
            span=span.here(),
        )
    return start, extent


def _bound(buffer: Buffer, dim: int, value: Any) -> Any:
    return _from_start(buffer, dim, _without_division(plain(_index_value(buffer, value))))


def _without_division(index: Any) -> Any:
    """``i * 256 // 2`` as ``i * 128``: indices do not overflow, so that factors cancel."""
    if not (isinstance(index, Binary) and index.op == BinaryOp.FLOOR_DIV):
        return index
    divisor = index.b.value if isinstance(index.b, IntImm) else 0
    quotient = _divided(index.a, divisor) if divisor > 0 else None
    if quotient is None:
        return index
    terms, constant = quotient
    result: Any = constant
    for term, factor in terms.values():
        result = term * factor + result
    return result


def _index_value(buffer: Buffer, value: Any) -> Expr:
    result = as_expr(value)
    if result.dtype.is_float or result.dtype.is_bool:
        raise errors.DTypeError(
            f"slice bound `{result}` of {buffer.describe()} has type {result.dtype}",
            span=span.here(),
        )
    return result


_structural_key: Any = tvm_ffi.StructuralKey
_Terms = dict[Any, tuple[Expr, int]]


def _linear(value: Any, factor: int, terms: _Terms) -> int:
    """Adds ``factor * value`` to ``terms`` (by structure) and returns its constant part."""
    if isinstance(value, int):
        return factor * value
    if isinstance(value, IntImm):
        return factor * value.value
    if isinstance(value, Unary) and value.op == UnaryOp.NEG:
        return _linear(value.a, -factor, terms)
    op = value.op if isinstance(value, Binary) else None
    if op == BinaryOp.ADD:
        return _linear(value.a, factor, terms) + _linear(value.b, factor, terms)
    if op == BinaryOp.SUB:
        return _linear(value.a, factor, terms) + _linear(value.b, -factor, terms)
    if op == BinaryOp.MUL and isinstance(value.b, IntImm):
        return _linear(value.a, factor * value.b.value, terms)
    if op == BinaryOp.MUL and isinstance(value.a, IntImm):
        return _linear(value.b, factor * value.a.value, terms)
    if op == BinaryOp.FLOOR_DIV and isinstance(value.b, IntImm) and value.b.value > 0:
        quotient = _divided(value.a, value.b.value)
        if quotient is not None:
            rest, whole = quotient
            for key, (term, count) in rest.items():
                terms[key] = (term, terms.get(key, (term, 0))[1] + factor * count)
            return factor * whole
    known = definition(value) if isinstance(value, Var) else None
    if known is not None:
        return _linear(known, factor, terms)
    key = value if isinstance(value, Var) else _structural_key(value)
    term, count = terms.get(key, (value, 0))
    terms[key] = (term, count + factor)
    return 0


def _divided(value: Any, divisor: int) -> tuple[_Terms, int] | None:
    """The terms of ``value // divisor`` and its constant part, if all factors are multiples."""
    terms: _Terms = {}
    constant = _linear(value, 1, terms)
    if any(count % divisor for _, count in terms.values()):
        return None
    quotient = {key: (term, count // divisor) for key, (term, count) in terms.items()}
    return quotient, constant // divisor


def linear_terms(value: Any) -> list[tuple[Expr, int]]:
    """The terms of a sum and their factors, without its constant, also in what names stand for."""
    terms: _Terms = {}
    _linear(value, 1, terms)
    return [(term, factor) for term, factor in terms.values() if factor != 0]


def difference(stop: Any, start: Any) -> Any:
    """Returns ``stop - start``, an int where equal terms cancel, also in what names stand for."""
    if isinstance(start, int) and isinstance(stop, int):
        return stop - start
    terms: _Terms = {}
    constant = _linear(stop, 1, terms) + _linear(start, -1, terms)
    if all(count == 0 for _, count in terms.values()):
        return constant
    return stop if isinstance(start, int) and start == 0 else stop - start
