"""The rarer forms of f16 and bf16: .ftz, fma.oob, mixed precision with rounding, and set."""

from fractions import Fraction

import exact_floats as ef
import numpy as np
import pytest
from float_model import (
    FORMATS,
    OPERATIONS,
    N,
    add,
    codes,
    expect,
    is_negative,
    multiply,
    run,
    saturate,
)  # fmt: skip
from ptx_kernels import elementwise


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "fma"])
def test_flush_and_saturate(operation):
    run(f"{operation}.rn.ftz.f16", "f16", operation, ftz=True)
    run(f"{operation}.rn.ftz.sat.f16", "f16", operation, ftz=True, sat=True)
    run(f"{operation}.rn.sat.f16", "f16", operation, sat=True)


def packed(name, count, seed):
    """Words of two random elements, and the elements by half."""
    halves = [codes(name, count, seed), codes(name, count, seed + 1)]
    words = [lo.astype("u4") | hi.astype("u4") << 16 for lo, hi in zip(*halves, strict=True)]
    return words, halves


@pytest.mark.parametrize("operation", ["add", "mul", "fma"])
def test_packed_flush(operation):
    count, function = OPERATIONS[operation]
    words, halves = packed("f16", count, 5)
    operands = ", ".join(f"%in{i}" for i in range(count))
    result = elementwise(f"{operation}.rn.ftz.f16x2 %out, {operands};", words, "u4")
    for part, columns in enumerate(halves):
        for row in range(N):
            values = [int(x[row]) for x in columns]
            expected = expect(ef.F16, values, function, "rn", True, False)
            assert int(result[row]) >> 16 * part & 0xFFFF == expected


def flushed(code):
    return np.where(code & 0x7C00, code, code & 0x8000).astype("u2")


def test_flush_of_signs_minimum_and_maximum():
    a, b = codes("f16", 2, 41)
    a[:40] &= 0x83FF  # many subnormals
    for operation in ("neg", "abs"):
        plain = elementwise(f"{operation}.f16 %out, %in0;", [flushed(a)], "u2")
        got = elementwise(f"{operation}.ftz.f16 %out, %in0;", [a], "u2")
        np.testing.assert_array_equal(got, plain)
        wide = a | b.astype("u4") << 16
        got = elementwise(f"{operation}.ftz.f16x2 %out, %in0;", [wide], "u4")
        high = elementwise(f"{operation}.f16 %out, %in0;", [flushed(b)], "u2")
        np.testing.assert_array_equal(got, plain | high.astype("u4") << 16)
    for operation in ("min", "max", "min.NaN", "max.NaN"):
        opcode, *nan = operation.split(".")
        nan = ".NaN" if nan else ""
        plain = elementwise(f"{operation}.f16 %out, %in0, %in1;", [flushed(a), flushed(b)], "u2")
        got = elementwise(f"{opcode}.ftz{nan}.f16 %out, %in0, %in1;", [a, b], "u2")
        np.testing.assert_array_equal(got, plain)


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_fma_out_of_bounds(name, relu):
    """A factor that is the NaN of out-of-bounds fills, with either sign, gives +0 (H200)."""
    a, b, c = codes(name, 3, 51)
    a[::7], b[3::7], c[5::7] = 0x7FF7, 0xFFF7, 0x7FF7
    outside = (a & 0x7FFF == 0x7FF7) | (b & 0x7FFF == 0x7FF7)
    plain = elementwise(f"fma.rn{relu}.{name} %out, %in0, %in1, %in2;", [a, b, c], "u2")
    got = elementwise(f"fma.rn.oob{relu}.{name} %out, %in0, %in1, %in2;", [a, b, c], "u2")
    np.testing.assert_array_equal(got, np.where(outside, 0, plain))
    words = [x | x[::-1].astype("u4") << 16 for x in (a, b, c)]
    both = elementwise(f"fma.rn.oob{relu}.{name}x2 %out, %in0, %in1, %in2;", words, "u4")
    np.testing.assert_array_equal(both, got | got[::-1].astype("u4") << 16)


@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("sat", ["", ".sat"])
def test_mixed_precision_rounding(source, mode, sat):
    a, b = codes(source, 2, 3)
    c = codes("f32", 1, 4)[0]
    one = {"f16": 0x3C00, "bf16": 0x3F80}[source]
    a[:3], b[:3], c[:3] = one, one, [0xBF800000, 0x33000000, 0xB3000000]  # 1 - 1, 1 +- 2^-25
    operands = {"add": "%in0, %in2", "sub": "%in0, %in2", "fma": "%in0, %in1, %in2"}
    for operation, text in operands.items():
        opcode = f"{operation}.{mode}{sat}.f32.{source}"
        result = elementwise(f"{opcode} %out, {text};", [a, b, c], "u4")
        for row in range(N):
            x, y = (ef.decode(FORMATS[source], int(v[row])) for v in (a, b))
            z = ef.decode(ef.F32, int(c[row]))
            if operation == "fma":
                value = add(multiply(x, y), z, mode)
            else:
                value = OPERATIONS[operation][1](x, z, mode)
            if sat:
                value = saturate(ef.F32, value)
            assert int(result[row]) == ef.encode(ef.F32, value, mode), (opcode, row)


def test_cancellation_of_fma_rounded_down():
    """1 * 1 - 1 is -0 only in the mode .rm."""
    one, minus = np.full(3, 0x3F800000, "u4"), np.full(3, 0xBF800000, "u4")
    for mode, zero in [("rn", 0), ("rz", 0), ("rm", 0x80000000), ("rp", 0)]:
        result = elementwise(f"fma.{mode}.f32 %out, %in0, %in0, %in1;", [one, minus], "u4")
        assert result.tolist() == [zero] * 3


RULES = {
    "eq": {0}, "ne": {-1, 1}, "lt": {-1}, "le": {-1, 0}, "gt": {1}, "ge": {0, 1},
    "equ": {0, None}, "neu": {-1, 1, None}, "ltu": {-1, None}, "leu": {-1, 0, None},
    "gtu": {1, None}, "geu": {0, 1, None}, "num": {-1, 0, 1}, "nan": {None},
}  # fmt: skip
ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "u16": 0xFFFF, "s16": 0xFFFF}


def order(f, a, b):
    """-1, 0, 1, or None where one is NaN."""
    x, y = (ef.decode(f, int(v)) for v in (a, b))
    if "nan" in (x, y):
        return None
    infinite = Fraction(10**400)
    x, y = (
        (-infinite if is_negative(v) else infinite) if v in ("inf", "-inf") else ef.number(v)
        for v in (x, y)
    )
    return (x > y) - (x < y)


def compared(name, rule, a, b):
    return np.array([order(FORMATS[name], *pair) in RULES[rule] for pair in zip(a, b, strict=True)])


def comparable(name, seed):
    a, b = codes(name, 2, seed)
    b[::4] = a[::4]
    return a, b


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("target", "source"),
    [("u16", "f16"), ("s16", "bf16"), ("f16", "f16"), ("bf16", "bf16"), ("u32", "bf16"),
     ("f16", "f32"), ("bf16", "f64"), ("f32", "f32"), ("s32", "f16")],
)  # fmt: skip
def test_set(target, source, rule):
    a, b = comparable(source, 61)
    bits = int(target.lstrip("usbf"))
    holds = compared(source, rule, a, b)
    result = elementwise(f"set.{rule}.{target}.{source} %out, %in0, %in1;", [a, b], f"u{bits // 8}")
    np.testing.assert_array_equal(result, np.where(holds, ONE.get(target, 0xFFFFFFFF), 0))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("source", ["f16", "bf16"])
def test_set_of_halves(source, rule):
    low, high = comparable(source, 71), comparable(source, 72)
    words = [x | y.astype("u4") << 16 for x, y in zip(low, high, strict=True)]
    holds = [compared(source, rule, *low), compared(source, rule, *high)]
    for target, yes in [("u32", 0xFFFF), ("s32", 0xFFFF), (f"{source}x2", ONE[source])]:
        opcode = f"set.{rule}.{target}.{source}x2"
        result = elementwise(f"{opcode} %out, %in0, %in1;", words, "u4")
        expected = np.where(holds[0], yes, 0) | np.where(holds[1], yes << 16, 0)
        np.testing.assert_array_equal(result, expected, err_msg=opcode)


@pytest.mark.parametrize("combine", ["and", "or", "xor"])
def test_set_combined_with_a_predicate(combine):
    a, b = comparable("f16", 81)
    flag = np.arange(N, dtype="u4") % 3 // 2
    operation = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[combine]
    body = "setp.ne.u32 %p0, %in2, 0; "
    for text, predicate in [("%p0", flag == 1), ("!%p0", flag != 1)]:
        opcode = f"set.lt.{combine}.u16.f16"
        result = elementwise(f"{body}{opcode} %out, %in0, %in1, {text};", [a, b, flag], "u2")
        holds = operation(compared("f16", "lt", a, b), predicate)
        np.testing.assert_array_equal(result, np.where(holds, 0xFFFF, 0))
        word = [x | x.astype("u4") << 16 for x in (a, b)]
        opcode = f"set.lt.{combine}.f16x2.f16x2"
        result = elementwise(f"{body}{opcode} %out, %in0, %in1, {text};", [*word, flag], "u4")
        np.testing.assert_array_equal(result, np.where(holds, 0x3C003C00, 0))


def test_comparisons_flush():
    a, b = comparable("f16", 91)
    a[:50] &= 0x83FF
    b[:25] &= 0x83FF
    for rule in ("eq", "lt", "geu"):
        holds = compared("f16", rule, flushed(a), flushed(b))
        assert (holds != compared("f16", rule, a, b)).any()
        result = elementwise(f"set.{rule}.ftz.u16.f16 %out, %in0, %in1;", [a, b], "u2")
        np.testing.assert_array_equal(result, np.where(holds, 0xFFFF, 0))
        body = f"setp.{rule}.ftz.f16 %p0, %in0, %in1; selp.b32 %out, 7, 0, %p0;"
        np.testing.assert_array_equal(elementwise(body, [a, b], "u4"), np.where(holds, 7, 0))
        words = [x | x.astype("u4") << 16 for x in (a, b)]
        body = f"setp.{rule}.ftz.f16x2 %p0|%p1, %in0, %in1; selp.b32 %out, 7, 0, %p1;"
        np.testing.assert_array_equal(elementwise(body, words, "u4"), np.where(holds, 7, 0))
