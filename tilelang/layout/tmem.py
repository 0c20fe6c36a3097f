"""Layouts of tiles in tensor memory, and the ``tcgen05.ld`` / ``tcgen05.st`` that copy them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tvm_ffi

from tilelang import _ffi
from tilelang.errors import LayoutError
from tilelang.layout.fragment import Fragment
from tilelang.layout.layout import Layout


def _call(name: str, *args: Any) -> Any:
    return _ffi.get(f"layout.{name}")(*args)


class TmemAtom(NamedTuple):
    """One access shape of ``tcgen05.ld`` and ``tcgen05.st`` at repeat 1.

    Attributes:
        name: as PTX spells it.
        lanes: lanes reached from the address's lane on.
        bits: bits of each lane, per repeat.
        regs: 32-bit registers of a thread, per repeat.
        columns: 32-bit columns, per repeat (twice as many with packing).
        max_repeat: repeats are the powers of two up to this one.
    """

    name: str
    lanes: int
    bits: int
    regs: int
    columns: int
    max_repeat: int

    @property
    def repeats(self) -> list[int]:
        """The legal repeats."""
        return [1 << k for k in range(self.max_repeat.bit_length())]

    def cell(
        self, thread: int, reg: int, *, half_offset: int = 0, pack: bool = False
    ) -> tuple[int, int]:
        """(lane, column) that a register of a warp's thread, relative to the address.

        Args:
            thread: 0 to 31.
            reg: index in the instruction's register list.
            half_offset: immediate of 16x32bx2, in columns.
            pack: with ``.pack::16b`` / ``.unpack::16b``, the cell of the register's low half; the
                high half is one column further.
        """
        return tuple(_call("TmemCell", self.name, thread, reg, half_offset, pack))


def tmem_atoms() -> dict[str, TmemAtom]:
    """The access shapes by name."""
    return {row[0]: TmemAtom(*row) for row in _call("TmemAtoms")}


@tvm_ffi.register_object("tl.TmemLayout")
class TmemLayout(tvm_ffi.Object):
    """A tile in tensor memory: coordinate to lane, and to a bit offset within the lane.

    Column = bit // 32. Lanes from 128 on belong to the second CTA of a pair. ``copies`` are
    further lane offsets where the same tile lies again.
    """

    __slots__ = ()
    lane: Layout
    bit: Layout
    copies: Layout
    element_bits: int

    def __init__(
        self, lane: Layout, bit: Layout, element_bits: int, copies: Layout | None = None
    ) -> None:
        self.__init_handle_by_constructor__(
            _ffi.get("layout.Tmem"), lane, bit, element_bits, copies or Layout((1,))
        )

    @staticmethod
    def accumulator(
        m: int,
        n: int,
        element_bits: int = 32,
        *,
        cta_group: int = 1,
        weight_stationary: bool = False,
        lane_alignment: int = 0,
    ) -> TmemLayout:
        """Returns the layout of D (m x n) of ``tcgen05.mma``: a 32-bit cell per element.

        Data path layouts of the PTX ISA: A (cta_group 2, M 256), B (cta_group 2, M 128),
        D (M 128), E (M 64, ``.ws``), F (M 64), G (M 32, ``.ws``).

        Raises:
            LayoutError: the instruction has no such size.
        """
        return _call(
            "TmemAccumulator", m, n, element_bits, cta_group, weight_stationary, lane_alignment
        )

    @staticmethod
    def operand_a(
        m: int,
        k: int,
        element_bits: int,
        *,
        cta_group: int = 1,
        weight_stationary: bool = False,
        lane_alignment: int = 0,
    ) -> TmemLayout:
        """Returns the layout of A (m x k) of ``tcgen05.mma`` in tensor memory: packed along K.

        Raises:
            LayoutError: the instruction has no such size.
        """
        return _call(
            "TmemOperandA", m, k, element_bits, cta_group, weight_stationary, lane_alignment
        )

    @staticmethod
    def from_cells(layout: Layout, element_bits: int) -> TmemLayout:
        """The layout of a function that returns a lane and a column, counted in elements."""
        _, columns = layout.output_shape
        cells = [divmod(place, columns) for place in layout.values()]
        shape = layout.input_shape
        lane = _call("FromValues", shape, [lane for lane, _ in cells])
        bit = _call("FromValues", shape, [column * element_bits for _, column in cells])
        return TmemLayout(lane, bit, element_bits)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Extents of the tile."""
        return self.lane.input_shape

    @property
    def columns(self) -> int:
        """32-bit columns reached, counted from the buffer's first."""
        return _call("TmemColumns", self)

    @property
    def is_unpacked(self) -> bool:
        """Returns whether narrow elements take a 32-bit cell each."""
        return _call("TmemIsUnpacked", self)

    def forward(self, *coord: int) -> tuple[int, int, int]:
        """(lane, column, bit within the column) of an element's first copy."""
        bit = self.bit.forward(*coord)
        return self.lane.forward(*coord), bit // 32, bit % 32

    def slice(self, begin: Sequence[int], extents: Sequence[int]) -> TmemLayout:
        """The tile restricted to a region."""
        return _call("TmemSlice", self, tuple(begin), tuple(extents))

    def reshape(self, *extents: int) -> TmemLayout:
        """Returns the layout with another shape of equal size."""
        return _call("TmemReshape", self, extents)

    def staged(self, stages: int) -> TmemLayout:
        """``stages`` tiles side by side in columns, under a new leading dimension."""
        return _call("TmemStaged", self, stages)

    def _repr_svg_(self) -> str | None:
        from .plot_layout import layout_svg

        return layout_svg(self)

    def __repr__(self) -> str:
        return _call("TmemToString", self)


@tvm_ffi.register_object("tl.TmemInstruction")
class TmemInstruction(tvm_ffi.Object):
    """One ``tcgen05.ld`` or ``.st``: repeat, lane and column offset, first register, count."""

    __slots__ = ()
    repeat: int
    lane: int
    column: int
    reg: int
    num_regs: int


@tvm_ffi.register_object("tl.TmemCopyPlan")
class TmemCopyPlan(tvm_ffi.Object):
    """Instructions that realise a copy.

    Warp w in ``warps`` (counted from the copy's first thread) issues each instruction at lane
    ``32 * (w % 4) + instruction.lane`` and column ``first_column + (w // 4 - warps[0] // 4) *
    warpgroup_columns + instruction.column``; 16x32bx2 takes ``half_offset`` as its immediate.
    """

    __slots__ = ()
    name: str
    pack: bool
    half_offset: int
    first_column: int
    warpgroup_columns: int
    warps: Sequence[int]
    instructions: Sequence[TmemInstruction]

    def __repr__(self) -> str:
        return _call("PlanToString", self)


def plan_tmem_copy(
    tmem: TmemLayout,
    fragment: Fragment,
    direction: str,
    *,
    num_threads: int = 128,
    thread_begin: int = 0,
    max_repeat: int = 64,
    may_clobber: bool = False,
    whole: Fragment | None = None,
) -> list[TmemCopyPlan]:
    """Every way to copy between a fragment and a tile of one shape, best first.

    Args:
        tmem: the tile in tensor memory.
        fragment: the tile in registers; threads count from 0 within the CTA.
        direction: ``"load"`` or ``"store"``.
        num_threads: threads that take part.
        thread_begin: the first of them, a multiple of 128.
        max_repeat: largest repeat used (x64 needs 82 registers a thread, x128 146).
        may_clobber: stores may overwrite cells around the tile, in the lanes and columns it spans.
        whole: the fragment of which ``fragment`` is a slice; a load keeps its other elements.

    Raises:
        LayoutError: no access shape fits; the message says why for each.
    """
    if direction not in ("load", "store"):
        raise LayoutError(f"a tensor-memory copy is a 'load' or a 'store', not {direction!r}")
    found = _call(
        "PlanTmemCopy",
        tmem,
        fragment,
        direction == "store",
        thread_begin,
        num_threads,
        max_repeat,
        may_clobber,
        whole,
    )
    if isinstance(found[0], str):
        raise LayoutError(f"no tcgen05 {direction} moves {fragment} to or from {tmem}: {found[0]}")
    return list(found)


def tmem_fragment(
    tmem: TmemLayout,
    shape: str | None = None,
    *,
    direction: str = "store",
    num_threads: int = 128,
    thread_begin: int = 0,
) -> Fragment:
    """The fragment in which an access shape moves a tile; by default the natural shape's.

    Natural is 32x32b (a row per thread) where the tile fills its lanes, 16x32bx2 (half a row per
    thread) where it takes 16 of each 32. Several warpgroups split the columns evenly.

    Raises:
        LayoutError: the shape (or, by default, every shape) cannot move the tile.
    """
    if shape is not None:
        found = _call("TmemFragmentForShape", tmem, shape, thread_begin, num_threads)
    else:
        found = _call("TmemNaturalFragment", tmem, direction == "store", thread_begin, num_threads)
    if isinstance(found, str):
        raise LayoutError(f"no fragment of {num_threads} threads moves {tmem}: {found}")
    return found


def nearest_tmem_fragment(
    tmem: TmemLayout,
    fragment: Fragment,
    direction: str,
    *,
    num_threads: int = 128,
    thread_begin: int = 0,
) -> Fragment:
    """The fragment that an access shape moves and that costs least to convert to or from.

    ``direction`` is ``"store"`` (``fragment`` is converted before it) or ``"load"`` (after it).

    Raises:
        LayoutError: no shape moves the tile.
    """
    store = direction == "store"
    found = _call("TmemNearestFragment", tmem, fragment, store, thread_begin, num_threads)
    if isinstance(found, str):
        raise LayoutError(f"no fragment of {num_threads} threads moves {tmem}: {found}")
    return found


class TmemCpInstruction(NamedTuple):
    """One ``tcgen05.cp``.

    Attributes:
        shape: source rows x bits, and for fewer than 128 rows in which pairs of quarters they go.
        column: added to the tensor memory address of the buffer.
        bytes: from the matrix's base to the descriptor's start, before swizzling.
    """

    shape: str
    column: int
    bytes: int


def plan_tmem_cp(
    tmem: TmemLayout, shared: Layout, begin: Sequence[int] = (0, 0)
) -> list[TmemCpInstruction]:
    """The ``tcgen05.cp`` that copy a tile of a matrix in shared memory to tensor memory.

    Args:
        tmem: the tile in tensor memory, (rows, columns).
        shared: the whole matrix in shared memory, (rows, columns). The descriptors are those of
            :func:`~tilelang.layout.matrix_operand`.
        begin: the tile's first row and column in it.

    Raises:
        LayoutError: no sequence of instructions copies exactly the tile; the message says why.
    """
    found = _call("PlanTmemCp", tmem, shared, tuple(begin))
    if len(found) == 1 and isinstance(found[0], str):
        raise LayoutError(f"no tcgen05.cp moves {shared} to {tmem}: {found[0]}")
    return [TmemCpInstruction(*row) for row in found]
