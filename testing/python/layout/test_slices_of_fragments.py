"""Copies between tensor memory and a slice of a fragment leave all other elements as they are.

Every column slice and many slices of rows, for fragments in the layout of each access shape: what
the instructions of a plan do to registers and cells is computed by the model of the PTX ISA.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import tmem_model

from tilelang.errors import LayoutError
from tilelang.layout import TmemLayout, plan_tmem_copy, tmem_fragment

COLUMNS = 16


def tile_of(m: int, bits: int) -> TmemLayout:
    return TmemLayout.accumulator(m, COLUMNS) if bits == 32 else TmemLayout.operand_a(m, 32, bits)


def fragments_of(tile: TmemLayout, threads: int):
    for shape in tmem_model.ATOMS:
        try:
            yield tmem_fragment(tile, shape, num_threads=threads)
        except LayoutError:
            continue


def bytes_of(words: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(words.astype("<u4")).view(np.uint8)


class Slots:
    """Where the elements of a fragment lie among the bytes of [thread][register]."""

    def __init__(self, fragment, bits: int) -> None:
        size = bits // 8
        self.thread = np.array(fragment.thread.values())
        self.first = np.array(fragment.reg.values()) * size
        self.offsets = np.arange(size)

    def __getitem__(self, registers: np.ndarray) -> np.ndarray:
        return bytes_of(registers)[self.thread[:, None], self.first[:, None] + self.offsets]


class Cells:
    """Where the elements of a tile lie among the bytes of [lane][column]."""

    def __init__(self, tile: TmemLayout, bits: int) -> None:
        self.lane = np.array(tile.lane.values())
        self.first = np.array(tile.bit.values()) // 8
        self.offsets = np.arange(bits // 8)

    def mask(self) -> np.ndarray:
        """The bytes that belong to the tile."""
        mask = np.zeros((128, 512 * 4), bool)
        mask[self.lane[:, None], self.first[:, None] + self.offsets] = True
        return mask

    def __getitem__(self, memory: np.ndarray) -> np.ndarray:
        return bytes_of(memory)[self.lane[:, None], self.first[:, None] + self.offsets]


def check_slice(tile, fragment, begin, at, extents, bits, threads) -> int:
    """Checks the plans between ``tile[begin..]`` and ``fragment[at..]``; returns how many."""
    rng = np.random.default_rng(0)
    part, held = tile.slice(begin, extents), fragment.slice(at, extents)
    words = -(-fragment.regs_per_thread * bits // 32)
    memory = rng.integers(0, 1 << 32, (128, 512), dtype=np.uint32)
    registers = rng.integers(0, 1 << 32, (threads, words), dtype=np.uint32)
    own, whole, cells = Slots(held, bits), Slots(fragment, bits), Cells(part, bits)
    inside = np.zeros(fragment.input_shape, bool)
    inside[tuple(slice(b, b + e) for b, e in zip(at, extents, strict=True))] = True
    found = 0
    for direction in ("load", "store"):
        try:
            plans = plan_tmem_copy(
                part, held, direction, num_threads=threads, whole=fragment, max_repeat=16
            )
        except LayoutError:
            continue
        for plan in plans:
            found += 1
            after, cells_after = registers.copy(), memory.copy()
            getattr(tmem_model, direction)(plan, cells_after, after)
            assert np.array_equal(own[after], cells[cells_after]), plan
            others = ~inside.ravel()
            assert np.array_equal(whole[after][others], whole[registers][others]), plan
            rest = ~cells.mask()
            assert np.array_equal(bytes_of(cells_after)[rest], bytes_of(memory)[rest]), plan
    return found


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("m", [64, 128])
def test_columns(m: int, threads: int, bits: int) -> None:
    tile = tile_of(m, bits)
    n, step = tile.input_shape[1], 32 // bits
    found = 0
    for fragment in fragments_of(tile, threads):
        for begin, end in itertools.combinations(range(0, n + 1, step), 2):
            for at in {begin, random.Random(begin * n + end).randrange(n - (end - begin) + 1)}:
                extents = (m, end - begin)
                found += check_slice(tile, fragment, (0, begin), (0, at), extents, bits, threads)
    assert found > 10


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("m", [64, 128])
def test_rows_and_columns(m: int, threads: int) -> None:
    tile = tile_of(m, 32)
    rng = random.Random(m + threads)
    found = 0
    for fragment in fragments_of(tile, threads):
        for _ in range(60):
            rows = rng.choice([16, 32, 64, rng.randint(1, m)])
            columns = rng.randint(1, COLUMNS)
            begin = (rng.randrange(0, m - min(rows, m) + 1, 16), rng.randint(0, COLUMNS - columns))
            extents = (min(rows, m), columns)
            found += check_slice(tile, fragment, begin, begin, extents, 32, threads)
    assert found > 5
