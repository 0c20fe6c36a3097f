"""Random programs from seeds: gemms as one first writes them, and programs that are almost that.

What decides whether a rewrite fires, and whether it is right: sizes at the boundaries of tiles,
known or of the call; few rows beside a long K; indices that have names; stores that are shifted,
masked, transposed or doubled; values that depend on the position; tensors of one call in the same
memory.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

from fuzz.programs.formats import Inexact
from fuzz.rewrites import model, streams
from fuzz.rewrites.epilogue import Epilogue
from fuzz.rewrites.model import Copy, Corner, Tensor, Tile
from fuzz.rewrites.reference import Racy, expected

_TRIES = 60
#: Iterations of the loop: 32 make it long.
_ITERATIONS = (1, 2, 3, 5, 31, 32, 33, 34, 34, 34, 35)
#: Of products with few rows, whose K several blocks share.
_LONG_ITERATIONS = (40, 48, 63, 64, 72)
_TARGETS = ("sm_90a",) * 4 + ("sm_100a",) * 6 + ("sm_80", "sm_120a")
_SHAPES = ((128, 128),) * 6 + ((64, 128), (128, 64), (64, 64), (128, 256), (256, 128), (128, 32))
_MULTIPROCESSORS = (0, 0, 0, 1, 1, 2, 2, 3, 4, 8, 16)
_OPERANDS = ("float16",) * 6 + ("bfloat16",) * 2 + ("float8_e4m3fn",)


class Gemm:
    """A program in the making."""

    def __init__(self, seed: int, rng: random.Random) -> None:
        self.seed, self.rng = seed, rng
        self.target = self.pick(_TARGETS)
        self.plain = self.chance(0.6)  # as the compiler looks for
        #: Copies of sums follow the loop, and nothing else: blocks may become persistent.
        self.bare = self.plain and self.chance(0.4)
        # Threads convert float8 on sm_80, which takes the emulator minutes.
        narrow = not self.plain and self.target != "sm_80"
        self.dtype = self.pick(_OPERANDS if narrow else _OPERANDS[:-1])
        self.few_rows = self.chance(0.2)
        self.rows, self.columns = (128, 128) if self.plain else self.pick(_SHAPES)
        if self.few_rows and self.chance(0.5):
            self.rows = self.pick((16, 32, 64))
        depths = (32, 32, 64) if self.plain else (16, 16, 32)
        self.depth = 32 if self.dtype.startswith("float8") else self.pick(depths)
        self.threads = self.pick((128, 128, 256))
        wide = self.dtype.startswith("float8")  # both operands lie along K
        self.transpose_a = not wide and self.chance(0.2)
        self.transpose_b = wide or self.chance(0.6)
        self.batch = (
            "" if self.bare or self.few_rows else self.pick(("", "", "", "first", "middle"))
        )
        self.known = {
            "M": not self.chance(0.35),
            "N": not self.chance(0.2),
            "K": not self.chance(0.15),
        }
        self.calls = self._sizes()
        #: Statements before the loop name the block's first row and column.
        self.named = self.chance(0.2)
        self.almost = self.pick(_ALMOST) if not self.plain and self.chance(0.4) else ""

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, values: Sequence[Any]) -> Any:
        return values[self.rng.randrange(len(values))]

    def _options(self) -> tuple[tuple[str, int], ...]:
        """Tiles of Blackwell, which the compiler uses where the program allows them."""
        if self.target != "sm_100a" or self.chance(0.3):
            return ()
        parts = self.pick((1, 1, 1, 2, 3, 4))
        pairs = parts == 1 and self.chance(0.6)
        columns = self.pick((64, 96, 128, 160, 192, 224, 256))
        return (("tl.tile_columns", columns), ("tl.tile_parts", parts), ("tl.tile_pairs", pairs))

    @property
    def first_row(self) -> str:
        return "first_row" if self.named else f"by * {self.rows}"

    @property
    def first_column(self) -> str:
        return "first_column" if self.named else f"bx * {self.columns}"

    # ---------------------------------------------------------------------------------- sizes

    def _extent(self, tile: int, most: int) -> int:
        """Near a boundary of tiles, at most ``most`` of them."""
        whole = self.rng.randrange(0, most)
        rest = self.pick(
            (1, 8, 15, 16, 17, 32, 33, 44, tile // 2, tile // 2 + 1, tile - 1, tile, tile)
        )
        return whole * tile + min(rest, tile)

    def _sizes(self) -> list[dict[str, int]]:
        iterations = self.pick(_ITERATIONS[4:] if self.plain and self.chance(0.7) else _ITERATIONS)
        if self.few_rows:
            iterations = self.pick(_LONG_ITERATIONS)
        unit = 8 if self.plain or self.chance(0.6) else 1  # rows that begin at vectors
        found = []
        for _ in range(1 if all(self.known.values()) else 2):
            most = 2 if self.batch else self.pick((2, 3, 3) if self.bare else (1, 1, 2, 3, 5))
            sizes = {
                "M": self._extent(self.rows, 1 if self.few_rows else most),
                "N": self._extent(self.columns, 2 if most > 2 else self.pick((1, 1, 2, 3))),
                "K": iterations * self.depth - self.pick((0, 0, 0, 8, self.depth // 2)),
                "H": self.pick((1, 2, 3)),
            }
            for name in ("N", "K", *(("M",) if self.transpose_a else ())):
                sizes[name] = -(-sizes[name] // unit) * unit
            found.append(sizes)
        for sizes in found[1:]:
            sizes.update({name: found[0][name] for name, known in self.known.items() if known})
            sizes["H"] = found[0]["H"]
        return found

    def size(self, name: str) -> str:
        """The extent of a dimension as text."""
        return name if not self.known.get(name, True) else str(self.calls[0][name])

    # ---------------------------------------------------------------------------------- tensors

    def shape(self, rows: str, columns: str) -> tuple[str, ...]:
        if not self.batch:
            return rows, columns
        heads = str(self.calls[0]["H"])
        return (heads, rows, columns) if self.batch == "first" else (rows, heads, columns)

    def at(self, row: str, column: str) -> tuple[str, ...]:
        if not self.batch:
            return row, column
        return ("bz", row, column) if self.batch == "first" else (row, "bz", column)

    def corner(self, tensor: str, row: str, column: str) -> Corner:
        moving = {"": (0, 1), "first": (1, 2), "middle": (0, 2)}[self.batch]
        return Corner(tensor, self.at(row, column), moving)

    def _operands(self) -> tuple[list[Tensor], list[Tile], list[model.Statement]]:
        m, n, k = (self.size(name) for name in "MNK")
        shifted = self.chance(0.2)
        first_a = self.pick((0, -3, 5, self.rows // 2)) if shifted else 0
        first_b = self.pick((0, 8, -8, self.columns // 2)) if shifted else 0
        row, column, step = (
            _plus(self.first_row, first_a),
            _plus(self.first_column, first_b),
            f"k * {self.depth}",
        )
        tensors, tiles, loads = [], [], []
        for name, extent, other, at, flipped in (
            ("A", m, self.rows, row, self.transpose_a),
            ("B", n, self.columns, column, not self.transpose_b),
        ):
            shape = self.shape(k, extent) if flipped else self.shape(extent, k)
            where = (step, at) if flipped else (at, step)
            tile = (self.depth, other) if flipped else (other, self.depth)
            tensors.append(Tensor(name, shape, self.dtype))
            tiles.append(Tile(name.lower(), tile, self.dtype, "shared"))
            loads.append(Copy(self.corner(name, *where), name.lower()))
        tiles.append(Tile("c", (self.rows, self.columns), "float32", "fragment"))
        return tensors, tiles, loads

    def program(self) -> model.Program:
        tensors, tiles, loads = self._operands()
        work: list[model.Statement] = [
            *loads,
            model.Gemm("a", "b", "c", self.transpose_a, self.transpose_b),
        ]
        steps = f"T.ceildiv({self.size('K')}, {self.depth})"
        body: list[model.Statement] = [model.Clear("c")]
        if self.named:
            body = [
                model.Bind("first_row", f"by * {self.rows}"),
                model.Bind("first_column", f"bx * {self.columns}"),
                *body,
            ]
        if self.almost == "value in loop":
            work.append(_for_c(self, "c[i, j] + 1"))
        if self.almost == "triangular loop":
            steps = f"T.min(by + 1, {steps})"
        stages = self.pick((2, 2, 3, 4))
        if not self.plain and self.chance(0.3):
            stages = self.pick((0, 1, None))
        body.append(model.Loop("k", steps, stages, tuple(work)))
        if self.almost == "barrier":
            body.append(model.Barrier())
        if self.almost == "value of block":
            body.append(_for_c(self, f"c[i, j] + {self.pick(('by', 'bx % 2', 'by * 2 - bx'))}"))
        epilogue = Epilogue(self, tensors, tiles)
        body += epilogue.statements()
        grid = [("bx", f"T.ceildiv({self.size('N')}, {self.columns})"),
                ("by", f"T.ceildiv({self.size('M')}, {self.rows})")]  # fmt: skip
        if self.chance(0.1):
            grid.reverse()
        if self.batch:
            grid.append(("bz", str(self.calls[0]["H"])))
        symbols = tuple(name for name, known in self.known.items() if not known)
        calls = tuple(model.Call(sizes) for sizes in self.calls)
        program = model.Program(
            self.seed, self.target, self.pick(_MULTIPROCESSORS), tuple(tensors), tuple(tiles),
            tuple(grid), self.threads, tuple(body), symbols, calls,
            0 if self.batch or self.bare else self.pick((0, 0, 0, 0, 3)),
            "plain" if self.plain else self.almost or "other tiles", self._options(),
        )  # fmt: skip
        return epilogue.with_overlap(program)


_ALMOST = ("barrier", "value of block", "value in loop", "triangular loop")


def _for_c(gemm: Gemm, value: str) -> model.Parallel:
    store = model.Store("c", ("i", "j"), value)
    return model.Parallel((gemm.rows, gemm.columns), (store,))


def _plus(text: str, number: int) -> str:
    return f"{text} {'-' if number < 0 else '+'} {abs(number)}" if number else text


def _valid(program: model.Program) -> bool:
    """Whether the program has one exact result in each call, whatever the order of its blocks, and
    no index that is outside of its tensor in all of them."""
    try:
        return not any(expected(program, call).is_outside() for call in program.calls)
    except (Racy, Inexact):
        return False


def _with_names(program: model.Program, rng: random.Random) -> model.Program:
    """The gemm in a serial loop or with A in registers: the compiler takes it for a plain one."""
    loops = [s for s in program.body if isinstance(s, model.Loop)]
    gemms = [s for loop in loops for s in loop.body if isinstance(s, model.Gemm)]
    if program.target != "sm_100a" or len(gemms) != 1 or rng.random() < 0.7:
        return program
    gemm, loop, tiles = gemms[0], loops[0], program.tiles
    work = loop.body
    if not gemm.transpose_a and rng.random() < 0.7:
        a = program.tile("a")
        tiles = (*tiles, dataclasses.replace(a, name="copied", scope="fragment"))
        pair = Copy("a", "copied"), dataclasses.replace(gemm, a="copied")
        at = work.index(gemm)
        work = (*work[:at], *pair, *work[at + 1 :])
    stages = None if rng.random() < 0.6 else loop.stages
    serial = dataclasses.replace(loop, body=work, stages=stages)
    body = tuple(serial if s is loop else s for s in program.body)
    return dataclasses.replace(program, tiles=tiles, body=body)


def generate(seed: int) -> model.Program:
    """The program of a seed: the first one without a race that its random numbers give."""
    for attempt in range(_TRIES):
        rng = random.Random(f"{seed} {attempt}")
        make = streams.program if rng.random() < 0.15 else _gemm
        program = make(seed, rng)
        if _valid(program):
            return _with_names(program, random.Random(f"{seed} names"))
    raise AssertionError(f"seed {seed} gives no program without a race")


def _gemm(seed: int, rng: random.Random) -> model.Program:
    return Gemm(seed, rng).program()
