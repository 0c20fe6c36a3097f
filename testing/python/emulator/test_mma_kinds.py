"""mma.sync with .kind::, with and without scale factors, against NumPy and ptxas."""

import itertools

import numpy as np
import pytest
from ptx_kernels import accepted_by_ptxas

from emulator import scaled_model
from emulator import tensor_core_model as model
from tilelang.emulator import Device, EmulatorError

NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
LANE = np.arange(32)
#: Kind, vector, factors of a row, their type.
SCALED = [
    ("mxf8f6f4", "", 1, "ue8m0"),
    ("mxf8f6f4", ".scale_vec::1X", 1, "ue8m0"),
    ("mxf4", "", 2, "ue8m0"),
    ("mxf4", ".scale_vec::2X", 2, "ue8m0"),
    ("mxf4nvf4", ".scale_vec::2X", 2, "ue8m0"),
    ("mxf4nvf4", ".scale_vec::4X", 4, "ue8m0"),
    ("mxf4nvf4", ".scale_vec::4X", 4, "ue4m3"),
]


def opcode(kind, vector, depth, d, a, b, scale=""):
    scaled = f".block_scale{vector}" if scale else ""
    scale = f".{scale}" if scale else ""
    return f"mma.sync.aligned.kind::{kind}{scaled}.m16n8k{depth}.row.col.{d}.{a}.{b}.{d}{scale}"


def fragment(codes, bits, rows_per_lane):
    """Registers [32, n] of A [16, k] (two rows a lane) or B [8, k] (one)."""
    per = 32 // bits
    words = []
    for half in range(codes.shape[1] // (4 * per)):
        for row in range(rows_per_lane):
            word = np.zeros(32, np.uint32)
            for e in range(per):
                k = half * 4 * per + LANE % 4 * per + e
                word |= codes[LANE // 4 + 8 * row, k].astype(np.uint32) << np.uint32(bits * e)
            words.append(word)
    return np.stack(words, 1)


def accumulator(c):
    """[32, 4] of C [16, 8]."""
    r = np.arange(4)
    return c[LANE[:, None] // 4 + 8 * (r // 2), 2 * (LANE[:, None] % 4) + r % 2]


def factors(codes, byte, thread, of_a, rng):
    """Words [32] with the factors [rows, count]; what does not count is random."""
    words = rng.integers(0, 1 << 32, 32, dtype=np.uint64)
    for row, line in enumerate(codes):
        lane = 4 * (row % 8) + 2 * thread + row // 8 if of_a else 4 * row + thread
        for j, code in enumerate(line):
            shift = np.uint64(8 * (byte + j))
            words[lane] = words[lane] & ~(np.uint64(0xFF) << shift) | np.uint64(code) << shift
    return words.astype(np.uint32)


def loads(name, count, argument):
    names = ", ".join(f"%{name}{i}" for i in range(count))
    vector = f"v{count}." if count > 1 else ""
    names = f"{{{names}}}" if count > 1 else names
    return (
        f" ld.param.u64 %d1, [{argument}]; mad.wide.u32 %d1, %r0, {4 * count}, %d1;"
        f" ld.global.{vector}b32 {names}, [%d1];"
    )


def kernel(instruction, target, half=False):
    """Operands a, b, c, factors s0 and s1, ids as parameters; result in the registers of C."""
    cd = 2 if half else 4
    return (
        f".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 A,"
        " .param .u64 B, .param .u64 C, .param .u64 S, .param .u64 D, .param .u64 IDS) {\n"
        " .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b32 %a<9>; .reg .b32 %b<9>; .reg .b32 %c<9>;"
        " .reg .b32 %s<9>; .reg .f32 %f<9>; .reg .b16 %h<9>;\n mov.u32 %r0, %tid.x;\n"
        + loads("a", 4, "A") + loads("b", 2, "B") + loads("c", cd, "C") + loads("s", 2, "S")
        + " ld.param.u64 %d2, [IDS]; ld.global.v4.u16 {%h0,%h1,%h2,%h3}, [%d2];\n"
        + "".join(f" mov.b32 %f{i}, %c{i};" for i in range(0 if half else 4))
        + f"\n{instruction}\n"
        + "".join(f" mov.b32 %c{i}, %f{i};" for i in range(0 if half else 4))
        + f" ld.param.u64 %d1, [D]; mad.wide.u32 %d1, %r0, {4 * cd}, %d1;"
        + f" st.global.v{cd}.b32 [%d1], {{{', '.join(f'%c{i}' for i in range(cd))}}};\n ret;\n}}\n"
    )  # fmt: skip


OPERANDS = "{%f0,%f1,%f2,%f3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%f0,%f1,%f2,%f3}"
HALVES = "{%c0,%c1}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%c0,%c1}"


def launch(text, target, a, b, c, factor_words, ids):
    out = np.full_like(c, 0x5A5A5A5A)
    arrays = [a, b, c, factor_words, out, np.array(ids, np.uint16)]
    Device(target).load_ptx(text)["k"].launch(1, 32, [np.ascontiguousarray(x) for x in arrays[:4]]
                                              + [out, arrays[5]])  # fmt: skip
    return out


def containers(kind, codes):
    return codes.astype(np.uint32) << (2 if kind == "e2m1" else 0)


def scaled_case(kind, vector, count, scale, a_kind, b_kind, ids, seed=0, exact=False,
                target="sm_120a", constant=False, change=None):  # fmt: skip
    rng = np.random.default_rng([seed, count, *map(ord, a_kind + b_kind), *ids])
    fp4 = kind != "mxf8f6f4"
    depth = 64 if fp4 else 32
    a_codes, a = model.random_operand(rng, a_kind, (16, depth))
    b_codes, b = model.random_operand(rng, b_kind, (8, depth))
    sa, sb = (scaled_model.random_scales(rng, scale, (n, count), 1 if exact else 12)
              for n in (16, 8))  # fmt: skip
    c = (rng.standard_normal((16, 8)) * np.exp2(rng.uniform(-8, 8))).astype(np.float32)
    c = rng.integers(-64, 64, (16, 8)).astype(np.float32) if exact else c
    if change:
        change(sa, sb, c)
    bits = 4 if fp4 else 8
    if not fp4:
        a_codes, b_codes = containers(a_kind, a_codes), containers(b_kind, b_codes)
    words = np.stack([factors(sa, ids[0], ids[1], True, rng),
                      factors(sb, ids[2], ids[3], False, rng)], 1)  # fmt: skip
    names = [*map(str, ids)] if constant else ["%h0", "%h1", "%h2", "%h3"]
    name = opcode(kind, vector, depth, "f32", a_kind, b_kind, scale)
    instruction = (f"{name} {OPERANDS}, %s0, {{{names[0]},{names[1]}}}, %s1,"
                   f" {{{names[2]},{names[3]}}};")  # fmt: skip
    found = launch(kernel(instruction, target), target, fragment(a_codes, bits, 2),
                   fragment(b_codes, bits, 1), accumulator(c).view(np.uint32), words,
                   ids)  # fmt: skip
    if exact:
        block = depth // count
        sums = (a * np.repeat(scaled_model.scale_values(scale, sa), block, 1)) @ (
            b * np.repeat(scaled_model.scale_values(scale, sb), block, 1)
        ).T + c
        expected = sums.astype(np.float32)
    else:
        expected = scaled_model.reference(a, b, c, sa, sb, a_kind, b_kind, scale, fp4)
    np.testing.assert_array_equal(found, accumulator(expected).view(np.uint32))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("kind", "vector", "count", "scale"), SCALED)
def test_scaled(kind, vector, count, scale, exact):
    """Sums of small powers of two do not depend on the model of the arithmetic."""
    exact = exact and scale != "ue4m3"
    for target, constant in (("sm_120a", True), ("sm_121a", False)):
        scaled_case(kind, vector, count, scale, "e2m1", "e2m1", (0, 0, 0, 0), exact=exact,
                    target=target, constant=constant)  # fmt: skip


@pytest.mark.parametrize(("a", "b"), list(itertools.product(NARROW, NARROW)))
def test_types(a, b):
    scaled_case("mxf8f6f4", "", 1, "ue8m0", a, b, (1, 0, 2, 3))


@pytest.mark.parametrize(("kind", "vector", "count", "scale"), SCALED[1::2])
def test_ids(kind, vector, count, scale):
    bytes_ = range(0, 4, count)
    for ids in itertools.product(bytes_, range(2), bytes_, range(4)):
        scaled_case(kind, vector, count, scale, "e2m1", "e2m1", ids)


@pytest.mark.parametrize(("kind", "vector", "count", "scale"), SCALED[1:])
def test_extreme_factors(kind, vector, count, scale):
    def change(sa, sb, c):
        sa[:9] = np.array([0, 1, 254, 255, 126, 127, 128, 8, 7], np.uint8)[:, None]
        sb[:5] = np.array([0, 1, 254, 255, 127], np.uint8)[:, None]

    scaled_case(kind, vector, count, scale, "e2m1", "e2m1", (0, 1, 0, 2), change=change)


@pytest.mark.parametrize("d", ["f32", "f16"])
@pytest.mark.parametrize(("a", "b"), list(itertools.product(NARROW, NARROW)))
def test_without_factors(a, b, d):
    rng = np.random.default_rng(list(map(ord, a + b + d)))
    a_codes, a_exact = model.random_operand(rng, a, (16, 32))
    b_codes, b_exact = model.random_operand(rng, b, (8, 32))
    c = (rng.standard_normal((16, 8)) * 2).astype(np.float16 if d == "f16" else np.float32)
    words = accumulator(c)
    words = np.ascontiguousarray(words).view(np.uint32)
    name = opcode("f8f6f4", "", 32, d, a, b)
    text = kernel(f"{name} {HALVES if d == 'f16' else OPERANDS};", "sm_120a", d == "f16")
    found = launch(text, "sm_120a", fragment(containers(a, a_codes), 8, 2),
                   fragment(containers(b, b_codes), 8, 1), words, np.zeros((32, 2), np.uint32),
                   (0,) * 4)  # fmt: skip
    expected = model.reference(a_exact, b_exact, c, a, b, d)
    expected = np.ascontiguousarray(accumulator(expected)).view(np.uint32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
def test_before_sm_120_a_kind_is_a_name_of_the_plain_form(target):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 0x60, (32, n)).astype(np.uint32) * 0x01010101 for n in (4, 2))
    c = rng.standard_normal((32, 4)).astype(np.float32).view(np.uint32)
    name = opcode("f8f6f4", "", 32, "f32", "e4m3", "e5m2")
    results = [
        launch(kernel(f"{each} {OPERANDS};", target), target, a, b, c,
               np.zeros((32, 2), np.uint32), (0,) * 4)
        for each in (name, name.replace(".kind::f8f6f4", ""))
    ]  # fmt: skip
    np.testing.assert_array_equal(*results)


# --- refusals -----------------------------------------------------------------------------------

HEAD = (
    ".version 9.0\n.target {}\n.address_size 64\n.visible .entry k() {{\n .reg .b32 %a<9>;"
    " .reg .b32 %b<9>; .reg .b32 %c<9>; .reg .b32 %s<9>; .reg .f32 %f<9>; .reg .b16 %h<9>;\n"
)


def forms():
    for kind, vector, d, a, b, scale in itertools.product(
        ("mxf8f6f4", "mxf4", "mxf4nvf4"),
        ("", ".scale_vec::1X", ".scale_vec::2X", ".scale_vec::4X", ".block32"),
        ("f32",), ("e2m1", "e4m3"), ("e2m1",), ("ue8m0", "ue4m3"),
    ):  # fmt: skip
        for depth in (32, 64):
            name = opcode(kind, vector, depth, d, a, b, scale)
            yield f"{name} {OPERANDS}, %s0, {{0, 0}}, %s1, {{0, 0}};"
    name = opcode("mxf8f6f4", "", 32, "f32", "e4m3", "e4m3", "ue8m0")
    for ids in ("{3, 1}, %s1, {3, 3}", "{4, 0}, %s1, {0, 0}", "{0, 2}, %s1, {0, 0}",
                "{0, 0}, %s1, {0, 4}", "{%h0, 1}, %s1, {0, %h1}", "{%s2, 1}, %s1, {0, %h1}",
                "{0, 0}, 7, {0, 0}", "{0}, %s1, {0, 0}", "{0, 0}, %s1"):  # fmt: skip
        yield f"{name} {OPERANDS}, %s0, {ids};"
    for kind, vector, count in (("mxf4", "", 2), ("mxf4nvf4", ".scale_vec::4X", 4)):
        name = opcode(kind, vector, 64, "f32", "e2m1", "e2m1", "ue8m0" if count == 2 else "ue4m3")
        for byte in range(4):
            yield f"{name} {OPERANDS}, %s0, {{{byte}, 1}}, %s1, {{0, 3}};"
    yield f"{name.replace('.block_scale', '')} {OPERANDS}, %s0, {{0, 1}}, %s1, {{0, 3}};"
    for d, depth, a in itertools.product(("f32", "f16"), (16, 32), ("e4m3", "e2m1", "f16", "s8")):
        name = opcode("f8f6f4", "", depth, d, a, a)
        yield f"{name} {HALVES if d == 'f16' else OPERANDS};"
        yield f"{name.replace('.kind::f8f6f4', '')} {HALVES if d == 'f16' else OPERANDS};"
    yield f"{opcode('mxf4', '', 64, 'f32', 'e2m1', 'e2m1')} {OPERANDS};"


#: ptxas 13.0 does not have it, 13.1 and later do.
LATER = "mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0"


def decodes(line, target):
    try:
        return not Device(target).load_ptx(f"{HEAD.format(target)}{line}\nret;\n}}\n").unsupported
    except EmulatorError:
        return False


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a", "sm_121a"])
def test_forms_are_those_of_ptxas(target, tmp_path):
    lines = [line for line in forms() if LATER not in line]
    accepted = accepted_by_ptxas(HEAD.format(target), lines, target, tmp_path)
    for line, fine in zip(lines, accepted, strict=True):
        assert decodes(line, target) == fine, line


WRONG_IDS = [
    ((1, 0, 0, 0), "byte-id-a"),
    ((0, 2, 0, 0), "thread-id-a"),
    ((0, 0, 3, 0), "byte-id-b"),
    ((0, 0, 0, 4), "thread-id-b"),
]


@pytest.mark.parametrize(("ids", "complaint"), WRONG_IDS)
def test_ids_in_registers_that_do_not_exist(ids, complaint):
    with pytest.raises(EmulatorError, match=complaint):
        name = opcode("mxf4", "", 64, "f32", "e2m1", "e2m1", "ue8m0")
        text = kernel(f"{name} {OPERANDS}, %s0, {{%h0,%h1}}, %s1, {{%h2,%h3}};", "sm_120a")
        zeros = [np.zeros((32, n), np.uint32) for n in (4, 2, 4, 2)]
        launch(text, "sm_120a", *zeros, ids)
