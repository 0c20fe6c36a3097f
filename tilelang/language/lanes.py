"""Vectors of a thread: several values that are read, computed and written together.

A vector is a tuple of scalars; the code generator sees these alone, and joins accesses itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import product, takewhile
from math import prod
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer, Load, Region, full_index, load, plain
from ..ir.dtype import DType, dtype_of
from ..ir.expr import Expr, as_expr, cast, condition, const, select
from ..ir.extensions import extensions
from ..ir.stmt import emit, store
from . import scalar
from .builder import in_kernel
from .codec import reinterpreted
from .math import fma
from .region import as_region
from .view import View, all_equal

#: Elements of a slice that a statement assigns, and the memories in which each thread has its way.
_MOST_LANES = 64
_OF_THREADS = ("global", "shared", "shared.dyn", "local")


class Lanes:
    """Values side by side, one for each lane; operators apply lane by lane.

    Attributes:
        items: the values.
    """

    __array_ufunc__ = None

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = tuple(as_expr(item) for item in items)

    @property
    def dtype(self) -> DType:
        """The type of a lane."""
        return self.items[0].dtype

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Expr]:
        return iter(self.items)

    def __getitem__(self, lane: int) -> Expr:
        return self.items[lane]

    def __str__(self) -> str:
        return f"<{', '.join(map(str, self.items))}>"

    __repr__ = __str__

    def astype(self, dtype: Any) -> Lanes:
        """Each lane converted to a type."""
        return Lanes([cast(item, dtype) for item in self.items])

    def __bool__(self) -> bool:
        raise errors.SemanticsError(
            f"the vector `{self}` is no condition",
            span=span.here(),
            notes=["T.if_then_else(vector, a, b) chooses lane by lane"],
        )

    def __neg__(self) -> Lanes:
        return lanewise(operator.neg, self)


def _with_operators() -> None:
    names = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift")
    for name in (*names, "rshift", "lt", "le", "gt", "ge", "eq", "ne"):
        function = getattr(operator, f"{name}_" if name in ("and", "or") else name)
        setattr(Lanes, f"__{name}__", lambda a, b, f=function: lanewise(f, a, b))
        setattr(Lanes, f"__r{name}__", lambda a, b, f=function: lanewise(f, b, a))
    Lanes.__hash__ = object.__hash__  # type: ignore[method-assign]


_with_operators()


def lanewise(function: Callable[..., Any], *operands: Any) -> Lanes:
    """Applies a function of scalars lane by lane; a scalar serves every lane.

    Raises:
        SemanticsError: vectors of different lengths.
    """
    lengths = {len(each) for each in operands if isinstance(each, Lanes)}
    if len(lengths) != 1:
        raise errors.SemanticsError(
            f"vectors of {' and '.join(map(str, sorted(lengths)))} lanes cannot be combined",
            span=span.here(),
        )
    return Lanes(
        [
            function(*(each[lane] if isinstance(each, Lanes) else each for each in operands))
            for lane in range(lengths.pop())
        ]
    )


class VectorType(str):
    """A type of vectors, ``T.float32x4``; calling it makes one: of a vector, a scalar or scalars.

    Attributes:
        base: the type of a lane.
        lanes: their number.
    """

    __slots__ = ()

    @property
    def base(self) -> DType:
        return dtype_of(str(self).rpartition("x")[0])

    @property
    def lanes(self) -> int:
        return int(str(self).rpartition("x")[2])

    @property
    def bits(self) -> int:
        return int(self.base.bits) * self.lanes

    def __call__(self, value: Any, *others: Any) -> Lanes:
        """Returns a vector with its lanes converted, a scalar in each lane, or a scalar a lane."""
        if others:
            found = Lanes([value, *others])
        else:
            found = value if isinstance(value, Lanes) else Broadcast(value, self.lanes)
        if len(found) != self.lanes:
            raise errors.SemanticsError(
                f"cannot convert {len(found)} lanes to {self!s}", span=span.here()
            )
        return found.astype(self.base)

    def __repr__(self) -> str:
        return f"T.{self!s}"


def Ramp(base: Any, stride: Any, lanes: int) -> Lanes:
    """``base``, ``base + stride``, ... in ``lanes`` lanes: an index of several elements."""
    return Lanes([as_expr(base) + as_expr(stride) * lane for lane in range(int(plain(lanes)))])


def Broadcast(value: Any, lanes: int) -> Lanes:
    """``value`` in each of ``lanes`` lanes."""
    return Lanes([value] * int(plain(lanes)))


ramp, broadcast = Ramp, Broadcast


def Shuffle(vectors: Sequence[Any], indices: Sequence[Any]) -> Any:
    """The chosen lanes of vectors, numbered one vector after the other; of one lane a scalar."""
    pool = [item for each in vectors for item in (each if isinstance(each, Lanes) else [each])]
    chosen = [as_expr(pool[int(plain(index))]) for index in indices]
    return chosen[0] if len(chosen) == 1 else Lanes(chosen)


def extract_lane(vector: Any, lane: Any) -> Expr:
    """One lane of a vector.

    Args:
        vector: the vector.
        lane: a constant number from 0 on.

    Raises:
        DTypeError: ``vector`` is no vector, or ``lane`` no constant integer.
        BoundsError: the vector has no such lane.
    """
    index = plain(lane)
    if not isinstance(vector, Lanes):
        raise errors.DTypeError(
            f"T.extract_lane expects a vector expression, got `{vector}`", span=span.here()
        )
    if not isinstance(index, int):
        raise errors.DTypeError(
            f"T.extract_lane: the lane must be a compile-time integer, got `{lane}`",
            span=span.here(),
        )
    if not 0 <= index < len(vector):
        raise errors.BoundsError(
            f"T.extract_lane: lane {index} is out of bounds of a vector of {len(vector)} lanes",
            span=span.here(),
        )
    return vector[index]


def vectorlow(vector: Lanes) -> Lanes:
    """The lower half of a vector's lanes."""
    return Lanes(vector.items[: len(vector) // 2])


def vectorhigh(vector: Lanes) -> Lanes:
    """The upper half of a vector's lanes."""
    return Lanes(vector.items[len(vector) // 2 :])


def vectorcombine(low: Lanes, high: Lanes) -> Lanes:
    """Two vectors, one after the other."""
    return Lanes([*low, *high])


def bitcast(vector: Lanes, dtype: Any) -> Lanes:
    """The bits of a vector as lanes of another type: fewer wide ones, or more narrow ones.

    Raises:
        DTypeError: the sizes differ.
    """
    base = dtype.base if isinstance(dtype, VectorType) else dtype_of(dtype)
    have, want = int(vector.dtype.bits), int(base.bits)
    total = have * len(vector)
    if total % want or (isinstance(dtype, VectorType) and dtype.bits != total):
        lanes = f"{len(vector)} lanes of " if len(vector) > 1 else ""
        raise errors.DTypeError(
            f"{lanes}{vector.dtype} ({total} bits) as {dtype}", span=span.here()
        )
    wide, narrow = dtype_of(f"uint{want}"), dtype_of(f"uint{have}")
    words = [reinterpreted(item, narrow) for item in vector]
    if want <= have:
        parts = [
            cast(word >> (want * part) if part else word, wide)
            for word in words
            for part in range(have // want)
        ]
    else:
        ratio = want // have
        parts = [_joined(words[n : n + ratio], wide, have) for n in range(0, len(words), ratio)]
    return Lanes([reinterpreted(part, base) for part in parts])


def _joined(words: Sequence[Expr], wide: DType, bits: int) -> Expr:
    found = cast(words[0], wide)
    for n, word in enumerate(words[1:], start=1):
        found = found | cast(word, wide) << (bits * n)
    return found


# Memory -------------------------------------------------------------------------------------


def gather(buffer: Buffer, index: Any) -> Lanes:
    """The elements of a buffer that an index with a vector in it names."""
    parts = full_index(buffer, index)
    count = next(len(part) for part in parts if isinstance(part, Lanes))
    return Lanes([as_expr(buffer[_of_lane(buffer, parts, lane)]) for lane in range(count)])


def _of_lane(buffer: Buffer, parts: Sequence[Any], lane: int) -> tuple[Any, ...]:
    return tuple(
        _from_start(part[lane], buffer.shape[dim]) if isinstance(part, Lanes) else part
        for dim, part in enumerate(parts)
    )


def _from_start(index: Expr, extent: Any) -> Expr:
    """A lane's index below 0 counts from the end, whenever its sign is known."""
    if isinstance(plain(index), int) or not index.dtype.is_signed:
        return index
    return select(index < 0, index + extent, index)


def scatter(buffer: Buffer, index: Any, value: Any) -> None:
    """Writes a vector, or a scalar, to the elements that an index names."""
    parts = full_index(buffer, index)
    named = [part for part in parts if isinstance(part, Lanes)]
    if named:
        for lane in range(len(named[0])):
            buffer[_of_lane(buffer, parts, lane)] = (
                value[lane] if isinstance(value, Lanes) else value
            )
        return
    put(buffer[index], value)


def _row(region: Region) -> list[Load]:
    """The elements of a slice of one row, of which a thread does all; none of other slices."""
    *outer, count = map(plain, region.shape)
    is_row = all(isinstance(n, int) and n == 1 for n in outer) and isinstance(count, int)
    if not is_row or count > _MOST_LANES or region.buffer.scope not in _OF_THREADS:
        return []
    *mins, first = region.mins
    return [load(region.buffer, [*mins, first + n]) for n in range(count)]


def assign(region: Region, value: Any) -> bool:
    """Writes another slice of a row, or a scalar, to a slice of a row.

    Returns:
        whether they are such slices.

    Raises:
        ShapeError: they differ in length.
    """
    targets = _row(region)
    if not targets:
        return False
    if isinstance(value, (Buffer, Region)):
        sources = _row(as_region("a slice that is assigned", value))
        if not sources:
            return False
        if len(sources) != len(targets):
            raise errors.ShapeError(
                f"cannot assign {len(sources)} elements of `{value}` to the {len(targets)} of "
                f"`{region}`",
                span=span.here(),
            )
        builder = in_kernel("assigning a slice")
        name = builder.take_hint("loaded")
        items = [builder.bind(name, as_expr(source)) for source in sources]
    else:
        items = [value] * len(targets)
    for target, item in zip(targets, items, strict=True):
        emit(store(target, item))
    return True


extensions.gather, extensions.scatter, extensions.assign = gather, scatter, assign


def _elements(what: str, place: Any, bits: int | None) -> list[Load]:
    """Returns the elements of a slice, row by row, or as many from an element on as ``bits`` hold.

    Raises:
        ShapeError: the slice does not hold ``bits`` in one piece.
    """
    if isinstance(place, (Region, Buffer)):
        region = as_region(what, place)
        extents = [plain(extent) for extent in region.shape]
        buffer, mins = region.buffer, list(region.mins)
        count = prod(extents) if all(isinstance(n, int) for n in extents) else -1
    elif isinstance(place, Load):
        buffer, mins, extents = place.buffer, list(place.indices), []
        count = -1
    else:
        raise errors.SemanticsError(
            f"{what} must be a place in memory, got `{place}`", span=span.here()
        )
    wanted = count if bits is None else bits // int(buffer.dtype.bits)
    one_piece = bits is None or _is_one_piece(buffer, extents)
    if wanted < 1 or count not in (-1, wanted) or not one_piece or isinstance(place, View):
        raise errors.ShapeError(
            f"{what}: `{place}` is not {wanted if wanted > 0 else 'several'} elements of "
            f"{buffer.dtype} side by side",
            span=span.here(),
            notes=[] if one_piece else ["give a slice of one row, or its first element"],
        )
    if count == -1:
        return [load(buffer, _advanced(buffer, mins, n, wanted)) for n in range(wanted)]
    steps = product(*map(range, extents))
    return [load(buffer, [low + n for low, n in zip(mins, step, strict=True)]) for step in steps]


def _is_one_piece(buffer: Buffer, extents: Sequence[Any]) -> bool:
    """Returns whether the elements of a slice follow each other: part of a row, or whole rows."""
    ones = len(list(takewhile(lambda extent: isinstance(extent, int) and extent == 1, extents)))
    inner = extents[ones + 1 :]
    return not inner or (not buffer.strides and all_equal(inner, buffer.shape[ones + 1 :]))


def _advanced(buffer: Buffer, indices: Sequence[Any], step: int, of: int) -> list[Any]:
    """Returns the indices of an element ``step`` < ``of`` places on: in a later row if rows end.

    Places in rows of a multiple of ``of`` elements stay in their row: their address is aligned.
    """
    found = list(indices)
    carry: Any = step
    for dim in range(len(found) - 1, -1, -1):
        total, extent = plain(found[dim] + carry), plain(buffer.shape[dim])
        ends = isinstance(extent, int) and (isinstance(total, int) or extent % of)
        if dim == 0 or buffer.strides or not ends:
            found[dim] = total
            break
        found[dim], carry = total % extent, total // extent
    return found


def put(place: Any, value: Any) -> None:
    """Writes a vector to the elements of a slice; its bits, where the types differ in size."""
    targets = _elements("a slice that is assigned a vector", place, None)
    if len(value) != len(targets):
        value = bitcast(value, targets[0].buffer.dtype)
    if len(value) != len(targets):
        raise errors.ShapeError(
            f"cannot assign {len(value)} lanes to the {len(targets)} elements of `{place}`",
            span=span.here(),
        )
    for target, item in zip(targets, value, strict=True):
        emit(store(target, item))


def _read(what: str, bits: int, src: Any, pred: Any) -> Any:
    builder = in_kernel(what)
    elements = _elements(f"src of {what}", src, bits)
    test = None if pred is None else condition(pred)
    values = [
        as_expr(each) if test is None else select(test, as_expr(each), const(0, each.dtype))
        for each in elements
    ]
    name = builder.take_hint("loaded")
    words = bitcast(Lanes([builder.bind(name, value) for value in values]), "uint32")
    return words[0] if bits == 32 else words


def _write(what: str, bits: int, dst: Any, value: Any, pred: Any) -> None:
    from .raw.statements import guarded

    in_kernel(what)
    targets = _elements(f"dst of {what}", dst, bits)
    words = value if isinstance(value, Lanes) else Lanes([value])
    if int(words.dtype.bits) * len(words) != bits:
        raise errors.DTypeError(
            f"{what} writes {bits} bits, got {len(words)} lanes of {words.dtype}",
            span=span.here(),
        )
    items = bitcast(words, targets[0].buffer.dtype)
    with guarded(pred):
        for target, item in zip(targets, items, strict=True):
            emit(store(target, item))


def _reader(name: str, bits: int, memory: str) -> Callable[..., Any]:
    def function(src: Any, pred: Any = None) -> Any:
        return _read(f"T.{name}", bits, src, pred)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Reads {bits} bits of {memory} memory at an element or a slice, as uint32 lanes.\n\n"
        "With ``pred``, zeros where it does not hold."
    )
    return function


def _writer(name: str, bits: int, memory: str) -> Callable[..., Any]:
    def function(dst: Any, value: Any, pred: Any = None) -> None:
        _write(f"T.{name}", bits, dst, value, pred)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Writes {bits} bits to {memory} memory at an element or a slice: a vector of any type.\n\n"
        "With ``pred``, only where it holds."
    )
    return function


def _packed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*operands: Any) -> Any:
        types = dict.fromkeys(each.dtype for each in operands if isinstance(each, Lanes))
        if len(types) > 1:
            raise errors.DTypeError(
                f"T.{name} takes vectors of the same dtype, got {' and '.join(map(str, types))}",
                span=span.here(),
                notes=["convert one: vector.astype(dtype)"],
            )
        return lanewise(function, *operands)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``T.{name[:-1]}`` of two lanes (T.float32x2, or other vectors)."
    return apply


ACCESSES: dict[str, Callable[..., Any]] = {
    **{f"ldg{bits}": _reader(f"ldg{bits}", bits, "global") for bits in (32, 64, 128, 256)},
    **{f"lds{bits}": _reader(f"lds{bits}", bits, "shared") for bits in (32, 64, 128)},
    **{f"stg{bits}": _writer(f"stg{bits}", bits, "global") for bits in (32, 64, 128, 256)},
    **{f"sts{bits}": _writer(f"sts{bits}", bits, "shared") for bits in (32, 64, 128)},
}
PAIRS: dict[str, Callable[..., Any]] = {
    name: _packed(name, function)  # type: ignore[arg-type]
    for name, function in {
        "add2": operator.add,
        "sub2": operator.sub,
        "mul2": operator.mul,
        "fma2": fma,
        "max2": scalar.max,
        "min2": scalar.min,
        "abs2": operator.abs,
    }.items()
}


def is_vector(name: str) -> bool:
    """Returns whether a name is that of a type of vectors."""
    base, _, lanes = name.rpartition("x")
    try:
        return lanes.isdigit() and dtype_of(base) is not None
    except errors.TileLangError:
        return False


__all__ = [
    "ACCESSES",
    "PAIRS",
    "Broadcast",
    "Lanes",
    "Ramp",
    "Shuffle",
    "VectorType",
    "extract_lane",
    "vectorcombine",
    "vectorhigh",
    "vectorlow",
]
