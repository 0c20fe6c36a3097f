"""Tensor-memory layouts and copy plans against a scalar model of the PTX ISA's formulas."""

import functools
import itertools

import numpy as np
import pytest
import tmem_model

from tilelang.errors import LayoutError
from tilelang.layout import (
    Conversion,
    Fragment,
    TmemLayout,
    conversion,
    nearest_tmem_fragment,
    plan_tmem_copy,
    tmem_atoms,
    tmem_fragment,
)

SHAPES = list(tmem_model.ATOMS)
FORMS = [
    {"m": 128},
    {"m": 64},
    {"m": 64, "lane_alignment": 16},
    {"m": 32, "weight_stationary": True},
    {"m": 64, "weight_stationary": True},
    {"m": 128, "weight_stationary": True},
    {"m": 128, "cta_group": 2},
    {"m": 256, "cta_group": 2},
]


def split_form(form):
    rest = {k: v for k, v in form.items() if k != "m"}
    model = {
        "cta_group": rest.get("cta_group", 1),
        "ws": rest.get("weight_stationary", False),
        "align": rest.get("lane_alignment", 0),
    }
    return form["m"], rest, model


@pytest.mark.parametrize("name", SHAPES)
def test_atoms(name):
    atom = tmem_atoms()[name]
    regs, columns, max_repeat, lanes = tmem_model.ATOMS[name]
    assert (atom.regs, atom.columns, atom.max_repeat, atom.lanes) == (
        regs,
        columns,
        max_repeat,
        lanes,
    )
    assert atom.repeats == [1 << k for k in range(8) if 1 << k <= max_repeat]
    for half in (1, 37) if name == "16x32bx2" else (0,):
        for t, r in itertools.product(range(32), range(regs * max_repeat)):
            lane, column = tmem_model.atom_cell(name, t, r, half)
            assert atom.cell(t, r, half_offset=half) == (lane, column)
            # .pack::16b: each column of the shape becomes a pair of columns.
            _, plain = tmem_model.atom_cell(name, t, r)
            expected = (lane, 2 * plain + (half if t >= 16 else 0))
            assert atom.cell(t, r, half_offset=half, pack=True) == expected


def test_there_are_116_legal_instructions():
    """Shape, repeat (of 1..128), packing, over 16 lines of the table: 116 of 128 with .ld/.st."""
    four = [a for a in tmem_atoms().values() if a.name != "16x32bx2"]
    assert sum(len(a.repeats) for a in four) * 2 * 2 == 116


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("n", [8, 24, 64, 96, 256])
def test_accumulator(form, n):
    m_size, rest, model = split_form(form)
    layout = TmemLayout.accumulator(m_size, n, **rest)
    used = set()
    for m, col in itertools.product(range(m_size), range(n)):
        cta, lane, column = tmem_model.accumulator_place(m_size, n, m, col, **model)
        assert layout.forward(m, col) == (128 * cta + lane, column, 0)
        used.add(column)
    assert layout.columns == len(used)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("k", [32, 96])
def test_operand_a(form, bits, k):
    m_size, rest, model = split_form(form)
    layout = TmemLayout.operand_a(m_size, k, bits, **rest)
    copies = layout.copies.values()
    for m, col in itertools.product(range(m_size), range(k)):
        lane, column, bit = layout.forward(m, col)
        found = {(lane // 128, lane % 128 + copy, column, bit) for copy in copies}
        assert found == set(tmem_model.operand_places(m_size, bits, m, col, **model))
    assert layout.columns == k * bits // 32


class Case:
    """A tile in tensor memory, cell by cell from the model, and random contents."""

    def __init__(self, layout, bits, places, unpacked=False, seed=0):
        self.layout, self.bits, self.places, self.unpacked = layout, bits, places, unpacked
        rng = np.random.default_rng(seed)
        self.values = rng.integers(0, 1 << bits, size=layout.input_shape, dtype=np.uint64)
        self.poison = rng.integers(0, 1 << 32, size=(128, 512), dtype=np.uint64)

    @functools.cached_property
    def memory(self):
        """Poison, with the tile written by the model."""
        memory = self.poison.copy()
        self.written = np.zeros(memory.shape, dtype=bool)
        mask = (1 << self.bits) - 1
        for coord in np.ndindex(*self.layout.input_shape):
            for _, lane, column, bit in self.places(*coord):
                cell = int(memory[lane, column]) & ~(mask << bit)
                memory[lane, column] = cell | int(self.values[coord]) << bit
                self.written[lane, column] = True
        return memory

    def registers(self, fragment, threads):
        """The local arrays of all threads as 32-bit words; slots without element hold poison."""
        per_word = 32 // self.bits
        words = -(-fragment.regs_per_thread // per_word)
        rng = np.random.default_rng(1)
        elements = rng.integers(
            0, 1 << self.bits, size=(threads, words * per_word), dtype=np.uint64
        )
        thread = np.array(fragment.thread.values())
        reg = np.array(fragment.reg.values())
        for offset in fragment.replica.values():
            elements[thread + offset, reg] = self.values.ravel()
        return self.pack(elements)

    def pack(self, elements):
        per_word = 32 // self.bits
        parts = elements.reshape(elements.shape[0], -1, per_word)
        shifts = np.arange(per_word, dtype=np.uint64) * np.uint64(self.bits)
        return (parts << shifts).sum(axis=2, dtype=np.uint64)

    def check_store(self, plan, fragment, threads):
        memory = self.poison.copy()
        tmem_model.store(plan, memory, self.registers(fragment, threads))
        expected = self.memory.copy()
        if self.unpacked:  # the upper half of each cell is zeroed
            expected[self.written] &= 0xFFFF
        np.testing.assert_array_equal(memory, expected)

    def check_load(self, plan, fragment, threads):
        per_word = 32 // self.bits
        words = -(-fragment.regs_per_thread // per_word)
        registers = np.full((threads, words), 0xDEADBEEF, dtype=np.uint64)
        tmem_model.load(plan, self.memory, registers)
        shifts = np.arange(per_word, dtype=np.uint64) * np.uint64(self.bits)
        mask = np.uint64((1 << self.bits) - 1)
        elements = (registers[:, :, None] >> shifts & mask).reshape(threads, -1)
        thread, reg = np.array(fragment.thread.values()), np.array(fragment.reg.values())
        for offset in fragment.replica.values():
            np.testing.assert_array_equal(elements[thread + offset, reg], self.values.ravel())

    def check(self, fragment, threads, directions=("store", "load")):
        checked = 0
        for direction in directions:
            for plan in plan_tmem_copy(self.layout, fragment, direction, num_threads=threads):
                check = self.check_store if direction == "store" else self.check_load
                check(plan, fragment, threads)
                checked += 1
        assert checked >= len(directions)


def operand_case(m, k, bits, form=None):
    return cached_operand_case(m, k, bits, tuple((form or {}).items()))


@functools.lru_cache(maxsize=64)
def cached_operand_case(m, k, bits, form):
    m, rest, model = split_form({"m": m, **dict(form)})
    layout = TmemLayout.operand_a(m, k, bits, **rest)
    return Case(layout, bits, lambda i, j: tmem_model.operand_places(m, bits, i, j, **model))


def accumulator_case(m, n, bits, form=None):
    return cached_accumulator_case(m, n, bits, tuple((form or {}).items()))


@functools.lru_cache(maxsize=64)
def cached_accumulator_case(m, n, bits, form):
    m, rest, model = split_form({"m": m, **dict(form)})
    layout = TmemLayout.accumulator(m, n, bits, **rest)

    def places(i, j):
        return [(*tmem_model.accumulator_place(m, n, i, j, **model), 0)]

    return Case(layout, bits, places, unpacked=bits < 32)


def check_fitting_shapes(case, threads):
    """Checks ``case`` with every instruction shape that can carry it; returns how many can."""
    fitting = 0
    for shape in (None, *SHAPES):
        try:
            fragment = tmem_fragment(case.layout, shape, num_threads=threads)
            plan_tmem_copy(case.layout, fragment, "store", num_threads=threads)
        except LayoutError:
            continue
        fitting += 1
        case.check(fragment, threads)
    return fitting


ONE_CTA = [form for form in FORMS if form.get("cta_group", 1) == 1]


@pytest.mark.parametrize("form", ONE_CTA, ids=str)
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("k", [16, 48, 64, 80, 128])
def test_operand_round_trip(form, bits, threads, k):
    """Fragment -> store -> what the MMA reads is the identity, for every shape that fits."""
    case = operand_case(form["m"], k, bits, {k: v for k, v in form.items() if k != "m"})
    assert check_fitting_shapes(case, threads) >= 1 or k * bits // 32 % (threads // 128 * 2) != 0


@pytest.mark.parametrize("form", ONE_CTA, ids=str)
@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("threads", [128, 256, 384])
@pytest.mark.parametrize("n", [8, 24, 80, 96, 192])
def test_accumulator_round_trip(form, bits, threads, n):
    case = accumulator_case(form["m"], n, bits, {k: v for k, v in form.items() if k != "m"})
    columns = case.layout.columns * bits // 32
    assert check_fitting_shapes(case, threads) >= 1 or columns % (threads // 128 * 2) != 0


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize(("begin", "width"), [(0, 32), (32, 32), (16, 48), (8, 8)])
def test_column_slices(bits, m, begin, width):
    whole = operand_case(m, 64, bits)
    part = whole.layout.slice((0, begin), (m, width))
    case = Case(part, bits, lambda i, j: whole.places(i, j + begin))
    case.check(tmem_fragment(part), 128)


@pytest.mark.parametrize(("row", "rows"), [(0, 64), (64, 64), (32, 96), (0, 32)])
def test_row_slices_use_only_the_warps_in_reach(row, rows):
    whole = accumulator_case(128, 32, 32)
    part = whole.layout.slice((row, 0), (rows, 32))
    case = Case(part, 32, lambda i, j: whole.places(i + row, j))
    fragment = tmem_fragment(part)
    case.check(fragment, 128)
    plan = plan_tmem_copy(part, fragment, "load")[0]
    assert list(plan.warps) == list(range(row // 32, (row + rows) // 32))


def test_a_row_slice_inside_a_warp_loads_but_does_not_store():
    part = TmemLayout.accumulator(128, 32).slice((0, 0), (40, 32))
    case = Case(part, 32, lambda i, j: [(0, i, j, 0)])
    fragment = tmem_fragment(part, direction="load")
    case.check(fragment, 128, ["load"])
    with pytest.raises(LayoutError, match="does not fit"):
        plan_tmem_copy(part, fragment, "store")
    assert plan_tmem_copy(part, fragment, "store", may_clobber=True)


@pytest.mark.parametrize("form", [{"cta_group": 2, "m": 128}, {"cta_group": 2, "m": 256}], ids=str)
def test_each_cta_of_a_pair_copies_its_part(form):
    m, rest, model = split_form(form)
    whole = TmemLayout.accumulator(m, 64, **rest)
    rows = m // 2
    for cta in range(2):
        part = whole.slice((cta * rows, 0), (rows, 64))

        def places(i, j, first=cta * rows):
            return [(*tmem_model.accumulator_place(m, 64, i + first, j, **model), 0)]

        Case(part, 32, places).check(tmem_fragment(part), 128)
    with pytest.raises(LayoutError, match="spans both CTAs"):
        tmem_fragment(whole)


def test_staged_tiles():
    staged = TmemLayout.accumulator(64, 24).staged(3)
    assert staged.input_shape == (3, 64, 24)
    assert staged.forward(2, 33, 5) == (65, 53, 0)
    part = staged.slice((1, 0, 0), (1, 64, 24)).reshape(64, 24)
    place = lambda i, j: [(0, 32 * (i // 16) + i % 16, 24 + j, 0)]  # noqa: E731
    Case(part, 32, place).check(tmem_fragment(part), 128)


def test_unpacking_a_16_bit_operand_is_never_planned():
    """The packed operand goes out plainly; .unpack::16b would stretch it over twice the columns."""
    packed = TmemLayout.operand_a(128, 64, 16)
    plans = plan_tmem_copy(packed, tmem_fragment(packed), "store")
    assert [p.pack for p in plans] == [False]
    cells = TmemLayout.accumulator(128, 64, 16)
    plans = plan_tmem_copy(cells, tmem_fragment(cells), "load")
    assert [p.pack for p in plans] == [True]
    assert cells.columns == 2 * packed.columns == 64


@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("threads", [128, 256])
def test_scores_become_probabilities_in_place(m, threads):
    """One fragment serves the f32 accumulator and the narrower operand made of it."""
    scores = tmem_fragment(TmemLayout.accumulator(m, 128), num_threads=threads)
    for bits in (8, 16, 32):
        operand = TmemLayout.operand_a(m, 128, bits)
        assert tmem_fragment(operand, num_threads=threads).same_map(scores)


def test_accumulator_fragment_of_mma_stores_as_operand():
    """16x256b holds f32 pairs along columns; as bf16 they are the words of 16x128b."""
    scores = tmem_fragment(TmemLayout.accumulator(64, 64), "16x256b")
    assert scores.forward(9, 3) == (5, 3)
    case = operand_case(64, 64, 16)
    assert [p.name for p in plan_tmem_copy(case.layout, scores, "store")] == ["16x128b"]
    case.check(scores, 128)


def test_nearest_fragment():
    """A fragment of mma.m16n8 rows reaches M = 64 tiles without leaving its threads."""
    layout = TmemLayout.accumulator(64, 64)
    held = tmem_fragment(layout, "16x256b")
    assert nearest_tmem_fragment(layout, held, "store").same_map(held)
    swapped = Fragment((64, 64), lambda i, j: (held.forward(i, j)[0], held.forward(i, j)[1] ^ 4))
    near = nearest_tmem_fragment(layout, swapped, "load")
    assert conversion(near, swapped) == Conversion.REGISTERS
    rows = nearest_tmem_fragment(layout, Fragment.partition((64, 64), 128, 4), "store")
    assert rows.same_map(tmem_fragment(layout)), "all cost the same: the natural one"


@pytest.mark.parametrize("limit", [1, 4, 16, 64, 128])
def test_repeats_stay_within_the_limit(limit):
    case = accumulator_case(128, 80, 32)
    fragment = tmem_fragment(case.layout)
    plan = plan_tmem_copy(case.layout, fragment, "load", max_repeat=limit)[0]
    repeats = [step.repeat for step in plan.instructions]
    assert max(repeats) == min(limit, 64) and sum(repeats) == 80
    case.check_load(plan, fragment, 128)


def test_threads_beginning_at_a_later_warpgroup():
    layout = TmemLayout.accumulator(128, 32)
    fragment = tmem_fragment(layout, thread_begin=128)
    assert fragment.forward(5, 7) == (133, 7)
    assert plan_tmem_copy(layout, fragment, "load", thread_begin=128)
    with pytest.raises(LayoutError, match="takes no part"):
        plan_tmem_copy(layout, fragment, "load")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TmemLayout.accumulator(96, 64), "no form with M = 96"),
        (lambda: TmemLayout.accumulator(64, 63, weight_stationary=True), "2 ways, but N = 63"),
        (lambda: TmemLayout.operand_a(128, 64, 12), "4, 8, 16 or 32 bits"),
        (lambda: TmemLayout.accumulator(64, 64, cta_group=2), "no form with M = 64"),
        (lambda: tmem_fragment(TmemLayout.accumulator(128, 64), num_threads=96), "96 threads"),
        (lambda: tmem_fragment(TmemLayout.accumulator(128, 64), num_threads=192), "warpgroups"),
        (lambda: tmem_fragment(TmemLayout.accumulator(128, 7), num_threads=256), "has 7"),
        (lambda: tmem_fragment(TmemLayout.accumulator(128, 6), "32x64b"), "no tcgen05.ld/st shape"),
        (
            lambda: tmem_fragment(TmemLayout.operand_a(128, 64, 16).slice((0, 1), (128, 16))),
            "begins inside a 32-bit column",
        ),
        (
            lambda: plan_tmem_copy(
                TmemLayout.accumulator(128, 64), Fragment.partition((128, 64), 128, 4), "load"
            ),
            "cannot reach",
        ),
        (
            lambda: plan_tmem_copy(
                TmemLayout.operand_a(128, 64, 16),
                Fragment((128, 64), lambda i, j: (i, j // 2 + j % 2 * 32)),
                "store",
            ),
            "is part",
        ),
        (
            lambda: plan_tmem_copy(
                TmemLayout.operand_a(64, 64, 16, weight_stationary=True),
                Fragment((64, 64), lambda i, j: (i, j)),
                "store",
            ),
            "must be stored in several lanes",
        ),
        (
            lambda: plan_tmem_copy(
                TmemLayout.operand_a(128, 3, 16), Fragment((128, 3), lambda i, j: (i, j)), "store"
            ),
            "rest of a partly used column",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(LayoutError, match=message):
        make()
