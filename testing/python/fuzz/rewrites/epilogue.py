"""What follows the loop of a gemm: values, stores, and tensors that lie in the same memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fuzz.rewrites.model import (
    Bind,
    Call,
    Copy,
    Parallel,
    Program,
    Statement,
    Store,
    Tensor,
    Tile,
)

if TYPE_CHECKING:
    from fuzz.rewrites.generate import Gemm

_RESULTS = ("float32", "float32", "float16", "float16", "float16", "bfloat16", "float8_e4m3fn")
_VALUES = (
    "c[i, j] * 0.5",
    "T.max(c[i, j], 0)",
    "T.min(c[i, j], 3) - 1",
    "c[i, j] + ({row}) % 7",
    "c[i, j] - ({column}) // 3",
    "T.if_then_else({row} >= {column}, c[i, j], -1.0)",
    "T.if_then_else(({row}) % 2 == 0, c[i, j], c[i, j] * 2)",
)
_CONDITIONS = (
    "{row} >= 90",
    "{row} < {m} - 5",
    "{column} % 3 == 0",
    "{row} >= {column}",
    "{row} + {column} < 150",
    "c[i, j] > 0",
)


def plus(text: str, number: int) -> str:
    return f"{text} {'-' if number < 0 else '+'} {abs(number)}" if number else text


class Epilogue:
    """The statements behind the loop; adds what they need to tensors and tiles."""

    def __init__(self, gemm: Gemm, tensors: list[Tensor], tiles: list[Tile]) -> None:
        self._gemm, self._tensors, self._tiles = gemm, tensors, tiles
        self._row, self._column = f"{gemm.first_row} + i", f"{gemm.first_column} + j"
        self._extents = gemm.rows, gemm.columns
        self._residuals: list[str] = []
        self._small = False  # results fit float8
        self._binds: list[Statement] = []

    def _filled(self, text: str) -> str:
        m = self._gemm.size("M")
        return text.format(row=self._row, column=self._column, m=m)

    def statements(self) -> list[Statement]:
        g = self._gemm
        body: list[Statement] = []
        if g.chance(0.15):
            self._binds.append(Bind("row0", f"by * {g.rows}"))
            self._row = "row0 + i"
        for _ in range(0 if g.bare else g.pick((0, 0, 1, 1, 2, 3))):
            body += self._value()
        if not g.bare and g.chance(0.15):
            body.append(Copy("c", self._tile("d", g.pick(("float16", "float32")), "fragment")))
        for number in range(g.pick((1, 1, 1, 2))):
            body += self._output(f"C{number}")
        return self._binds + body

    # -------------------------------------------------------------------------------- values

    def _tile(self, name: str, dtype: str, scope: str) -> str:
        self._tiles.append(Tile(name, self._extents, dtype, scope))
        return name

    def _assign(self, value: str) -> Parallel:
        return Parallel(self._extents, (Store("c", ("i", "j"), value),))

    def _value(self) -> list[Statement]:
        g = self._gemm
        kind = g.pick(("value", "value", "column bias", "row bias", "residual", "residual tile"))
        if kind == "value":
            return [self._assign(self._filled(g.pick(_VALUES)))]
        name = f"R{len(self._residuals)}{kind[0]}"
        if any(tensor.name == name for tensor in self._tensors):
            return []
        dtype = g.pick(("float16", "float32", "bfloat16"))
        if kind == "column bias":
            shift = g.pick((0, 0, 0, 8, -3))
            self._tensors.append(Tensor(name, (g.size("N"),), dtype))
            return [self._assign(f"c[i, j] + {name}[{plus(self._column, shift)}]")]
        shift = g.pick((0, 0, 0, 0, -3, 5, 64))
        if kind == "row bias":
            self._tensors.append(Tensor(name, (g.size("M"),), dtype))
            return [self._assign(f"c[i, j] - {name}[{plus(self._row, shift)}]")]
        self._residuals.append(name)
        self._tensors.append(Tensor(name, g.shape(g.size("M"), g.size("N")), dtype))
        if kind == "residual":
            at = ", ".join(g.at(plus(self._row, shift), self._column))
            return [self._assign(f"c[i, j] + {name}[{at}]")]
        tile = self._tile(f"{name.lower()}_tile", dtype, g.pick(("shared", "fragment")))
        corner = g.corner(name, plus(g.first_row, shift), g.first_column)
        return [Copy(corner, tile), self._assign(f"c[i, j] + {tile}[i, j]")]

    # -------------------------------------------------------------------------------- stores

    def _output(self, name: str) -> list[Statement]:
        g = self._gemm
        dtype = g.pick(("float16", "bfloat16") if g.bare else _RESULTS)
        first_row = g.pick((0, 0, 0, 0, -3, -1, -90, 3, 64, 128))
        first_column = g.pick((0, 0, 0, 0, 0, 0, 8, -8, 3))
        shape = [self._extent("M", first_row), self._extent("N", first_column)]
        flipped = not g.bare and g.chance(0.1)
        if flipped:
            shape.reverse()
        self._tensors.append(Tensor(name, g.shape(*shape), dtype, written=True))
        forms = ("copy", "copy", "shared", "loop", "loop", "masked", "masked", "adds")
        form = g.pick(forms[:3] if g.bare else forms)
        if dtype.startswith("float8") and form == "adds":
            form = "loop"
        value = self._scaled("c[i, j]", dtype)
        body: list[Statement] = []
        if form in ("copy", "shared") and not flipped:
            if value != "c[i, j]":
                body.append(self._assign(value))
            source = "c"
            if form == "shared":
                source = self._tile(f"{name.lower()}_tile", dtype, "shared")
                body.append(Copy("c", source))
            corner = g.corner(
                name,
                plus(g.first_row, first_row),
                plus(g.first_column, first_column),
            )
            return [*body, Copy(source, corner)]
        row, column = plus(self._row, first_row), plus(self._column, first_column)
        indices = g.at(column, row) if flipped else g.at(row, column)
        adds = form == "adds"
        conditions = () if form in ("loop", "adds") else (self._filled(g.pick(_CONDITIONS)),)
        # A tensor has no elements before its first one, also where a program says nothing.
        guards = [f"{row} >= 0"] * (first_row < 0) + [f"{column} >= 0"] * (first_column < 0)
        if adds:
            guards += [f"{row} < {shape[flipped]}", f"{column} < {shape[1 - flipped]}"]
        store = Store(name, indices, value, adds)
        return [*body, Parallel(self._extents, (store,), (*guards, *conditions))]

    def _extent(self, name: str, first: int) -> str:
        """As many elements as the product has, a few less, or room for the shift."""
        g = self._gemm
        change = g.pick((0, 0, 0, 0, -5, 7, first, first + 1))
        least = min(sizes[name] for sizes in g.calls)
        change = max(change, 1 - least)
        size = g.size(name)
        return str(int(size) + change) if size.isdigit() else plus(size, change)

    def _scaled(self, value: str, dtype: str) -> str:
        return f"{value} * 0.0625" if dtype.startswith("float8") else value

    # -------------------------------------------------------------------------------- memory

    def with_overlap(self, program: Program) -> Program:
        """Lets two tensors of a type lie in the same memory in some programs."""
        g = self._gemm
        if not g.chance(0.4):
            return program
        written = [t for t in program.tensors if t.written]
        target = g.pick(written)
        others = [t for t in program.tensors if t is not target and t.dtype == target.dtype]
        if not others:
            others = [g.pick([t for t in program.tensors if t is not target])]
            target = replace(target, dtype=others[0].dtype)
            tensors = [target if t.name == target.name else t for t in program.tensors]
            program = replace(program, tensors=tuple(tensors))
        other = g.pick(others)
        first = g.pick((0, 0, 0, 16, 64, 1024))  # multiples of 16 bytes
        calls = [Call(call.sizes, {target.name: (other.name, first)}) for call in program.calls]
        return replace(program, calls=tuple(calls))
