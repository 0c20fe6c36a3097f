"""tcgen05.mma.sp: metadata in tensor memory, kinds, layouts, pairs and refusals."""

import numpy as np
import pytest
import sparse_kernels
import torch
from emulator.scaled_kernels import ScaledCase
from ptx_kernels import accepted_by_ptxas

from emulator import pair_kernels, scaled_kernels, scaled_model, test_tcgen05_mma
from emulator import tensor_core_model as model
from tilelang.emulator import Device, EmulatorError

META_AT = 450
LEGAL = (*sparse_kernels.GROWING, 0b0110)
PATTERNS = {"f16": 4, "tf32": 2, "f8f6f4": 4, "i8": 4, "mxf8f6f4": 4, "mxf4": 8, "mxf4nvf4": 8}
META = f", [%r2+{META_AT}], %r20"


def metadata_cell(kind, row, chunk):
    """Lane, column and bit of a chunk's metadata, with M = 128 rows from lane 0 on."""
    if kind == "f16":
        k = 4 * chunk
        return row % 8 + 8 * (k // 16) + 16 * (row // 16), 0, k % 16 + 16 * (row // 8 % 2)
    if kind == "tf32":
        k = 2 * chunk
        return row % 8 + 8 * (k // 8) + 16 * (row // 16), 0, 2 * (k % 8) + 16 * (row // 8 % 2)
    return row, chunk // 8, 4 * chunk % 32


def lanes_of(lane, rows, scattered, first=0):
    """Where the lane of the layout with 128 rows is with fewer of them; with .ws in copies."""
    if scattered:
        return [first + 32 * (lane // 16) + lane % 16]
    return range(lane, 128, rows)


def make_sparse(case, kind, cells, rows, scattered, selector=0, first=0):
    """Gives a case sparse metadata for its A; ``cells`` are those of each CTA."""
    rng = case.rng
    a = sparse_kernels.compress(
        rng, np.asarray(case.a), PATTERNS[kind],
        sparse_kernels.ONE_OF_TWO if kind == "tf32" else LEGAL,
    )  # fmt: skip
    case.a = a.dense
    case.args[2] |= 4 | selector
    for row, line in enumerate(a.indices):
        for chunk, index in enumerate(line):
            lane, column, bit = metadata_cell(kind, row % rows, chunk)
            for at in lanes_of(lane, rows, scattered, first):
                place = (row // rows, at, META_AT + column + selector)
                word = int(cells[place]) & ~(0xF << bit)
                cells[place] = word | int(index) << bit


class SparseCase(test_tcgen05_mma.Case):
    def __init__(self, kind, a, b, d="f32", *, b_major="K", b_swizzle="128B", selector=0, lane=0,
                 **fields):  # fmt: skip
        self.lane = lane
        super().__init__(kind, a, b, d, b_major=b_major, b_swizzle=b_swizzle, **fields)
        depth = 2 * test_tcgen05_mma.DEPTH[kind]
        self.b_codes, self.b = model.random_operand(self.rng, b, (self.n, depth))
        self.args[1] = self.place(self.b_codes, b, test_tcgen05_mma.B_AT, b_swizzle, b_major)
        scattered = self.m == 64 and not self.ws
        make_sparse(self, kind, self.cells[None], self.m, scattered, selector, lane)

    def cell(self, row, column):
        lane, column = super().cell(row, column)
        return lane + self.lane, column

    def text(self, meta=META, a="%d20"):
        ws, offset = ".ws" if self.ws else "", self.lane << 16
        text = test_tcgen05_mma.issue(self.kind, a, f"%r2+{offset}", modifiers=ws + ".sp")
        return text.replace(", %r20", meta.replace(str(META_AT), str(META_AT + offset)))

    def run(self, **options):
        return self.check(self.expected(), self.text(), **options)


KINDS = [
    ("f16", "f16", "f16", "f32"), ("f16", "bf16", "bf16", "f32"), ("f16", "f16", "f16", "f16"),
    ("tf32", "tf32", "tf32", "f32"), ("f8f6f4", "e4m3", "e5m2", "f32"),
    ("f8f6f4", "e2m3", "e2m1", "f32"), ("i8", "s8", "u8", "s32"),
]  # fmt: skip
SELECTORS = {"f16": 2, "tf32": 2}


@pytest.mark.parametrize(("kind", "a", "b", "d"), KINDS)
def test_kinds(kind, a, b, d):
    for selector in range(SELECTORS.get(kind, 1)):
        SparseCase(kind, a, b, d, n=48, selector=selector).run()
    SparseCase(kind, a, b, d, n=16, accumulate=False).run()


@pytest.mark.parametrize("ws", [False, True])
@pytest.mark.parametrize("kind", ["f16", "tf32", "f8f6f4"])
def test_fewer_rows(kind, ws):
    types = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3"}[kind]
    for m in (32, 64, 128) if ws else (64,):
        SparseCase(kind, types, types, m=m, n=128, ws=ws).run()
    if not ws:
        SparseCase(kind, types, types, m=64, n=64, lane=16).run()


@pytest.mark.parametrize("swizzle", ["none", "64B", "128B"])
@pytest.mark.parametrize("b_major", ["K", "MN"])
def test_layouts_of_b(b_major, swizzle):
    SparseCase("f16", "f16", "f16", n=64, b_major=b_major, b_swizzle=swizzle).run()


def test_a_in_tensor_memory():
    case = SparseCase("f16", "f16", "f16", n=32)
    words = np.ascontiguousarray(case.a_codes).view(np.uint32)
    case.cells[:, 400:408] = words
    case.check(case.expected(), case.text(a="[%r2+400]"))


@pytest.mark.parametrize("schedule", ["late", "eager"])
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize(("kind", "a"), [("f16", "bf16"), ("f8f6f4", "e4m3")])
def test_pairs(kind, a, m, schedule):
    """With M = 128 layout C: sixteen rows in each quarter of the lanes."""

    class Pair(pair_kernels.PairCase):
        def cell(self, row, column):
            own = row % (m // 2)
            return row // (m // 2), own if m == 256 else 32 * (own // 16) + own % 16, column

    case = Pair(kind, a, a, m=m, n=64)
    depth = 2 * pair_kernels.DEPTH[kind]
    codes, case.b = model.random_operand(case.rng, a, (64, depth))
    for rank, image in enumerate(case.images):
        own = codes[32 * rank : 32 * rank + 32]
        case.args[1] = pair_kernels.place(image, own, a, pair_kernels.B_AT, "128B", "K")
    make_sparse(case, kind, case.cells, m // 2, m == 128)
    text = pair_kernels.mma(kind).replace("mma.cta", "mma.sp.cta").replace(", %r20", META)
    case.check(text=pair_kernels.body(text), schedule=schedule)


def scaled(kind, block, group=1, m=128):
    """``block`` elements that A stores share a scale factor, twice as many along K."""
    a = "e4m3" if kind == "mxf8f6f4" else "e2m1"
    case = ScaledCase(kind, a, a, scale="ue8m0", block=block, n=64, m=m, group=group, exact=True)
    codes, case.b = model.random_operand(case.rng, a, (64, 2 * case.depth), 1.0)
    if a == "e4m3":  # integers: sums are exact
        case.b = case.rng.integers(-3, 4, codes.shape).astype(float)
        codes = case.b.astype(np.float32)
        codes = torch.from_numpy(codes).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    for rank, image in enumerate(case.images):
        own = codes[64 // group * rank :][: 64 // group]
        place = case._place(image, own, a, scaled_kernels.B_AT, "128B", "K")
        case.args[1] = place
    make_sparse(case, kind, case.cells, m // group, False)
    return case


def scaled_text(case, vector):
    text = scaled_kernels.mma(case.kind, vector, case.group)
    return text.replace("mma.cta", "mma.sp.cta").replace(", %r20", META)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(
    ("kind", "block", "vector"),
    [("mxf8f6f4", 32, ".block32"), ("mxf4", 32, ""), ("mxf4nvf4", 16, ".scale_vec::4X")],
)
def test_scale_factors(kind, block, vector, group, monkeypatch):
    case = scaled(kind, block, group, 128 * group)
    a, b = (
        x * np.repeat(scaled_model.scale_values("ue8m0", s), 2 * block, axis=1)
        for x, s in ((case.a, case.sa), (case.b, case.sb))
    )
    text = scaled_text(case, vector)
    monkeypatch.setattr(scaled_kernels, "mma", lambda *_: text)
    if kind == "mxf8f6f4":
        expected = scaled_model.reference(
            case.a, case.b, case.c, case.sa, case.sb, "e4m3", "e4m3", "ue8m0", False
        )
    else:
        expected = (a @ b.T + case.c).astype(np.float32)
    case.check(expected=expected)


FORMS = [
    "sp.cta_group::1.kind::{kind} [%r1], %d1, %d2, [%r4], %r3, %p1",
    "sp.cta_group::2.kind::{kind} [%r1], [%r2], %d2, [%r4], %r3, {{{masks}}}, %p1",
    "ws.sp.cta_group::1.kind::{kind}.collector::b1::use [%r1], %d1, %d2, [%r4], %r3, %p1, %d3",
    "sp.cta_group::1.kind::{kind} [%r1], %d1, %d2, %r3, %p1",
    "sp.cta_group::1.kind::{kind}.block_scale.block16 [%r1], %d1, %d2, [%r4], %r3, [%r5], [%r6],"
    " %p1",
    "sp.cta_group::1.kind::{kind}.block_scale.block32 [%r1], %d1, %d2, [%r4], %r3, [%r5], [%r6],"
    " %p1",
    "sp.cta_group::2.kind::{kind}.block_scale.scale_vec::1X [%r1], %d1, %d2, [%r4], %r3, [%r5],"
    " [%r6], %p1",
]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("target", ["sm_100a", "sm_100f", "sm_103a"])
def test_forms_are_those_of_ptxas(target, group, tmp_path):
    masks = ", ".join(["%r7"] * 8)
    forms = [form for form in FORMS if f"group::{group}" in form]
    lines = [
        f"tcgen05.mma.{form.format(kind=kind, masks=masks)};" for form in forms for kind in PATTERNS
    ]
    head = f".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() {{\n"
    head += " .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;\n"
    device = Device(target.replace("f", "a"))

    def accepted(line):
        try:
            device.load_ptx(f"{head}{line} ret; }}")
        except EmulatorError:
            return False
        return True

    wanted = accepted_by_ptxas(head, lines, target, tmp_path)
    assert 2 < sum(wanted) < len(lines) - 3
    assert [line for line, w in zip(lines, wanted, strict=True) if accepted(line) != w] == []


# --- reports ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "kind", "message"),
    [
        (lambda d: d & ~4, "descriptor", "bit 2 .sparse. must be set for tcgen05.mma.sp"),
        (lambda d: d | 2, "descriptor", "the sparsity selector .bits 1:0. is 2, not 0 or 1"),
    ],
)
def test_wrong_instruction_descriptors(edit, kind, message):
    case = SparseCase("f16", "f16", "f16", n=16)
    case.args[2] = edit(case.args[2])
    with pytest.raises(EmulatorError, match=message) as caught:
        case.run()
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("m", "ws", "meta", "message"),
    [
        (128, False, ", [%r2+451], %r20", "starts at column 451; it must be even"),
        (128, False, f", [%r2+{450 + (16 << 16)}], %r20", "the metadata of .* starts at lane 16"),
        (64, False, f", [%r2+{450 + (16 << 16)}], %r20", "the metadata and D .* the same lane"),
    ],
)
def test_wrong_addresses(m, ws, meta, message):
    case = SparseCase("f16", "f16", "f16", m=m, n=64, ws=ws)
    with pytest.raises(EmulatorError, match=message) as caught:
        case.check(case.expected(), case.text(meta))
    assert caught.value.kind == "tmem"


def test_selector_of_other_kinds():
    case = SparseCase("f8f6f4", "e4m3", "e4m3", n=16)
    case.args[2] |= 1
    with pytest.raises(EmulatorError, match="which must be 0 for kind::f8f6f4"):
        case.run()


def test_columns_of_ws():
    case = SparseCase("f16", "f16", "f16", n=256, ws=True)
    with pytest.raises(EmulatorError, match=r"with .ws: M is 32, 64 or 128, N is 64 or 128"):
        case.run()


def test_metadata_without_meaning():
    case = SparseCase("f16", "f16", "f16", n=16)
    case.cells[5, META_AT] &= 0xFFF0FFFF  # row 13, elements 0 to 3
    with pytest.raises(EmulatorError, match="is 0b0000 for row 13, elements 0 to 3") as caught:
        case.run()
    assert caught.value.kind == "illegal-operand" and "tcgen05.mma.sp" in str(caught.value)


def test_ashift_is_refused():
    case = SparseCase("f16", "f16", "f16", n=16)
    text = case.text(a="[%r2+400]").replace("kind::f16", "kind::f16.ashift")
    with pytest.raises(EmulatorError, match=r"tcgen05\.mma\.sp with \.ashift") as caught:
        case.check(case.expected(), text)
    assert caught.value.kind == "unsupported"


def test_metadata_is_ordered_like_other_reads():
    """A tcgen05.st to it after the instruction, before its completion."""
    case = SparseCase("f16", "f16", "f16", n=16)
    store = f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3+{META_AT}], {{%r0}};"
    text = case.text()
    text = text.replace("ISSUED:", f"ISSUED: {store} tcgen05.wait::st.sync.aligned;\nWAITS:", 1)
    text = text.replace("@!%p3 bra ISSUED", "@!%p3 bra WAITS")
    with pytest.raises(EmulatorError, match="reads its metadata"):
        case.check(case.expected(), text)
