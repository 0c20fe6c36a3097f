"""Memory of vectors: tiles and variables whose elements are ``T.bfloat16x2`` and the like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, Load, load, make_buffer, memory_name
from ..ir.stmt import emit, store
from .builder import Block, in_kernel
from .lanes import Lanes, VectorType, is_vector

_alloc = _ffi.get("ir.Alloc")


def vector_type(dtype: Any) -> VectorType | None:
    """Returns the type if it is one of vectors, by name or as of ``T.bfloat16x2``; else None."""
    if isinstance(dtype, VectorType):
        return dtype
    return VectorType(dtype) if isinstance(dtype, str) and is_vector(dtype) else None


def _store(targets: Sequence[Load], value: Any, dtype: VectorType) -> None:
    """Emits the stores of a vector, or of a scalar in each lane."""
    for target, item in zip(targets, dtype(value), strict=True):
        emit(store(target, item))


class VectorTile:
    """A tile of vectors; ``tile[i, j]`` is one, read and written as a whole.

    Attributes:
        source: the memory, whose last dimension is the lanes.
        dtype: of an element.
    """

    def __init__(self, source: Buffer, dtype: VectorType) -> None:
        self.source = source
        self.dtype = dtype

    name = property(lambda self: self.source.name)
    scope = property(lambda self: self.source.scope)
    shape = property(lambda self: self.source.shape[:-1])

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{self.name} ({self.dtype}[{shape}] in {memory_name(self.scope)})"

    __repr__ = __str__

    def _lanes(self, index: Any) -> list[Load]:
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) != len(self.shape) or any(isinstance(part, slice) for part in parts):
            raise errors.ShapeError(
                f"{self} is a tile of vectors: it is indexed by {len(self.shape)} numbers, for one "
                "vector",
                span=span.here(),
                notes=["T.view(tile, shape, dtype) is a tile of their lanes, with slices"],
            )
        places = [(*parts, lane) for lane in range(self.dtype.lanes)]
        found = [self.source[place] for place in places]
        return [load(each.buffer, each.indices) for each in found]  # type: ignore[union-attr]

    def __getitem__(self, index: Any) -> Lanes:
        return Lanes(self._lanes(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        _store(self._lanes(index), value, self.dtype)


class VectorVariable(Lanes):
    """A mutable vector, private to each thread: plain assignment updates it.

    Attributes:
        vector: its type.
        fresh: not yet given a name by an assignment.
        home: the block it lives in.
    """

    def __init__(self, places: Sequence[Load], vector: VectorType, home: Block) -> None:
        super().__init__(places)
        self.places = tuple(places)
        self.vector = vector
        self.fresh = True
        self.home = home

    def assign(self, value: Any) -> None:
        """Emits the stores of a vector, or of a scalar in each lane."""
        _store(self.places, value, self.vector)


def allocate_vector(name: str, dtype: VectorType, init: Any = None) -> VectorVariable:
    """Emits the allocation of a mutable vector and returns it."""
    buffer = make_buffer(name, dtype.base, (dtype.lanes,), "local")
    emit(_alloc(buffer, span.current()))
    home = in_kernel("a mutable vector").blocks[-1]
    places = [load(buffer, [lane]) for lane in range(dtype.lanes)]
    variable = VectorVariable(places, dtype, home)
    if init is not None:
        variable.assign(init)
    return variable
