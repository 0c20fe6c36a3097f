"""Views: another shape, or another type of elements, on the memory of a buffer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm, prod
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import (
    Buffer,
    Load,
    Region,
    element_or_region,
    load,
    make_buffer,
    make_region,
    memory_name,
    plain,
    shape_text,
)
from ..ir.dtype import HANDLE, UINT32, DType, dtype_of
from ..ir.expr import Expr, Operand, as_expr, call, cast, const
from ..ir.stmt import emit, store
from .codec import Codec, reinterpreted

tvm_ffi = _ffi.tvm_ffi
_evaluate = _ffi.get("ir.Evaluate")
_UINT8 = dtype_of("uint8")
_PRIVATE = ("local", "local.var")
#: Elements, and bytes, of a unit of padded tiles.
PADDED = 16


class Element(Operand):
    """An element of a view: reads as its value; as an operand of a tile operator a corner."""

    __slots__ = ("indices", "view")

    def __init__(self, view: View, indices: Sequence[Any]) -> None:
        self.view = view
        self.indices = tuple(indices)

    __hash__ = object.__hash__

    @property
    def dtype(self) -> DType:
        return self.view.value_type

    @property
    def buffer(self) -> Buffer:
        return self.view.source

    def __tl_load__(self) -> Expr:
        return self.view.read(self.indices)

    def __str__(self) -> str:
        return f"{self.view.name}[{', '.join(map(str, self.indices))}]"

    __repr__ = __str__


class Part(Operand):
    """A box of a view: ``extents`` elements from ``mins`` on."""

    __slots__ = ("extents", "mins", "view")

    def __init__(self, view: View, mins: Sequence[Any], extents: Sequence[Any]) -> None:
        self.view = view
        self.mins = tuple(mins)
        self.extents = tuple(extents)

    __hash__ = object.__hash__

    @property
    def dtype(self) -> DType:
        return self.view.value_type

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.extents

    def __tl_load__(self) -> Expr:
        raise errors.ShapeError(
            f"`{self}` is a region of shape {shape_text(self.extents)}, not an element",
            span=span.here(),
        )

    def __str__(self) -> str:
        bounds = zip(self.mins, self.extents, strict=True)
        return f"{self.view.name}[{', '.join(f'{m}:{m + e}' for m, e in bounds)}]"

    __repr__ = __str__


def _strides(source: Buffer, dtype: Any) -> Sequence[Any]:
    if not source.strides:
        return ()
    elements, size = dtype.packing
    *outer, last = source.strides
    return (*(stride // size * elements for stride in outer), last)


class View:
    """Memory of ``source`` as a tile of another shape and type; ``view[i, j]`` as of a buffer.

    Attributes:
        source: the buffer, contiguous.
        shape: of the view.
        dtype: of its elements.
        codec: how elements of a type without arithmetic lie in memory, or None.
        is_unpacked: whether an element of the source is a value of the view: in tiles of such a
            type.
        is_padded: whether 16 elements begin in each 16 bytes of the source.
        strides: of a tensor, in elements; empty when the view is contiguous.
    """

    def __init__(
        self,
        source: Buffer,
        shape: Sequence[Any],
        dtype: Any,
        codec: Codec | None,
        is_unpacked: bool = False,
        is_padded: bool = False,
    ) -> None:
        self._source = source
        # Makes the source of a tile whose elements lie two in a byte; None once it is used.
        self._make_packed: Callable[[], Buffer] | None = None
        self.shape = tuple(map(plain, shape))
        self.dtype = dtype
        self.codec = codec
        self.is_unpacked = is_unpacked
        self.is_padded = is_padded
        self.strides: Sequence[Any] = _strides(source, dtype)

    name = property(lambda self: self._source.name)
    scope = property(lambda self: self._source.scope)
    ndim = property(lambda self: len(self.shape))
    data = property(lambda self: self.source.data)

    @property
    def source(self) -> Buffer:
        """Returns the buffer; from its first use on, the elements stay as they lie."""
        self._make_packed = None
        return self._source

    def may_be_packed(self, make_packed: Callable[[], Buffer]) -> None:
        """Lets the first use of a tile of 4-bit elements decide how they lie in memory.

        Args:
            make_packed: replaces the buffer by one that holds two elements in a byte.
        """
        self._make_packed = make_packed

    def pack(self) -> None:
        """Puts two elements of an unused tile in a byte, as in tensors: the use needs them so."""
        if self._make_packed is not None:
            self._source, self.is_unpacked, self._make_packed = self._make_packed(), False, None

    @property
    def value_type(self) -> DType:
        """The type of what an element is read as."""
        return self.codec.value if self.codec else self.dtype

    @property
    def _bits(self) -> int:
        return self.codec.bits if self.codec else int(self.dtype.bits)

    def describe(self) -> str:
        """Returns e.g. ``A (int4[128, 64] in global memory)``."""
        shape = ", ".join(map(str, self.shape))
        return f"{self.name} ({self.dtype}[{shape}] in {memory_name(self.scope)})"

    __str__ = __repr__ = describe

    def __iter__(self) -> Any:
        raise errors.UnsupportedSyntaxError(
            f"{self.name} cannot be iterated over",
            span=span.here(),
            notes=["loop over its indices with T.serial or T.Parallel"],
        )

    def __getitem__(self, index: Any) -> Element | Part:
        # The shape decides what an index means: the rules are those of a buffer.
        scope = self.scope if self.scope != "local.var" else "local"
        stand_in = make_buffer(self.name, self.value_type, self.shape, scope)
        found = element_or_region(stand_in, index)
        if isinstance(found, Region):
            return Part(self, list(map(plain, found.mins)), list(map(plain, found.extents)))
        return Element(self, list(found.indices))

    def __setitem__(self, index: Any, value: Any) -> None:
        target = self[index]
        if isinstance(target, Part):
            raise errors.ShapeError(
                f"`{target}` is a region of shape {shape_text(target.extents)}; only single "
                "elements are assigned",
                span=span.here(),
                notes=["use T.copy(source, region), T.fill(region, value), or a T.Parallel loop"],
            )
        self.write(target.indices, value)

    def whole(self) -> Part:
        """The region of all elements."""
        return Part(self, [0] * self.ndim, self.shape)

    # Elements -------------------------------------------------------------------------------

    def _number(self, indices: Sequence[Any]) -> tuple[list[Any], Any]:
        """Returns the place of an element: the outer indices in the source, and the rest.

        With the same outer dimensions only the last index changes, and stays within its bounds.
        """
        if all_equal(self.shape[:-1], self.source.shape[:-1]):
            return [as_expr(index) for index in indices[:-1]], indices[-1]
        number: Any = 0
        for index, extent in zip(indices, self.shape, strict=True):
            number = number * extent + index
        return [], number

    def _at(self, outer: list[Any], number: Any) -> Load:
        """The element of the source by its outer indices and its number along the rest."""
        indices: list[Any] = []
        for extent in reversed(self.source.shape[len(outer) + 1 :]):
            indices.append(number % extent)
            number = number // extent
        return load(self.source, [*outer, as_expr(number), *map(as_expr, reversed(indices))])

    def place(self, indices: Sequence[Any]) -> Load:
        """The element of the source in whose place an element is.

        Raises:
            UnsupportedError: elements of the view and of the source differ in size.
        """
        if not self.is_unpacked and self._bits != self.source.dtype.bits:
            raise errors.UnsupportedError(
                f"the address of an element of {self.describe()}: in memory it is "
                f"{self.source.dtype}",
                span=span.here(),
                notes=[f"use the address of an element of {self.name} itself"],
            )
        return self._at(*self._number(indices))

    def read(self, indices: Sequence[Any]) -> Expr:
        """The value of an element."""
        bits, wide = self._bits, int(self.source.dtype.bits)
        outer, number = self._number(indices)
        if self.is_unpacked:
            return self._at(outer, number)
        if bits == wide and self.codec is None:
            return reinterpreted(self._at(outer, number), self.dtype)
        if self.is_padded or (bits < wide and wide % bits):
            assert self.codec is not None
            return self.codec.decode(self._bits_at(outer, number))
        unit = dtype_of(f"uint{max(bits, 8)}")
        if bits <= wide:
            ratio = wide // bits
            word = reinterpreted(self._at(outer, number // ratio), dtype_of(f"uint{wide}"))
            if ratio > 1:
                word = word >> cast(as_expr(number % ratio) * bits, word.dtype)
            found = cast(word, unit)
            found = found & 15 if bits == 4 else found
        else:
            found = self._gathered(outer, number, bits // wide, unit)
        return self.codec.decode(found) if self.codec else reinterpreted(found, self.dtype)

    def _first_byte(self, number: Any) -> Any:
        """Returns where the elements lie that fill bytes together with this one."""
        elements, size = self.sharing, self.filled
        if not self.is_padded:
            return number // elements * size
        return number // PADDED * PADDED + number % PADDED // elements * size

    def _bits_at(self, outer: list[Any], number: Any) -> Expr:
        """The bits of an element that begins within a byte, and may end in the next, as uint8."""
        first, start = self._first_byte(number), number % self.sharing * self._bits
        last = start + (self._bits - 1)
        low, high = (cast(self._at(outer, first + bit // 8), "uint16") for bit in (start, last))
        word = (low | high << 8) >> cast(as_expr(start % 8), "uint16")
        return cast(word, "uint8") & ((1 << self._bits) - 1)

    def _gathered(self, outer: list[Any], number: Any, count: int, unit: DType) -> Expr:
        wide = int(self.source.dtype.bits)
        found: Any = None
        for part in range(count):
            piece = self._at(outer, number * count + part)
            bits = cast(reinterpreted(piece, dtype_of(f"uint{wide}")), unit)
            found = bits if found is None else found | bits << (part * wide)
        return found

    def bits_of(self, value: Any) -> Expr:
        """``value`` as the bits of an element: an unsigned integer."""
        if self.codec:
            return self.codec.encode(as_expr(value))
        number = isinstance(value, (bool, int, float))
        converted = cast(value if number else as_expr(value), self.dtype)
        return reinterpreted(converted, dtype_of(f"uint{self._bits}"))

    def write(self, indices: Sequence[Any], value: Any) -> None:
        """Emits ``view[indices] = value``.

        An element of 4 bits in tensors or shared memory is written by an atomic operation: other
        threads may write the one that shares its byte.

        Raises:
            UnsupportedError: the element shares several elements of memory with others, or tensor
                memory.
        """
        outer, number = self._number(indices)
        if self.is_unpacked:
            assert self.codec is not None
            emit(store(self._at(outer, number), self.codec.rounded(as_expr(value))))
            return
        bits, wide = self._bits, int(self.source.dtype.bits)
        raw = self.bits_of(value)
        if bits < wide:
            self._write_part(outer, number, raw)
            return
        for part in range(bits // wide):
            piece = cast(raw >> (part * wide) if part else raw, f"uint{wide}")
            target = self._at(outer, number * (bits // wide) + part)
            emit(store(target, reinterpreted(piece, self.source.dtype)))

    @property
    def sharing(self) -> int:
        """Returns how many elements fill elements of the source together."""
        return 1 if self.is_unpacked else lcm(int(self.source.dtype.bits), self._bits) // self._bits

    @property
    def filled(self) -> int:
        """Returns how many elements of the source these elements fill."""
        return self.sharing * self._bits // int(self.source.dtype.bits)

    def write_together(self, indices: Sequence[Any], values: Sequence[Any]) -> None:
        """Emits the stores of elements that share some of the source, the first at ``indices``."""
        if self.scope == "shared.tmem":
            raise errors.UnsupportedError(
                f"threads cannot write single elements of {self.describe()}: they share columns of "
                "tensor memory",
                span=span.here(),
                notes=[
                    "T.copy the values to a T.alloc_shared(..., packed=True) tile, then T.copy it"
                ],
            )
        outer, number = self._number(indices)
        wide, size = int(self.source.dtype.bits), self.filled
        unit = dtype_of(f"uint{wide if size == 1 else UINT32.bits}")
        word: Any = None
        for n, value in enumerate(values):
            raw = cast(self.bits_of(value), unit)
            word = raw if word is None else word | raw << (n * self._bits)
        first = self._first_byte(number)
        for part in range(size):
            piece = cast(word >> (part * wide) if part else word, f"uint{wide}")
            emit(store(self._at(outer, first + part), reinterpreted(piece, self.source.dtype)))

    def _write_part(self, outer: list[Any], number: Any, raw: Expr) -> None:
        ratio, size = self.sharing, self.filled
        if size == 1 and self.source.dtype == _UINT8 and self.scope in ("global", "shared.dyn"):
            self._insert(self._at(outer, number // ratio), number % ratio * self._bits, raw)
            return
        if self.scope not in _PRIVATE:
            raise errors.UnsupportedError(
                f"{ratio} elements of {self.describe()} share {'one' if size == 1 else size} of "
                "memory, which threads cannot write in parts",
                span=span.here(),
                notes=[
                    "compute a tile of this type (T.alloc_shared, T.alloc_fragment) and T.copy it, "
                    "or write whole elements"
                ],
            )
        target = self._at(outer, number // ratio)
        unit = dtype_of(f"uint{self.source.dtype.bits}")
        shift = cast(as_expr(number % ratio) * self._bits, unit)
        mask = const((1 << self._bits) - 1, unit) << shift
        old = reinterpreted(as_expr(target), unit)
        new = old & ~mask | cast(raw, unit) << shift
        emit(store(target, reinterpreted(new, self.source.dtype)))

    def _insert(self, target: Load, shift: Any, raw: Expr) -> None:
        """Replaces bits of a byte whose other bits another thread may write at the same time."""
        place = cast(as_expr(shift), _UINT8)
        mask = const((1 << self._bits) - 1, _UINT8) << place
        operands = [call(HANDLE, "address_of", [target]), cast(raw, _UINT8) << place, mask]
        emit(_evaluate(call(_UINT8, "atomic_insert", operands), span.current()))

    # Boxes ----------------------------------------------------------------------------------

    def codes(self, part: Part, unit: int = 1) -> Region | None:
        """The region of the source with the bits of the same elements, if one has just these.

        Args:
            part: of the view.
            unit: elements at a multiple of which it begins and ends, at least.
        """
        if self.codec is None or self.is_unpacked:
            return None
        elements, size = (1, 1) if self.is_padded else (self.sharing, self.filled)
        unit = max(PADDED if self.is_padded else elements, unit)
        if not all_equal(self.shape[:-1], self.source.shape[:-1]):
            return None
        low, extent = part.mins[-1], part.extents[-1]
        if not (_is_multiple(low, unit) and _is_multiple(extent, unit)):
            return None
        mins = [*part.mins[:-1], plain(low // elements * size)]
        extents = [*part.extents[:-1], plain(extent // elements * size)]
        return make_region(self.source, mins, extents)

    def box(self, part: Part) -> Region | None:
        """The region of the source that holds the same elements in the same order, if one does."""
        if not self.is_unpacked and (self.codec or self.dtype != self.source.dtype):
            return None
        if all_equal(self.shape, self.source.shape):
            return make_region(self.source, part.mins, part.extents)
        known = (*self.shape, *self.source.shape, *part.extents)
        if not all(isinstance(dim, int) for dim in known):
            return None
        mins: list[Any] = []
        extents: list[Any] = []
        for ours, theirs in _groups(self.shape, self.source.shape):
            found = _run_of(self.shape, part, ours)
            placed = found and _placed([int(self.source.shape[n]) for n in theirs], *found)
            if not placed:
                return None
            mins += placed[0]
            extents += placed[1]
        if [e for e in extents if e != 1] != [e for e in part.extents if e != 1]:
            return None
        return make_region(self.source, mins, extents)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return bool(tvm_ffi.structural_equal(a, b))


def all_equal(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Returns whether two shapes are the same, also where extents are known only at run time."""
    return len(ours) == len(theirs) and all(map(_equal, ours, theirs))


def _groups(ours: Sequence[Any], theirs: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
    """Dimensions of two shapes of one size, in groups of equal size, as small as possible."""
    groups = []
    i = j = 0
    while i < len(ours) or j < len(theirs):
        left, right = [i] if i < len(ours) else [], [j] if j < len(theirs) else []
        i, j = i + len(left), j + len(right)
        while (a := prod(ours[n] for n in left)) != (b := prod(theirs[n] for n in right)):
            if a < b and i < len(ours):
                left.append(i)
                i += 1
            elif j < len(theirs):
                right.append(j)
                j += 1
            else:
                break
        groups.append((left, right))
    return groups


def _run_of(shape: Sequence[Any], part: Part, dims: list[int]) -> tuple[Any, int] | None:
    """Returns where the elements of a box start, and how many follow each other."""
    start: Any = 0
    length, open_dims = 1, False
    for n in dims:
        extent = part.extents[n]
        if open_dims and extent != shape[n]:
            return None
        open_dims = open_dims or extent != 1
        start = start * shape[n] + part.mins[n]
        length *= extent
    return start, length


def _placed(shape: list[int], start: Any, length: int) -> tuple[list[Any], list[int]] | None:
    """The box of a shape that holds ``length`` elements from ``start`` on, if one does."""
    mins: list[Any] = []
    extents: list[int] = []
    for n in reversed(range(len(shape))):
        extent = shape[n]
        taken = min(length, extent)
        aligned = length % taken == 0 and (taken == extent or extent % taken == 0)
        if taken > 1 and not (aligned and _is_multiple(start, taken)):
            return None
        mins.append(0 if taken == extent else plain(start % extent) if n else start)
        extents.append(taken)
        start, length = plain(start // extent), length // taken
    return (mins[::-1], extents[::-1]) if length == 1 else None


def _is_multiple(value: Any, factor: int) -> bool:
    if isinstance(value, int):
        return value % factor == 0
    coefficient, base = _ffi.get("arith.Modular")(_ffi.get("arith.Analyzer")(), value)
    return coefficient % factor == 0 and base % factor == 0
