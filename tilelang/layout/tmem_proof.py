"""The proof that a tile in tensor memory is read where it was written: ``kernel.explain(tile)``.

Three maps are compared, element by element: the registers of ``tcgen05.st`` and ``.ld`` with the
cells that their access shape reaches, the layout of the tile, and the cells in which
``tcgen05.mma`` has its operand by the PTX ISA.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any, NamedTuple

import numpy as np

from tilelang.errors import ArgumentError
from tilelang.layout.fragment import Fragment
from tilelang.layout.tmem import TmemCopyPlan, TmemLayout, tmem_atoms

_WARP = 32
_COLUMN_BITS = 32
#: Rows and columns of elements that a picture shows.
_WINDOW = (8, 8)

_DOES = {
    "store": "{other} -> {tile} by tcgen05.st",
    "load": "{tile} -> {other} by tcgen05.ld",
    "cp": "{other} -> {tile} by tcgen05.cp",
    "A": "tcgen05.mma reads operand A",
    "C": "tcgen05.mma has its result",
}


class Place(NamedTuple):
    """A part of a 32-bit register of a thread, or of a cell of tensor memory.

    Attributes:
        row: the thread, or the lane.
        column: the register, or the column.
        bit: the first bit of the element in it.
    """

    row: int
    column: int
    bit: int


@dataclass(frozen=True)
class Difference:
    """An element that an operator has in another cell than the tile.

    Attributes:
        element: its coordinate in the tile.
        held: where the layout of the tile has it.
        found: where the operator has it; None if it does not move the element at all.
        line: of the operator.
        operator: what it does.
    """

    element: tuple[int, ...]
    held: Place
    found: Place | None
    line: int
    operator: str

    def __str__(self) -> str:
        where = "nowhere" if self.found is None else cell_text(self.found)
        return (
            f"element {self.element} is in {cell_text(self.held)}, but line {self.line} "
            f"({self.operator}) has it in {where}"
        )


def _part(bit: int, bits: int) -> str:
    return f".{bit // bits}" if bits < _COLUMN_BITS else ""


def cell_text(place: Place, bits: int = _COLUMN_BITS) -> str:
    """Returns "lane 3 column 7", with the number of the element in the column if it has several."""
    return f"lane {place.row} column {place.column}{_part(place.bit, bits)}"


class TmemUse:
    """One operator on a region of a tile in tensor memory.

    Attributes:
        kind: "store", "load" or "cp" of a copy, "A" or "C" of a GEMM.
        tile, other: names of the tile and of the other side of a copy.
        dtype: of the elements of the tile.
        line: of the operator; 0 if unknown.
        column: the first column of the tile in the tensor memory of the CTA.
        begin, extents: the region; an index that is known only at run time counts as 0.
        whole: the layout of the tile.
        fragment: the layout of the registers of a store or load.
        plan: its instructions.
        rows, columns: of the operand of one ``tcgen05.mma``.
    """

    def __init__(self, core: Any) -> None:
        self.kind, self.tile, self.other = str(core.kind), str(core.tile), str(core.other)
        self.dtype = str(core.dtype)
        self.line: int = core.span.line if core.span else 0
        self.column: int = core.column
        self.begin, self.extents = tuple(core.begin), tuple(core.extents)
        self.whole: TmemLayout = core.whole
        self.fragment: Fragment | None = core.fragment
        self.plan: TmemCopyPlan | None = core.plan
        self.first_thread: int = core.first_thread
        self.threads: int = core.threads
        self.rows: int = core.rows
        self.columns: int = core.columns

    @property
    def title(self) -> str:
        """What it does, in a few words."""
        return _DOES[self.kind].format(tile=self.tile, other=self.other)

    @property
    def detail(self) -> str:
        """The instructions."""
        if self.plan is not None:
            last = self.first_thread + self.threads - 1
            return f"{self.plan!r}; threads {self.first_thread} to {last}"
        if self.kind == "cp":
            return "the cells are those of the tile"
        counts = [
            math.ceil(extent / size) for extent, size in zip(self._matrix, self._sizes, strict=True)
        ]
        name = "M {} x K {}" if self.kind == "A" else "M {} x N {}"
        return f"{name.format(*self._sizes)}, {counts[0]} x {counts[1]} instructions"

    @property
    def _matrix(self) -> tuple[int, int]:
        rows, columns = [extent for extent in self.extents if extent != 1][-2:]
        return rows, columns

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def region(self) -> str:
        """The region as text; "" for the whole tile."""
        if self.extents == self.whole.input_shape:
            return ""
        parts = zip(self.begin, self.extents, strict=True)
        return f"[{', '.join(f'{b}:{b + e}' if e != 1 else str(b) for b, e in parts)}]"

    @cached_property
    def registers(self) -> list[Place] | None:
        """The register of each element of the region; None without a fragment."""
        if self.fragment is None:
            return None
        bits = self.whole.element_bits
        held = zip(self.fragment.thread.values(), self.fragment.reg.values(), strict=True)
        return [Place(t, r * bits // _COLUMN_BITS, r * bits % _COLUMN_BITS) for t, r in held]

    @cached_property
    def cells(self) -> list[Place | None] | None:
        """The cell of each element of the region, by the instructions; None if they do not tell."""
        if self.plan is not None:
            return self._cells_of_copy()
        return None if self.kind == "cp" else self._cells_of_operand()

    def _cells_of_copy(self) -> list[Place | None]:
        plan, fragment, registers = self.plan, self.fragment, self.registers
        assert plan is not None and fragment is not None and registers is not None
        atom = tmem_atoms()[plan.name]
        offsets = fragment.replica.values()
        instructions = [
            (each, [
                [atom.cell(t, r, half_offset=plan.half_offset, pack=plan.pack)
                 for r in range(each.num_regs)]
                for t in range(_WARP)
            ])
            for each in plan.instructions
        ]  # fmt: skip
        warps = set(plan.warps)
        groups = {warp: warp // 4 - plan.warps[0] // 4 for warp in warps}
        found: list[Place | None] = []
        for thread, register, bit in registers:
            cell = None
            for offset in offsets:
                warp, lane = divmod(thread + offset - self.first_thread, _WARP)
                if warp not in warps:
                    continue
                for each, table in instructions:
                    if not each.reg <= register < each.reg + each.num_regs:
                        continue
                    row, column = table[lane][register - each.reg]
                    column += plan.first_column + groups[warp] * plan.warpgroup_columns
                    column += each.column
                    if plan.pack:  # the high half is one column further
                        column, bit = column + bit // 16, 0
                    cell = Place(warp % 4 * _WARP + each.lane + row, column, bit)
                if cell is not None:
                    break
            found.append(cell)
        return found

    def _cells_of_operand(self) -> list[Place | None]:
        """Each instruction has its operand at a corner that the address names, by the PTX ISA."""
        height, width = self._matrix
        part = self.whole.slice(self.begin, self.extents).reshape(height, width)
        make = TmemLayout.operand_a if self.kind == "A" else TmemLayout.accumulator
        cells = np.zeros((height, width, 2), np.int64)
        for m in range(0, height, self.rows):
            for n in range(0, width, self.columns):
                size = min(self.rows, height - m), min(self.columns, width - n)
                piece = make(*size, self.whole.element_bits)
                lanes = np.reshape(piece.lane.values(), size)
                bits = np.reshape(piece.bit.values(), size)
                lane, column, bit = part.forward(m, n)
                corner = lane - lanes[0, 0], column * _COLUMN_BITS + bit - bits[0, 0]
                cells[m : m + size[0], n : n + size[1], 0] = lanes + corner[0]
                cells[m : m + size[0], n : n + size[1], 1] = bits + corner[1]
        flat = cells.reshape(-1, 2).tolist()
        return [Place(lane, bit // _COLUMN_BITS, bit % _COLUMN_BITS) for lane, bit in flat]

    def index(self, element: Sequence[int]) -> int | None:
        """The number of an element of the tile in the region; None if it is outside."""
        number = 0
        for at, begin, extent in zip(element, self.begin, self.extents, strict=True):
            if not begin <= at < begin + extent:
                return None
            number = number * extent + at - begin
        return number

    def elements(self) -> Iterator[tuple[int, ...]]:
        """The coordinates in the tile of the region's elements, in order."""
        for at in np.ndindex(*self.extents):
            yield tuple(b + i for b, i in zip(self.begin, at, strict=True))

    def difference(self) -> Difference | None:
        """The first element that the instructions have elsewhere than the tile."""
        cells = self.cells
        if cells is None:
            return None
        region = self.whole.slice(self.begin, self.extents)
        held = zip(region.lane.values(), region.bit.values(), strict=True)
        for number, ((lane, bit), cell) in enumerate(zip(held, cells, strict=True)):
            want = Place(lane, bit // _COLUMN_BITS, bit % _COLUMN_BITS)
            if cell != want and not self._is_copy(cell, want):
                element = next(e for i, e in enumerate(self.elements()) if i == number)
                return Difference(element, want, cell, self.line, self.title)
        return None

    def _is_copy(self, cell: Place | None, want: Place) -> bool:
        """Returns whether the cell has a further copy of the element."""
        if cell is None:
            return False
        lanes = {want.row + offset for offset in self.whole.copies.values()}
        return cell.row in lanes and cell[1:] == want[1:]


class TmemExplanation:
    """What a kernel does with a tile in tensor memory, and that all of it fits together.

    ``print`` it for a table; notebooks show a picture, which ``svg()`` returns.

    Attributes:
        kernel: the name of the kernel.
        tile: that of the tile.
        uses: the operators on it in program order, each once.
    """

    def __init__(self, kernel: str, tile: str, uses: Sequence[TmemUse]) -> None:
        self.kernel, self.tile = kernel, tile
        self.uses = tuple(_distinct(uses))

    @cached_property
    def difference(self) -> Difference | None:
        """The first element that an operator has elsewhere than the tile; None if all agree."""
        return next(filter(None, (use.difference() for use in self.uses)), None)

    @property
    def layout(self) -> TmemLayout:
        """The layout of the tile."""
        return self.uses[0].whole

    def __str__(self) -> str:
        first = self.uses[0]
        shape = " x ".join(map(str, self.layout.input_shape))
        columns = f"columns {first.column} to {first.column + self.layout.columns - 1}"
        head = f"{self.tile} of {self.kernel}: {first.dtype} {shape} in {columns} of tensor memory"
        steps = [
            f"  line {use.line}: {use.title}{use.region}\n    {use.detail}" for use in self.uses
        ]
        return "\n".join([head, *steps, "", *self._table(), "", self.verdict])

    @property
    def verdict(self) -> str:
        """A sentence: all elements agree, or the first that does not."""
        if self.difference is not None:
            return f"The layouts differ: {self.difference}."
        compared = [use for use in self.uses if use.cells is not None]
        total = sum(math.prod(use.extents) for use in compared)
        return (
            f"All {total} elements of {len(compared)} operators are in the cells of the tile."
            if compared
            else "No instruction of this kernel says where the elements are."
        )

    def _rows(self) -> list[tuple[int, ...]]:
        """Elements that show the pattern: neighbours, the first of each warp, the last."""
        shape = self.layout.input_shape
        zero = (0,) * (len(shape) - 2)
        height, width = shape[-2:]
        wanted = [(0, 0), (0, 1), (0, 2), (0, width // 2), (1, 0), (16, 0), (32, 0), (64, 0)]
        wanted.append((height - 1, width - 1))
        rows = {(*zero, i, j): None for i, j in wanted if i < height and j < width}
        if self.difference is not None:
            rows[self.difference.element] = None
        return sorted(rows)

    def _table(self) -> list[str]:
        # The operators of one line stand in one column: each has some of the elements.
        lines: dict[str, list[TmemUse]] = {}
        for use in self.uses:
            what = use.kind if use.rows else f"tcgen05 {use.kind}"
            lines.setdefault(f"line {use.line}: {what}", []).append(use)
        table = [["element", "cell of the tile", *lines]]
        for element in self._rows():
            held = cell_text(Place(*self.layout.forward(*element)), self.layout.element_bits)
            entries = [self._entry(uses, element) for uses in lines.values()]
            table.append([str(element), held, *entries])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]

    def _entry(self, uses: Sequence[TmemUse], element: tuple[int, ...]) -> str:
        bits = self.layout.element_bits
        for use in uses:
            number = use.index(element)
            if number is None:
                continue
            if use.cells is None:
                return "as the tile"
            cell = use.cells[number]
            text = "nowhere" if cell is None else cell_text(cell, bits)
            if use.registers is None:
                return text
            thread, register, bit = use.registers[number]
            return f"thread {thread} r{register}{_part(bit, bits)}, {text}"
        return "-"

    def svg(self) -> str:
        """Returns a picture as the text of an SVG file: registers, cells and operands side by side.

        It shows the first rows and columns of the tile, or those around the first element that
        differs, which has a frame.
        """
        from .plot_layout import Cell, Drawing, side_by_side

        top = self.difference.element if self.difference else (0,) * len(self.layout.input_shape)
        height, width = self.layout.input_shape[-2:]
        first = max(0, min(top[-2], height - _WINDOW[0])), max(0, min(top[-1], width - _WINDOW[1]))
        rows = range(first[0], min(height, first[0] + _WINDOW[0]))
        columns = range(first[1], min(width, first[1] + _WINDOW[1]))
        bits = self.layout.element_bits

        def draw(title: str, cell_at: Any) -> Drawing:
            cells = [[cell_at((*top[:-2], i, j)) for j in columns] for i in rows]
            return Drawing(title, cells, first)

        def of(place: Place | None, letters: str) -> Cell:
            if place is None:
                return Cell(-1, ("-", ""))
            lines = (
                f"{letters[0]}{place.row}",
                f"{letters[1]}{place.column}{_part(place.bit, bits)}",
            )
            return Cell(place.row, lines)

        def of_use(use: TmemUse, places: Sequence[Place | None], letters: str) -> Any:
            def cell_at(element: tuple[int, ...]) -> Cell:
                number = use.index(element)
                return of(None if number is None else places[number], letters)

            return cell_at

        drawings = []
        for use in self.uses:
            if use.registers is not None:
                title = f"line {use.line}: registers of {use.other}"
                drawings.append(draw(title, of_use(use, use.registers, "Tr")))
            if use.cells is not None:
                title = f"line {use.line}: {use.title}"
                drawings.append(draw(title, of_use(use, use.cells, "Lc")))
        tile = draw(
            f"cells of {self.tile}", lambda element: of(Place(*self.layout.forward(*element)), "Lc")
        )
        framed = None if self.difference is None else (top[-2] - first[0], top[-1] - first[1])
        return side_by_side([tile, *drawings], self.verdict, framed)

    def _repr_html_(self) -> str:
        return f"{self.svg()}<pre>{escape(str(self))}</pre>"


def _distinct(uses: Sequence[TmemUse]) -> list[TmemUse]:
    """Each operator of the program once, of a loop that was unrolled or has several forms."""
    found: dict[Any, TmemUse] = {}
    for use in uses:
        found.setdefault((use.kind, use.line, use.other, use.begin, use.extents), use)
    return list(found.values())


def explain_tile(kernel: str, tile: str, uses: Sequence[Any]) -> TmemExplanation:
    """Returns the explanation of one tile.

    Args:
        kernel: its name, for the heading.
        tile: the name of a tile.
        uses: what the compiler says (``tl.TmemUse``), of all tiles.

    Raises:
        ArgumentError: the kernel has no such tile in tensor memory.
    """
    known = list(dict.fromkeys(str(use.tile) for use in uses))
    if tile not in known:
        notes = [f"its tiles are {', '.join(known)}" if known else "it has no tile there"]
        raise ArgumentError(f"kernel {kernel} has no tile {tile!r} in tensor memory", notes=notes)
    return TmemExplanation(kernel, tile, [TmemUse(use) for use in uses if str(use.tile) == tile])
