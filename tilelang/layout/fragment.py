"""Fragments: tiles in the registers of many threads."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import tvm_ffi

from tilelang import _ffi
from tilelang.errors import LayoutError
from tilelang.layout._tabulate import checked_shape, tabulate
from tilelang.layout.formula import TABLE_LIMIT
from tilelang.layout.layout import Layout


def _call(name: str, *args: Any) -> Any:
    return _ffi.get(f"layout.{name}")(*args)


class Conversion(enum.IntEnum):
    """Kinds of conversions between fragments, cheapest first."""

    IDENTICAL = 0
    REGISTERS = 1
    SHUFFLE = 2
    SHARED = 3


def _thread_layouts(
    shape: tuple[int, ...], function: Callable[..., Any], replicate: int
) -> tuple[Layout, Layout]:
    """Tabulates a thread function; with replication its last argument is the replica."""
    if replicate == 1:
        return Layout(shape, function), Layout((1,))
    first = Layout(shape, lambda *c: function(*c, 0))
    origin = (0,) * len(shape)
    base = function(*origin, 0)
    offsets = [function(*origin, rep) - base for rep in range(replicate)]
    for rep, offset in enumerate(offsets):
        values = tabulate(shape, lambda *c, rep=rep: function(*c, rep)).values
        if any(v != t + offset for v, t in zip(values, first.values(), strict=True)):
            raise LayoutError(
                "a fragment's replicas must lie at a fixed distance of threads from each other, "
                f"but replica {rep} does not"
            )
    return first, Layout((replicate,), lambda rep: offsets[rep])


def _inferred_indices(thread: Layout) -> Layout:
    """Numbers the elements of each thread in row-major order."""
    used: Counter[int] = Counter()
    values = []
    for holder in thread.values():
        values.append(used[holder])
        used[holder] += 1
    return _call("FromValues", thread.input_shape, values)


@tvm_ffi.register_object("tl.Fragment")
class Fragment(tvm_ffi.Object):
    """A map ``(coordinate, replica) -> (thread, index in the thread's local array)``.

    Args:
        shape: extents of the tile.
        forward_fn: coordinates (and the replica, when ``replicate > 1``) to ``(thread, index)``.
        forward_thread_fn: coordinates (and the replica) to the thread.
        replicate: number of copies of each element.
        forward_index_fn: coordinates to the index in the thread's local array; by default the
            elements of a thread are numbered in row-major order.

    Raises:
        LayoutError: two elements share a register, replicas do not lie at fixed distances, or the
            tile has more elements than the registers of a block.
    """

    __slots__ = ()
    thread: Layout
    reg: Layout
    replica: Layout

    def __init__(
        self,
        shape: Any,
        forward_fn: Callable[..., Any] | None = None,
        forward_thread_fn: Callable[..., Any] | None = None,
        replicate: int = 1,
        forward_index_fn: Callable[..., Any] | None = None,
    ) -> None:
        extents = checked_shape(shape)
        if prod(extents) > TABLE_LIMIT:
            raise LayoutError(
                f"a fragment of {prod(extents)} elements: the threads of a block have fewer "
                "registers; divide the tile"
            )
        if forward_fn is not None:
            both, rep0 = forward_fn, (0,) if replicate > 1 else ()
            forward_thread_fn = lambda *c: both(*c)[0]  # noqa: E731
            forward_index_fn = lambda *c: both(*c, *rep0)[1]  # noqa: E731
        if forward_thread_fn is None:
            raise LayoutError("a fragment needs forward_fn or forward_thread_fn")
        thread, replica = _thread_layouts(extents, forward_thread_fn, replicate)
        reg = Layout(extents, forward_index_fn) if forward_index_fn else _inferred_indices(thread)
        self.__init_handle_by_constructor__(_ffi.get("layout.Fragment"), thread, reg, replica)

    @staticmethod
    def from_layouts(thread: Layout, reg: Layout, replica: Layout | None = None) -> Fragment:
        """A fragment of a thread layout, a register layout on one shape, and replica offsets."""
        return _call("Fragment", thread, reg, replica or Layout((1,)))

    @staticmethod
    def partition(shape: Sequence[int], threads: int, vector: int = 1) -> Fragment:
        """Row-major split: ``vector`` elements in a thread, then the threads, then repetitions."""
        return _call("FragmentPartition", checked_shape(shape), threads, vector)

    @staticmethod
    def replicated(shape: Sequence[int], threads: int) -> Fragment:
        """Every one of ``threads`` holds the whole tile."""
        return _call("FragmentReplicated", checked_shape(shape), threads)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Extents of the tile."""
        return self.thread.input_shape

    @property
    def num_threads(self) -> int:
        """Largest thread index plus one."""
        return _call("FragmentNumThreads", self)

    @property
    def regs_per_thread(self) -> int:
        """Length of each thread's local array, in elements."""
        return _call("FragmentRegs", self)

    @property
    def replicas(self) -> int:
        """Number of copies of each element."""
        return _call("FragmentReplicas", self)

    @property
    def is_bijective(self) -> bool:
        """Returns whether every (thread, register) slot holds an element."""
        return _call("FragmentIsBijective", self)

    @property
    def has_closed_inverse(self) -> bool:
        """Whether (thread, register) to coordinate can be written as an index expression."""
        return _call("FragmentHasClosedInverse", self)

    def forward(self, *coord: int, rep: int = 0) -> tuple[int, int]:
        """(thread, register) of an element's copy; BoundsError outside the shape."""
        return tuple(_call("FragmentForward", self, coord, rep))

    def inverse(self, thread: int, reg: int) -> tuple[tuple[int, ...], int] | None:
        """(coordinate, replica) held by a slot, or None where the slot is padding."""
        content = _call("FragmentInverse", self, thread, reg)
        return (tuple(content[0]), content[1]) if len(content) else None

    def forward_exprs(self, *indices: Any) -> tuple[Any, Any]:
        """(thread, register) at symbolic coordinates, as IR expressions."""
        return tuple(_call("FragmentExprs", self, list(indices)))

    def inverse_exprs(self, thread: Any, reg: Any, num_threads: int) -> tuple[list[Any], Any, Any]:
        """(coordinate, replica, validity) of a slot as IR expressions."""
        *coord, rep, valid = _call("FragmentInverseExprs", self, thread, reg, num_threads)
        return coord, rep, valid

    def vector_width(self, dim: int = -1) -> int:
        """Length of the aligned runs along ``dim`` in consecutive registers of one thread."""
        return _call("FragmentVectorWidth", self, dim % len(self.input_shape))

    def repeat(
        self,
        dim: int | Sequence[int],
        n: int | None = None,
        on: str = "registers",
        *,
        repeat_on_thread: bool | None = None,
        lower_dim_first: bool = True,
    ) -> Fragment:
        """Returns the fragment repeated in further ``"registers"`` or further ``"threads"``.

        Args:
            dim: the dimension along which ``n`` blocks lie, or the numbers of blocks along all
                dimensions, without ``n``.
            n: the number of blocks along ``dim``.
            on: where the blocks are.
            repeat_on_thread: the same as ``on="threads"``, or ``on="registers"`` if false.
            lower_dim_first: whether blocks along the last dimension are neighbours, or blocks
                along the first one.

        Raises:
            LayoutError: ``on`` is unknown, or there is not one number for each dimension.
        """
        if repeat_on_thread is not None:
            on = "threads" if repeat_on_thread else "registers"
        if on not in ("registers", "threads"):
            raise LayoutError(f"repeat on 'registers' or 'threads', not {on!r}")
        rank = len(self.input_shape)
        counts = {dim % rank: n} if isinstance(dim, int) else dict(enumerate(dim))
        if None in counts.values() or not (isinstance(dim, int) or len(dim) == rank):
            raise LayoutError(
                f"Fragment.repeat takes a dimension and a number of blocks, or {rank} numbers for "
                f"a fragment of {rank} dimensions; it got {dim} and {n}"
            )
        result = self
        for each in sorted(counts, reverse=lower_dim_first):
            result = _call("FragmentRepeat", result, each, counts[each], on == "threads")
        return result

    def replicate(self, n: int) -> Fragment:
        """``n`` times the copies, in further threads."""
        return _call("FragmentReplicate", self, n)

    def bind_threads(self, begin: int) -> Fragment:
        """Returns the fragment with its threads shifted by ``begin``."""
        return _call("FragmentBindThreads", self, begin)

    def reduce_dim(self, dim: int, keep_dim: bool = False) -> Fragment:
        """The fragment of a reduction over ``dim``: threads along it become replicas."""
        return _call("FragmentReduceDim", self, dim % len(self.input_shape), keep_dim)

    def condense_registers(self) -> Fragment:
        """Registers renumbered without gaps."""
        return _call("FragmentCondense", self)

    def transpose(self, *axes: int) -> Fragment:
        """Dimensions in another order (default: reversed)."""
        return _call(
            "FragmentTranspose", self, axes or tuple(reversed(range(len(self.input_shape))))
        )

    def slice(self, begin: Sequence[int], extents: Sequence[int]) -> Fragment:
        """The elements of a region, still in their slots."""
        return _call("FragmentSlice", self, tuple(begin), tuple(extents))

    def reshape(self, *extents: int) -> Fragment:
        """Another shape of the same size, row-major order kept."""
        return _call("FragmentReshape", self, extents)

    def same_map(self, other: Fragment) -> bool:
        """Equality as functions; replicas as sets of threads."""
        return _call("FragmentSameMap", self, other)

    def is_equal(self, other: Fragment) -> bool:
        """Another name of :meth:`same_map`."""
        return self.same_map(other)

    def _repr_svg_(self) -> str | None:
        from .plot_layout import layout_svg

        return layout_svg(self)

    def __repr__(self) -> str:
        return _call("FragmentToString", self)


def conversion(source: Fragment, target: Fragment) -> Conversion:
    """Returns the conversion from ``source`` to ``target``, which have one shape."""
    return Conversion(_call("Conversion", source, target))


def make_gemm_fragment_8x8() -> Fragment:
    """Returns the fragment of an 8x8 matrix of ``mma`` and ``ldmatrix``.

    A lane holds two neighbouring elements of a row, and four lanes hold a row: PTX ISA, "Matrix
    fragments for mma.m16n8k8".
    """
    return Fragment((8, 8), lambda i, j: (4 * i + j // 2, j % 2))


def make_gemm_fragment_8x8_transposed() -> Fragment:
    """Returns the fragment of an 8x8 matrix that ``ldmatrix.trans`` and ``stmatrix.trans`` move.

    A lane holds two neighbouring elements of a column, and four lanes hold a column.
    """
    return make_gemm_fragment_8x8().transpose()
