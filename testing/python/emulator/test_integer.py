"""Integer, logic and bit-field instructions against Python's integers."""

import numpy as np
import pytest
from ptx_kernels import elementwise

from tilelang.emulator import EmulatorError

N = 333


def operands(bits, count, seed=0):
    """Random unsigned values of all magnitudes, with the extreme ones first."""
    rng = np.random.default_rng([seed, bits])
    values = []
    for _ in range(count):
        v = rng.integers(0, 1 << 64, N, dtype=np.uint64) >> rng.integers(0, 64, N).astype(np.uint64)
        v = np.where(rng.random(N) < 0.5, v, ~v)
        extremes = [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
        v[:5] = rng.permutation(np.array(extremes, np.uint64))
        values.append((v & np.uint64((1 << bits) - 1)).astype(f"u{bits // 8}"))
    return values


def signed(value, bits):
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if value >> (bits - 1) else value


def check(opcode, bits, kinds, reference, out_bits=None, seed=0, prepare=None):
    """``kinds``: 's' or 'u' for each operand; ``reference`` maps Python ints to an int."""
    out_bits = out_bits or bits[0]
    inputs = [operands(b, 1, seed + i)[0] for i, b in enumerate(bits)]
    if prepare:
        prepare(inputs)
    names = ", ".join(f"%in{i}" for i in range(len(inputs)))
    result = elementwise(f"{opcode} %out, {names};", inputs, f"u{out_bits // 8}")
    for row in range(N):
        values = [
            signed(x[row], b) if k == "s" else int(x[row])
            for x, b, k in zip(inputs, bits, kinds, strict=True)
        ]
        expected = reference(*values) & ((1 << out_bits) - 1)
        assert int(result[row]) == expected, (opcode, values, hex(int(result[row])), hex(expected))


def clamp(value, low, high):
    return min(max(value, low), high)


def nonzero(inputs):
    inputs[1][inputs[1] == 0] = 3


TYPES = [("s", 16), ("u", 16), ("s", 32), ("u", 32), ("s", 64), ("u", 64)]


@pytest.mark.parametrize(("kind", "bits"), TYPES)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", lambda a, b: a + b),
        ("sub", lambda a, b: a - b),
        ("mul.lo", lambda a, b: a * b),
        ("min", min),
        ("max", max),
    ],
)
def test_arithmetic(name, function, kind, bits):
    check(f"{name}.{kind}{bits}", [bits, bits], kind * 2, function)


@pytest.mark.parametrize(("kind", "bits"), TYPES)
def test_products(kind, bits):
    check(f"mul.hi.{kind}{bits}", [bits, bits], kind * 2, lambda a, b: (a * b) >> bits)
    check(f"mad.lo.{kind}{bits}", [bits] * 3, kind * 3, lambda a, b, c: a * b + c)
    check(f"mad.hi.{kind}{bits}", [bits] * 3, kind * 3, lambda a, b, c: ((a * b) >> bits) + c)
    check(f"sad.{kind}{bits}", [bits] * 3, kind * 3, lambda a, b, c: abs(a - b) + c)
    if bits < 64:
        wide = 2 * bits
        check(f"mul.wide.{kind}{bits}", [bits, bits], kind * 2, lambda a, b: a * b, wide)
        check(
            f"mad.wide.{kind}{bits}",
            [bits, bits, wide],
            kind * 3,
            lambda a, b, c: a * b + c,
            wide,
        )


@pytest.mark.parametrize(("kind", "bits"), TYPES)
def test_division(kind, bits):
    def quotient(a, b):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    check(f"div.{kind}{bits}", [bits, bits], kind * 2, quotient, prepare=nonzero)
    check(
        f"rem.{kind}{bits}",
        [bits, bits],
        kind * 2,
        lambda a, b: a - b * quotient(a, b),
        prepare=nonzero,
    )


@pytest.mark.parametrize("kind", "su")
def test_24_bit_products(kind):
    def low(value):
        return signed(value, 24) if kind == "s" else value & 0xFFFFFF

    check(f"mul24.lo.{kind}32", [32, 32], kind * 2, lambda a, b: low(a) * low(b))
    check(f"mul24.hi.{kind}32", [32, 32], kind * 2, lambda a, b: (low(a) * low(b)) >> 16)
    check(f"mad24.lo.{kind}32", [32] * 3, kind * 3, lambda a, b, c: low(a) * low(b) + c)


def test_saturating_and_unary():
    low, high = -(1 << 31), (1 << 31) - 1
    check("add.sat.s32", [32, 32], "ss", lambda a, b: clamp(a + b, low, high))
    check("sub.sat.s32", [32, 32], "ss", lambda a, b: clamp(a - b, low, high))
    check("min.relu.s32", [32, 32], "ss", lambda a, b: max(min(a, b), 0))
    check("max.relu.s32", [32, 32], "ss", lambda a, b: max(a, b, 0))
    for bits in (16, 32, 64):
        check(f"neg.s{bits}", [bits], "s", lambda a: -a)
        check(f"abs.s{bits}", [bits], "s", abs)
        check(f"not.b{bits}", [bits], "u", lambda a: ~a)
        check(f"cnot.b{bits}", [bits], "u", lambda a: int(a == 0))


def halves(function, kind):
    def apply(a, b):
        pairs = [((a >> s) & 0xFFFF, (b >> s) & 0xFFFF) for s in (0, 16)]
        if kind == "s":
            pairs = [(signed(x, 16), signed(y, 16)) for x, y in pairs]
        low, high = (function(x, y) & 0xFFFF for x, y in pairs)
        return low | high << 16

    return apply


@pytest.mark.parametrize("kind", "su")
def test_packed_16_bit(kind):
    for name, function in [("add", lambda a, b: a + b), ("min", min), ("max", max)]:
        check(f"{name}.{kind}16x2", [32, 32], "uu", halves(function, kind))


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic(bits):
    for name, function in [
        ("and", lambda a, b: a & b),
        ("or", lambda a, b: a | b),
        ("xor", lambda a, b: a ^ b),
    ]:
        check(f"{name}.b{bits}", [bits, bits], "uu", function)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts(bits):
    def prepare(inputs):
        inputs[1] %= 2 * bits  # amounts beyond the width too
        inputs[1][:2] = [0xFFFFFFFF, 0x80000000]

    check(f"shl.b{bits}", [bits, 32], "uu", lambda a, n: a << n if n < bits else 0, prepare=prepare)
    check(f"shr.u{bits}", [bits, 32], "uu", lambda a, n: a >> n, prepare=prepare)
    check(f"shr.b{bits}", [bits, 32], "uu", lambda a, n: a >> n, prepare=prepare)
    check(f"shr.s{bits}", [bits, 32], "su", lambda a, n: a >> n, prepare=prepare)


@pytest.mark.parametrize("direction", "lr")
@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shift(direction, mode):
    def reference(a, b, c):
        n = c & 31 if mode == "wrap" else min(c, 32)
        both = b << 32 | a
        return both << n >> 32 if direction == "l" else both >> n

    def prepare(inputs):
        inputs[2] %= 70

    check(f"shf.{direction}.{mode}.b32", [32] * 3, "uuu", reference, prepare=prepare)


@pytest.mark.parametrize("bits", [32, 64])
def test_counting(bits):
    check(f"popc.b{bits}", [bits], "u", lambda a: bin(a).count("1"), 32)
    check(f"clz.b{bits}", [bits], "u", lambda a: bits - a.bit_length(), 32)
    check(f"brev.b{bits}", [bits], "u", lambda a: int(f"{a:0{bits}b}"[::-1], 2))
    check(f"bfind.u{bits}", [bits], "u", lambda a: a.bit_length() - 1, 32)
    check(f"bfind.s{bits}", [bits], "s", lambda a: (~a if a < 0 else a).bit_length() - 1, 32)
    check(f"bfind.shiftamt.u{bits}", [bits], "u", lambda a: bits - a.bit_length() if a else -1, 32)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("kind", "su")
def test_extract_field(kind, bits):
    def reference(a, b, c):
        position, length = b & 0xFF, c & 0xFF
        top = bits - 1
        if length == 0:
            return 0
        sign = (a >> min(position + length - 1, top)) & 1 if kind == "s" else 0
        result = 0
        for i in range(bits):
            inside = i < length and position + i <= top
            result |= ((a >> (position + i)) & 1 if inside else sign) << i
        return result

    def prepare(inputs):
        inputs[1] %= 80
        inputs[2] %= 80

    check(f"bfe.{kind}{bits}", [bits, 32, 32], "uuu", reference, prepare=prepare)


@pytest.mark.parametrize("bits", [32, 64])
def test_insert_field(bits):
    def reference(a, b, c, d):
        position, length = c & 0xFF, d & 0xFF
        for i in range(length):
            if position + i >= bits:
                break
            b = b & ~(1 << (position + i)) | ((a >> i) & 1) << (position + i)
        return b

    def prepare(inputs):
        inputs[2] %= 80
        inputs[3] %= 80

    check(f"bfi.b{bits}", [bits, bits, 32, 32], "uuuu", reference, prepare=prepare)


@pytest.mark.parametrize("table", [0x00, 0x96, 0xE8, 0xCA, 0x1B, 0xFF])
def test_lop3(table):
    def reference(a, b, c):
        result = 0
        for i in range(32):
            index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)
            result |= (table >> index & 1) << i
        return result

    inputs = [operands(32, 1, i)[0] for i in range(3)]
    result = elementwise(f"lop3.b32 %out, %in0, %in1, %in2, {table};", inputs, "u4")
    expected = [reference(*(int(x[i]) for x in inputs)) for i in range(N)]
    assert result.tolist() == expected


@pytest.mark.parametrize("table", [0x00, 0x80, 0x96, 0xFE])
@pytest.mark.parametrize("combine", ["or", "and"])
@pytest.mark.parametrize("negated", ["", "!"])
def test_lop3_with_a_predicate(table, combine, negated):
    inputs = [operands(32, 1, i)[0] for i in range(3)]
    inputs[0][::3] = inputs[1][::3] = inputs[2][::3] = 0
    body = (
        "setp.lt.u32 %p1, %in1, 0x40000000;"
        f"lop3.{combine}.b32 %i3|%p2, %in0, %in1, %in2, {table}, {negated}%p1;"
        f"lop3.{combine}.b32 _|%p3, %in0, %in1, %in2, {table}, {negated}%p1;"
        "selp.b32 %out, 1, 0, %p2; @%p3 add.u32 %out, %out, 2; and.b32 %i3, %i3, -4;"
        "add.u32 %out, %out, %i3;"
    )
    result = elementwise(body, inputs, "u4")
    for a, b, c, found in zip(*(map(int, x) for x in inputs), map(int, result), strict=True):
        d = sum(
            (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i
            for i in range(32)
        )
        q = (b < 0x40000000) != bool(negated)
        p = (d != 0 or q) if combine == "or" else (d != 0 and q)
        assert found == ((d & ~3) + 3 * p) & 0xFFFFFFFF


@pytest.mark.parametrize(
    "instruction",
    [
        "lop3.or.b32 %i3, %in0, %in0, %in0, 1, %p1;",
        "lop3.or.b32 %i3|%p2, %in0, %in0, %in0, 1;",
        "lop3.or.b32 %i3|%p2, %in0, %in0, %in0, 256, %p1;",
        "lop3.or.b32 %i3|%i2, %in0, %in0, %in0, 1, %p1;",
    ],
)
def test_wrong_lop3(instruction):
    with pytest.raises(EmulatorError, match=r"lop3|predicate") as caught:
        elementwise(instruction, [operands(32, 1)[0]], "u4")
    assert caught.value.kind == "illegal-operand"


PERMUTE_MODES = {
    "f4e": lambda c: [c, c + 1, c + 2, c + 3],
    "b4e": lambda c: [c, c - 1, c - 2, c - 3],
    "rc8": lambda c: [c] * 4,
    "ecl": lambda c: [max(c, i) for i in range(4)],
    "ecr": lambda c: [min(c, i) for i in range(4)],
    "rc16": lambda c: [2 * (c & 1), 2 * (c & 1) + 1] * 2,
}


@pytest.mark.parametrize("mode", ["", *PERMUTE_MODES])
def test_permute(mode):
    def reference(a, b, c):
        source = (a | b << 32).to_bytes(8, "little")
        if mode:
            return int.from_bytes([source[i % 8] for i in PERMUTE_MODES[mode](c & 3)], "little")
        result = []
        for i in range(4):
            selector = c >> (4 * i) & 0xF
            byte = source[selector & 7]
            result.append((0xFF if byte & 0x80 else 0) if selector & 8 else byte)
        return int.from_bytes(result, "little")

    opcode = f"prmt.b32.{mode}" if mode else "prmt.b32"
    check(opcode, [32] * 3, "uuu", reference)


@pytest.mark.parametrize("a_kind", "su")
@pytest.mark.parametrize("b_kind", "su")
def test_dot_products(a_kind, b_kind):
    def element(value, kind, bits):
        return signed(value, bits) if kind == "s" else value & ((1 << bits) - 1)

    def dot4(a, b, c):
        return c + sum(
            element(a >> 8 * i, a_kind, 8) * element(b >> 8 * i, b_kind, 8) for i in range(4)
        )

    def dot2(shift):
        return lambda a, b, c: (
            c
            + sum(
                element(a >> 16 * i, a_kind, 16) * element(b >> (8 * i + shift), b_kind, 8)
                for i in range(2)
            )
        )

    types = f"{a_kind}32.{b_kind}32"
    check(f"dp4a.{types}", [32] * 3, "uuu", dot4)
    check(f"dp2a.lo.{types}", [32] * 3, "uuu", dot2(0))
    check(f"dp2a.hi.{types}", [32] * 3, "uuu", dot2(16))


def test_carry_chain():
    a, b = operands(64, 2)
    low = "cvt.u32.u64 %x0, %in0; cvt.u32.u64 %y0, %in1;"
    high = (
        "shr.u64 %a1, %in0, 32; cvt.u32.u64 %x1, %a1; shr.u64 %a1, %in1, 32; cvt.u32.u64 %y1, %a1;"
    )
    regs = ".reg .b32 %x<3>; .reg .b32 %y<3>;"
    pack = "mov.b64 %out, {%x0, %x1};"
    add = f"{low}{high} add.cc.u32 %x0, %x0, %y0; addc.u32 %x1, %x1, %y1; {pack}"
    sub = f"{low}{high} sub.cc.u32 %x0, %x0, %y0; subc.u32 %x1, %x1, %y1; {pack}"
    np.testing.assert_array_equal(elementwise(add, [a, b], "u8", regs), a + b)
    np.testing.assert_array_equal(elementwise(sub, [a, b], "u8", regs), a - b)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("second", ["addc", "subc"])
@pytest.mark.parametrize("first", ["add", "sub"])
def test_carry_between_additions_and_subtractions(first, second, bits):
    """x - y is x + ~y + 1: the carry flag after a subtraction says that nothing was borrowed."""
    a, b, c, d = operands(bits, 4)
    a[::5] = b[::5]
    mask = (1 << bits) - 1
    expected = []
    for w, x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), d.tolist(), strict=True):
        carry = w + (x if first == "add" else (~x & mask) + 1) >> bits
        expected.append(y + (z if second == "addc" else ~z & mask) + carry & mask)
    body = f"{first}.cc.u{bits} %x0, %in0, %in1; {second}.u{bits} %out, %in2, %in3;"
    result = elementwise(body, [a, b, c, d], a.dtype, f".reg .b{bits} %x<1>;")
    np.testing.assert_array_equal(result, np.array(expected, a.dtype))


def test_mad_carry_chain():
    """A 32 x 32 product added to 64 bits in two halves, as compilers write it."""
    a, b = operands(32, 2, 7)
    c = operands(64, 1, 9)[0]
    body = (
        "mov.b64 {%x0, %x1}, %in2; mad.lo.cc.u32 %x0, %in0, %in1, %x0;"
        "madc.hi.u32 %x1, %in0, %in1, %x1; mov.b64 %out, {%x0, %x1};"
    )
    result = elementwise(body, [a, b, c], "u8", ".reg .b32 %x<2>;")
    np.testing.assert_array_equal(result, a.astype("u8") * b + c)


@pytest.mark.parametrize(("kind", "bits"), TYPES)
def test_compare_and_select(kind, bits):
    a, b = operands(bits, 2, 3)
    b[::7] = a[::7]
    sa, sb = (x.view(f"{'i' if kind == 's' else 'u'}{bits // 8}") for x in (a, b))
    for name, function in [
        ("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal),
        ("gt", np.greater), ("ge", np.greater_equal),
    ]:  # fmt: skip
        body = f"setp.{name}.{kind}{bits} %p0, %in0, %in1; selp.b{bits} %out, %in0, %in1, %p0;"
        result = elementwise(body, [a, b], a.dtype)
        np.testing.assert_array_equal(result, np.where(function(sa, sb), a, b))


def test_compare_combines_with_a_predicate():
    a, b = operands(32, 2, 5)
    body = (
        "setp.lt.u32 %p1, %in0, 1000; setp.gt.and.u32 %p2|%p3, %in1, 5000, %p1;"
        "setp.gt.xor.u32 %p4, %in1, 70, !%p1; mov.b32 %out, 0;"
        "@%p2 or.b32 %out, %out, 1; @%p3 or.b32 %out, %out, 2; @%p4 or.b32 %out, %out, 4;"
        "@!%p1 or.b32 %out, %out, 8;"
    )
    small = a < 1000
    expected = (
        1 * ((b > 5000) & small) + 2 * (~(b > 5000) & small) + 4 * ((b > 70) ^ ~small) + 8 * ~small
    )
    np.testing.assert_array_equal(elementwise(body, [a, b], "u4"), expected)
