"""tcgen05.mma: data layouts, kinds, shapes and arithmetic against NumPy models of the PTX ISA."""

import numpy as np
import pytest
from emulator.tmem_kernels import COMMIT, build, random_cells, run

from emulator import tensor_core_model as model
from tilelang.emulator import EmulatorError

IMAGE_BYTES = 64 * 1024
IMAGE_START = 1024 + 0  # shared memory starts after the reserved kilobyte
A_AT, B_AT = 0, 32 * 1024
PARAMS = ", .param .u64 ADESC, .param .u64 BDESC, .param .u32 IDESC, .param .u32 ACCUMULATE"
DEPTH = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}


def issue(kind, a="%d20", d="%r2", modifiers="", tail=""):
    return f"""
 @!%p0 bra ISSUED;
 ld.param.u64 %d20, [ADESC]; ld.param.u64 %d21, [BDESC]; ld.param.u32 %r20, [IDESC];
 ld.param.u32 %r21, [ACCUMULATE]; setp.ne.u32 %p5, %r21, 0;
 tcgen05.mma{modifiers}.cta_group::1.kind::{kind} [{d}], {a}, %d21, %r20, {tail}%p5;
{COMMIT}"""


class Case:
    """One instruction: its operands in an image of shared memory, and what must come out."""

    def __init__(
        self,
        kind,
        a,
        b,
        d="f32",
        m=128,
        n=64,
        *,
        a_major="K",
        b_major="K",
        a_swizzle="128B",
        b_swizzle="128B",
        accumulate=True,
        ws=False,
        a_in_tmem=False,
        seed=0,
        spread=4.0,
        a_pattern=0,
        b_pattern=0,
        shift=0,
        **fields,
    ):
        self.rng = rng = np.random.default_rng([seed, m, n, *map(ord, kind + a + b)])
        self.kind, self.m, self.n, self.d, self.ws = kind, m, n, d, ws
        self.accumulate = accumulate
        self.a_in_tmem = a_in_tmem
        depth = DEPTH[kind]
        self.image = rng.integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
        self.a_codes, self.a = model.random_operand(rng, a, (m, depth), spread)
        self.b_codes, self.b = model.random_operand(rng, b, (n + shift, depth), spread)
        self.a_type, self.b_type = a, b
        adesc = self.place(self.a_codes, a, A_AT, a_swizzle, a_major, a_pattern)
        bdesc = self.place(self.b_codes, b, B_AT, b_swizzle, b_major, b_pattern)
        self.idesc = model.instruction_descriptor(m, n, a, b, d, a_major, b_major, **fields)
        self.args = [adesc, bdesc, self.idesc, int(accumulate)]
        self.cells = random_cells(rng)
        self.set_accumulator(spread)

    def place(self, codes, kind, at, swizzle, major, pattern=0):
        """Puts an operand where its swizzle starts: ``pattern`` 128-byte lines after ``at``."""
        eb = model.element_bytes(kind)
        lbo, sbo, size = model.offsets_of(swizzle, major, eb, *codes.shape)
        assert 128 * pattern + size <= 32 * 1024
        if kind in model.MINI:
            self.image[at : at + size] = 0
        # The model swizzles addresses from the pattern's start; the image starts at a multiple of
        # 1024.
        shifted = self.image[128 * pattern :]
        model.place_operand(shifted, at, codes, kind, swizzle, major, lbo, sbo)
        start = IMAGE_START + at + 128 * pattern
        return model.descriptor(start, lbo, sbo, swizzle, start >> 7 & 7)

    def cell(self, row, column):
        return model.accumulator_cell(self.m, self.n, self.ws, row, column)

    def set_accumulator(self, spread):
        rng = self.rng
        c = rng.standard_normal((self.m, self.n)) * np.exp2(rng.uniform(-spread, min(spread, 12)))
        c[rng.random(c.shape) < 0.1] = 0
        if self.d == "s32":
            c = rng.integers(-(2**31), 2**31, c.shape)
        self.c = c.astype({"f32": np.float32, "f16": np.float16, "s32": np.int32}[self.d])
        self.store(self.cells, self.c)

    def store(self, cells, matrix):
        words = matrix.view(np.uint16 if self.d == "f16" else np.uint32)
        for i in range(self.m):
            for j in range(self.n):
                cells[self.cell(i, j)] = words[i, j]

    def expected(self, scale=0, saturate=False, a=None, b=None):
        a, b = self.a if a is None else a, self.b if b is None else b
        c = self.c if self.accumulate else np.zeros_like(self.c)
        return model.reference(a, b, c, self.a_type, self.b_type, self.d, scale, saturate)

    def check(self, expected, body=None, **options):
        """Runs and compares all of tensor memory, also what must not change."""
        text = build(
            body or issue(self.kind, modifiers=".ws" if self.ws else ""),
            shared_bytes=IMAGE_BYTES,
            params=PARAMS,
        )
        out, report = run(text, self.cells, self.image, self.args, **options)
        after = self.cells.copy()
        self.store(after, expected)
        differing = np.argwhere(out != after)
        assert len(differing) == 0, (len(differing), differing[:4])
        return report


KINDS = [
    ("f16", "f16", "f16", "f32"),
    ("f16", "f16", "f16", "f16"),
    ("f16", "bf16", "bf16", "f32"),
    ("tf32", "tf32", "tf32", "f32"),
    ("f8f6f4", "e4m3", "e4m3", "f32"),
    ("f8f6f4", "e5m2", "e4m3", "f16"),
    ("f8f6f4", "e2m3", "e3m2", "f32"),
    ("f8f6f4", "e2m1", "e5m2", "f32"),
    ("f8f6f4", "e3m2", "e2m1", "f32"),
    ("i8", "s8", "s8", "s32"),
    ("i8", "u8", "s8", "s32"),
]


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(("kind", "a", "b", "d"), KINDS)
def test_kinds(kind, a, b, d, accumulate):
    case = Case(kind, a, b, d, n=48, accumulate=accumulate)
    case.check(case.expected())


@pytest.mark.parametrize("spread", [0.5, 12.0, 40.0])
@pytest.mark.parametrize(("kind", "a", "b", "d"), KINDS[:6])
def test_arithmetic_over_wide_exponents(kind, a, b, d, spread):
    case = Case(kind, a, b, d, m=64, n=64, spread=spread, seed=7)
    case.check(case.expected())


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("b_major", ["K", "MN"])
@pytest.mark.parametrize("a_major", ["K", "MN"])
@pytest.mark.parametrize(("kind", "a"), [("f16", "bf16"), ("f8f6f4", "e4m3"), ("i8", "s8")])
def test_majorness_and_swizzles(kind, a, a_major, b_major, swizzle):
    case = Case(
        kind,
        a,
        a,
        "s32" if kind == "i8" else "f32",
        n=64,
        a_major=a_major,
        b_major=b_major,
        a_swizzle=swizzle,
        b_swizzle=swizzle,
    )
    case.check(case.expected())


@pytest.mark.parametrize("a_swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("b_swizzle", ["none", "32B", "64B", "128B"])
def test_operands_have_their_own_swizzles(a_swizzle, b_swizzle):
    case = Case("f16", "f16", "f16", n=32, a_swizzle=a_swizzle, b_swizzle=b_swizzle)
    case.check(case.expected())


@pytest.mark.parametrize("a_major", ["K", "MN"])
@pytest.mark.parametrize("b_major", ["K", "MN"])
def test_tf32_majorness(a_major, b_major):
    swizzle = {"K": "128B", "MN": "128B_atom32B"}
    case = Case(
        "tf32",
        "tf32",
        "tf32",
        n=64,
        a_major=a_major,
        b_major=b_major,
        a_swizzle=swizzle[a_major],
        b_swizzle=swizzle[b_major],
    )
    case.check(case.expected())


@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("n", [8, 24, 72, 128, 200, 256])
def test_shapes(m, n):
    case = Case("f16", "bf16", "bf16", m=m, n=n)
    case.check(case.expected())


@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize("n", [64, 128, 256])
@pytest.mark.parametrize(("kind", "a"), [("f16", "f16"), ("tf32", "tf32"), ("i8", "u8")])
def test_weight_stationary_shapes(kind, a, m, n):
    case = Case(kind, a, a, "s32" if kind == "i8" else "f32", m=m, n=n, ws=True)
    case.check(case.expected())


def test_accumulator_of_64_rows_at_lane_16():
    case = Case("f16", "f16", "f16", m=64, n=16)
    case.cells[16:] = case.cells[:-16].copy()
    inner = case.cell
    case.cell = lambda i, j: (inner(i, j)[0] + 16, inner(i, j)[1])
    case.check(case.expected(), issue("f16", d="%r2+0x100000"))


def test_column_offset_of_the_accumulator():
    case = Case("f16", "f16", "f16", n=64)
    case.cells = random_cells(case.rng)
    inner = case.cell
    case.cell = lambda i, j: (inner(i, j)[0], inner(i, j)[1] + 77)
    case.store(case.cells, case.c)
    case.check(case.expected(), issue("f16", d="%r2+77"))


@pytest.mark.parametrize("lines", [1, 3, 6, 7])
@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
@pytest.mark.parametrize("major", ["K", "MN"])
def test_patterns_that_start_between_their_repeats(major, swizzle, lines):
    case = Case(
        "f16", "bf16", "bf16", n=64, a_major=major, b_major=major, a_swizzle=swizzle,
        b_swizzle=swizzle, a_pattern=lines, b_pattern=(lines + 2) % 8,
    )  # fmt: skip
    case.check(case.expected())


def test_a_wrong_base_offset_reads_other_elements():
    case = Case("f16", "bf16", "bf16", n=64, b_pattern=3)
    case.args[1] ^= 1 << 49
    with pytest.raises(AssertionError), pytest.warns(UserWarning, match="not in the first line"):
        case.check(case.expected())


@pytest.mark.parametrize("base", [1, 4, 7])
def test_a_base_offset_without_a_swizzle_has_no_effect(base):
    case = Case("f16", "bf16", "bf16", n=64, a_swizzle="none", b_swizzle="none")
    for index in (0, 1):
        case.args[index] |= base << 49
    case.check(case.expected())


def test_tf32_pattern_of_32_byte_atoms_with_a_base_offset():
    case = Case(
        "tf32", "tf32", "tf32", n=64, a_major="MN", b_major="MN", a_swizzle="128B_atom32B",
        b_swizzle="128B_atom32B", a_pattern=5, b_pattern=2,
    )  # fmt: skip
    case.check(case.expected())


def masked(case, bits):
    body = issue(case.kind, modifiers=".ws").replace("%r20, %p5", "%r20, %p5, %d25")
    return f" mov.b64 %d25, {bits:#x};\n" + body


@pytest.mark.parametrize(
    ("m", "starts", "first", "zeros", "used", "shift"),
    [
        (128, (0, 0, 0, 0), (0, 0, 0, 0), 3, 4, 0),
        (128, (2, 0, 0, 0), (1, 0, 0, 0), 7, 1, 0),
        (64, (0, 0, 0, 0), (1, 0, 0, 0), 3, 4, 0),
        (64, (3, 9, 0, 0), (0, 1, 0, 0), 20, 5, 8),
        (32, (0, 1, 2, 1), (1, 1, 0, 0), 3, 4, 2),
        (32, (0, 0, 0, 0), (0, 1, 0, 1), 256, 256, 16),
        (128, (0, 0, 0, 0), (0, 0, 0, 0), 1, 256, 31),
    ],
)
@pytest.mark.parametrize(
    ("kind", "type_name", "major"),
    [("f16", "f16", "K"), ("f16", "bf16", "MN"), ("i8", "s8", "K"), ("f8f6f4", "e4m3", "MN")],
)
def test_zero_columns(kind, type_name, major, m, starts, first, zeros, used, shift):
    """The masks of the PTX ISA's examples, others, and columns of B from ``shift`` on."""
    d = "s32" if kind == "i8" else "f32"
    case = Case(
        kind, type_name, type_name, d, m=m, n=128, ws=True, b_major=major, shift=shift,
        max_shift=min(s for s in (0, 8, 16, 32) if s >= shift),
    )  # fmt: skip
    zero = model.masked_columns(m, 128, starts, first, zeros, used)
    b = np.where(zero[:, None], 0.0, case.b[shift : shift + 128])
    case.check(
        case.expected(b=b), masked(case, model.column_mask(starts, first, zeros, used, shift))
    )


def test_examples_of_the_isa():
    """Masks as the PTX ISA prints them, least significant column last."""
    ones = {
        (64, 0): "111000011100001110000111",
        (64, 1): "000011100001110000",
        (32, 2): "111000011100",
        (32, 3): "1110000111000",
        (32, 0): "00001110000111",
        (32, 1): "0000111000011",
    }
    for (m, part), text in ones.items():
        starts, first = ((0, 0), (1, 0)) if m == 64 else ((0, 1, 2, 1), (1, 1, 0, 0))
        mask = model.masked_columns(m, 128, starts, first, 3, 4)
        got = mask[part * m :][: len(text)]
        assert "".join("01"[int(bit)] for bit in got[::-1]) == text, (m, part)


def test_a_mask_that_is_not_generated_leaves_b():
    case = Case("f16", "f16", "f16", m=64, n=64, ws=True)
    bits = model.column_mask((1, 2, 0, 0), (1, 0, 0, 0), 3, 4, generate=0)
    case.check(case.expected(), masked(case, bits))


@pytest.mark.parametrize(
    ("m", "max_shift", "bits", "kind", "complaint"),
    [
        (32, 32, 17 << 56, "descriptor", "shift 17 exceeds 16 with M=32"),
        (128, 32, 33 << 56, "descriptor", "shift 33 exceeds 32"),
        (64, 8, 9 << 56, "descriptor", "bits 31:30"),
        (64, 0, 1 << 37, "descriptor", "reserved bits"),
        (64, 0, 1 << 62, "descriptor", "reserved bits"),
        (64, 0, model.column_mask((4, 0), (0, 0), 3, 4), "unsupported", "skips the whole"),
    ],
)
def test_illegal_column_masks(m, max_shift, bits, kind, complaint):
    case = Case("f16", "f16", "f16", m=m, n=64, ws=True, max_shift=max_shift)
    with pytest.raises(EmulatorError, match=complaint) as caught:
        case.check(case.expected(), masked(case, bits))
    assert caught.value.kind == kind
    assert caught.value.ptx_line > 0


def packed_rows(codes):
    """Rows of A as tensor memory holds them: 32 bytes in eight words."""
    return np.ascontiguousarray(codes).view(np.uint8).reshape(len(codes), -1).view(np.uint32)


@pytest.mark.parametrize(("kind", "a", "b", "d"), [KINDS[i] for i in (0, 2, 3, 4, 9)])
@pytest.mark.parametrize(
    ("m", "ws"), [(128, False), (64, False), (128, True), (64, True), (32, True)]
)
def test_a_in_tensor_memory(kind, a, b, d, m, ws):
    case = Case(kind, a, b, d, m=m, n=64, ws=ws)
    column = 300
    words = packed_rows(case.a_codes)
    copies = 128 // m if ws else 1
    for copy in range(copies):
        for row in range(m):
            lane = 32 * (row // 16) + row % 16 if (m == 64 and not ws) else row + m * copy
            case.cells[lane, column : column + 8] = words[row]
    body = issue(kind, a=f"[%r2+{column}]", modifiers=".ws" if ws else "")
    case.check(case.expected(), body)


@pytest.mark.parametrize(("a", "shift"), [("e2m3", 0), ("e3m2", 0), ("e2m1", 2)])
def test_small_types_in_tensor_memory_fill_a_byte_each(a, shift):
    case = Case("f8f6f4", a, "e4m3", n=32)
    case.cells[:, 300:308] = packed_rows(case.a_codes << shift)
    case.check(case.expected(), issue("f8f6f4", a="[%r2+300]"))


def test_two_banks_of_a_make_two_products():
    case = Case("f16", "f16", "f16", m=64, n=64, ws=True)
    other_codes, other = model.random_operand(case.rng, "f16", (64, 16))
    case.cells[:64, 300:308] = packed_rows(case.a_codes)
    case.cells[64:, 300:308] = packed_rows(other_codes)
    expected = case.expected()
    expected[:, 32:] = case.expected(a=other)[:, 32:]
    case.check(expected, issue("f16", a="[%r2+300]", modifiers=".ws"))


def test_ashift_moves_rows_of_a_by_one():
    case = Case("f16", "f16", "f16", n=32)
    case.cells[:, 300:308] = packed_rows(case.a_codes)
    shifted = np.concatenate([case.a[1:], case.a[-1:]])
    body = issue("f16", a="[%r2+300]").replace("kind::f16", "kind::f16.ashift")
    case.check(case.expected(a=shifted), body)


@pytest.mark.parametrize(("negate_a", "negate_b"), [(1, 0), (0, 1), (1, 1)])
def test_negation(negate_a, negate_b):
    case = Case("f16", "bf16", "bf16", n=32, negate_a=negate_a, negate_b=negate_b)
    case.check(case.expected(a=-case.a if negate_a else None, b=-case.b if negate_b else None))


@pytest.mark.parametrize("scale", [0, 1, 7, 15])
def test_scale_of_the_accumulator(scale):
    case = Case("f16", "f16", "f16", n=32)
    body = issue("f16").replace("%r20, %p5", f"%r20, %p5, {scale}")
    case.check(case.expected(scale=scale), body)


def test_disabled_lanes_keep_their_cells():
    case = Case("f16", "f16", "f16", n=32)
    masks = case.rng.integers(0, 2**32, 4, dtype=np.uint32)
    moves = "".join(f" mov.u32 %r{30 + i}, {mask};" for i, mask in enumerate(masks))
    body = moves + issue("f16", tail="{%r30, %r31, %r32, %r33}, ")
    expected = case.expected()
    bits = (masks[np.arange(128) // 32] >> np.arange(128, dtype=np.uint32) % 32) & 1
    expected[bits == 1] = case.c[bits == 1]
    case.check(expected, body)


@pytest.mark.parametrize("saturate", [0, 1])
def test_integer_overflow(saturate):
    case = Case("i8", "u8", "u8", "s32", n=32, saturate=saturate)
    case.c[:] = np.where(case.rng.random(case.c.shape) < 0.5, 2**31 - 1000, 5)
    case.store(case.cells, case.c)
    case.check(case.expected(saturate=bool(saturate)))


def test_special_values_follow_ieee():
    case = Case("f16", "f16", "f16", n=32)
    case.a[3, 2], case.a[5, 1], case.b[7, 0], case.c[9, 9] = np.inf, np.nan, -np.inf, np.inf
    case.b[8, 2] = 0.0
    case.image[A_AT : A_AT + 16384] = 0
    case.image[B_AT : B_AT + 16384] = 0
    for matrix, at in ((case.a, A_AT), (case.b, B_AT)):
        codes = matrix.astype(np.float16).view(np.uint16)
        case.place(codes, "f16", at, "128B", "K")
    case.store(case.cells, case.c)
    text = build(issue("f16"), shared_bytes=IMAGE_BYTES, params=PARAMS)
    out, _ = run(text, case.cells, case.image, case.args)
    with np.errstate(invalid="ignore"):
        exact = (case.a @ case.b.T + case.c).astype(np.float32)
    got = out[:, :32].view(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    np.testing.assert_array_equal(got[np.isinf(exact)], exact[np.isinf(exact)])
    assert set(out[:, :32][np.isnan(got)]) == {0x7FFFFFFF}
    assert np.isnan(exact).any()
    assert np.isinf(exact).any()


def test_every_active_thread_issues_its_own_instruction():
    case = Case("f16", "f16", "f16", n=32, accumulate=True)
    body = " @%p0 mbarrier.inval.shared::cta.b64 [%r4+8]; bar.sync 0;"
    body += " @%p0 mbarrier.init.shared::cta.b64 [%r4+8], 3; bar.sync 0;"
    body += issue("f16").replace("@!%p0 bra ISSUED;", "setp.gt.u32 %p7, %r0, 2; @%p7 bra ISSUED;")
    with pytest.raises(EmulatorError, match="accumulates into") as caught:
        case.check(case.expected(), body)
    assert caught.value.kind == "missing-wait"
    for _ in range(3):
        expected = case.expected()
        case.c = expected
    case.check(expected, body, sanitize=False)


@pytest.mark.parametrize("schedule", ["late", "eager", 1, 2])
def test_schedules_agree(schedule):
    case = Case("f16", "bf16", "bf16", n=64)
    case.check(case.expected(), schedule=schedule)


GOOD = {"kind": "f16", "a": "f16", "b": "f16", "n": 32}


def error_for(change, **fields):
    case = Case(**{**GOOD, **fields})
    change(case)
    text = build(
        issue(case.kind, modifiers=".ws" if case.ws else ""),
        shared_bytes=IMAGE_BYTES,
        params=PARAMS,
    )
    with pytest.raises(EmulatorError) as caught:
        run(text, case.cells, case.image, case.args)
    assert caught.value.ptx_line > 0
    assert (caught.value.warp, caught.value.lane) == (0, 0)
    return caught.value


def set_arg(index, function):
    def change(case):
        case.args[index] = function(case.args[index])

    return change


@pytest.mark.parametrize(
    ("change", "kind", "complaint"),
    [
        (set_arg(0, lambda x: x & ~(7 << 61) | 3 << 61), "descriptor", "swizzle code 3"),
        (set_arg(0, lambda x: x | 1 << 14), "descriptor", "reserved bits"),
        (set_arg(1, lambda x: x | 1 << 52), "descriptor", "absolute leading offset"),
        (set_arg(1, lambda x: x & ~(7 << 61) | 1 << 61), "descriptor", "32-byte atoms"),
        (set_arg(1, lambda x: x & ~0x3FFF | 0x3FFF), "out-of-bounds", "operand B"),
        (set_arg(2, lambda x: x | 1 << 23), "descriptor", "reserved bits"),
        (set_arg(2, lambda x: x | 1 << 3), "descriptor", "saturate"),
        (set_arg(2, lambda x: x | 1 << 2), "descriptor", "is for tcgen05.mma.sp only"),
        (set_arg(2, lambda x: x & ~(3 << 4) | 2 << 4), "descriptor", "D type code 2"),
        (set_arg(2, lambda x: x & ~(7 << 7) | 3 << 7), "descriptor", "type code 3 of A"),
        (set_arg(2, lambda x: x & ~(31 << 24) | 6 << 24), "descriptor", "M is 64 or 128"),
        (set_arg(2, lambda x: x & ~(63 << 17)), "descriptor", "N=0"),
        (set_arg(2, lambda x: x | 1 << 30), "descriptor", "tcgen05.mma.ws only"),
    ],
)
def test_illegal_descriptors(change, kind, complaint):
    error = error_for(change)
    assert error.kind == kind
    assert complaint in error.reason


def test_f16_accumulator_needs_f16_operands():
    error = error_for(lambda case: None, a="bf16", b="bf16", d="f16")
    assert "D type code 0" in error.reason


def test_weight_stationary_shape_is_checked():
    assert "with .ws" in error_for(lambda case: None, ws=True).reason


def test_small_types_cannot_be_transposed():
    error = error_for(set_arg(2, lambda x: x | 1 << 15), kind="f8f6f4", a="e2m1", b="e4m3")
    assert "cannot be MN-major" in error.reason
