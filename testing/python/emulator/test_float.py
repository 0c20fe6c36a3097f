"""Float arithmetic against exact rational arithmetic, rounded once."""

from fractions import Fraction

import exact_floats as ef
import numpy as np
import pytest
from ptx_kernels import elementwise

N = 120
FORMATS = {"f16": ef.F16, "bf16": ef.BF16, "f32": ef.F32, "f64": ef.F64}
SPECIAL = ("inf", "-inf", "nan")


def codes(name, count, seed=0):
    """Random bit patterns: all exponents, close exponents, specials, subnormals."""
    f = FORMATS[name]
    rng = np.random.default_rng([seed, f.bits])
    arrays = []
    for _ in range(count):
        bits = rng.integers(0, 1 << 63, N, dtype=np.uint64) & np.uint64((1 << f.bits) - 1)
        near = np.uint64(f.bias << f.mantissa)  # half of them around 1.0
        low = np.uint64((1 << (f.mantissa + 2)) - 1)
        sign = np.uint64(1 << (f.bits - 1))
        half = slice(0, N // 2)
        bits[half] = (bits[half] & (low | sign)) + near
        specials = [0, int(sign), 1, (1 << f.mantissa) - 1, 1 << f.mantissa,
                    ((1 << f.exponent) - 1) << f.mantissa, (1 << (f.bits - 1)) - 1]  # fmt: skip
        where = rng.choice(N, len(specials), replace=False)
        bits[where] = np.array(specials, np.uint64)
        arrays.append(bits.astype(f"u{f.bits // 8}"))
    return arrays


def signed_zero(negative):
    return "-0" if negative else Fraction(0)


def is_negative(v):
    return v in ("-0", "-inf") or (not isinstance(v, str) and v < 0)


def add(a, b, mode):
    if "nan" in (a, b) or {a, b} == {"inf", "-inf"}:
        return "nan"
    for v in (a, b):
        if v in SPECIAL:
            return v
    total = ef.number(a) + ef.number(b)
    if total == 0:
        if is_negative(a) == is_negative(b):
            return signed_zero(is_negative(a))
        return signed_zero(mode == "rm")
    return total


def negate(v):
    if isinstance(v, str):
        return {"nan": "nan", "inf": "-inf", "-inf": "inf", "-0": Fraction(0)}[v]
    return "-0" if v == 0 else -v


def multiply(a, b):
    if "nan" in (a, b):
        return "nan"
    negative = is_negative(a) != is_negative(b)
    infinite = [v for v in (a, b) if v in SPECIAL]
    if infinite:
        if any(v not in SPECIAL and ef.number(v) == 0 for v in (a, b)):
            return "nan"
        return "-inf" if negative else "inf"
    product = ef.number(a) * ef.number(b)
    return product if product else signed_zero(negative)


def divide(a, b):
    if "nan" in (a, b) or (a in SPECIAL and b in SPECIAL):
        return "nan"
    negative = is_negative(a) != is_negative(b)
    if a in SPECIAL:
        return "-inf" if negative else "inf"
    if b in SPECIAL:
        return signed_zero(negative)
    if ef.number(b) == 0:
        return "nan" if ef.number(a) == 0 else ("-inf" if negative else "inf")
    quotient = ef.number(a) / ef.number(b)
    return quotient if quotient else signed_zero(negative)


def flush(f, code):
    if code >> f.mantissa & ((1 << f.exponent) - 1) == 0:
        return code & 1 << (f.bits - 1)
    return code


def saturate(f, value):
    if value == "nan" or is_negative(value):
        return Fraction(0)
    return Fraction(1) if value == "inf" or ef.number(value) > 1 else value


def expect(f, values, function, mode, ftz, sat):
    if ftz:
        values = [flush(f, v) for v in values]
    value = function(*(ef.decode(f, v) for v in values), mode)
    if sat:
        value = saturate(f, value)
    code = ef.encode(f, value, mode)
    return flush(f, code) if ftz else code


OPERATIONS = {
    "add": (2, add),
    "sub": (2, lambda a, b, mode: add(a, negate(b), mode)),
    "mul": (2, lambda a, b, mode: multiply(a, b)),
    "fma": (3, lambda a, b, c, mode: add(multiply(a, b), c, mode)),
    "div": (2, lambda a, b, mode: divide(a, b)),
}


def same(f, got, expected):
    """Bit equality; f64 NaN may have any payload."""
    if f is ef.F64 and ef.decode(f, expected) == "nan":
        return ef.decode(f, got) == "nan"
    return got == expected


def run(opcode, name, operation, mode="rn", ftz=False, sat=False):
    f = FORMATS[name]
    count, function = OPERATIONS[operation]
    inputs = codes(name, count, len(opcode))
    operands = ", ".join(f"%in{i}" for i in range(count))
    result = elementwise(f"{opcode} %out, {operands};", inputs, inputs[0].dtype)
    for row in range(N):
        values = [int(x[row]) for x in inputs]
        expected = expect(f, values, function, mode, ftz, sat)
        got = int(result[row])
        assert same(f, got, expected), (opcode, [hex(v) for v in values], hex(got), hex(expected))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_rounding_modes(name, operation, mode):
    run(f"{operation}.{mode}.{name}", name, operation, mode)


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "fma", "div"])
def test_f32_flush_and_saturate(operation):
    run(f"{operation}.rn.ftz.f32", "f32", operation, ftz=True)
    if operation != "div":
        run(f"{operation}.rn.sat.f32", "f32", operation, sat=True)
        run(f"{operation}.rz.ftz.sat.f32", "f32", operation, "rz", ftz=True, sat=True)


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_half_precision(name, operation):
    run(f"{operation}.rn.{name}", name, operation)


@pytest.mark.parametrize("operation", ["add", "mul", "fma"])
@pytest.mark.parametrize(
    ("packed", "name"), [("f16x2", "f16"), ("bf16x2", "bf16"), ("f32x2", "f32")]
)
def test_packed(packed, name, operation):
    f = FORMATS[name]
    count, function = OPERATIONS[operation]
    halves = [codes(name, count, 1), codes(name, count, 2)]
    wide = f"u{f.bits // 4}"
    inputs = [
        lo.astype(wide) | hi.astype(wide) << np.dtype(wide).type(f.bits)
        for lo, hi in zip(*halves, strict=True)
    ]
    operands = ", ".join(f"%in{i}" for i in range(count))
    result = elementwise(f"{operation}.rn.{packed} %out, {operands};", inputs, wide)
    for part, columns in enumerate(halves):
        for row in range(N):
            expected = expect(f, [int(x[row]) for x in columns], function, "rn", False, False)
            assert int(result[row]) >> part * f.bits & ((1 << f.bits) - 1) == expected


@pytest.mark.parametrize("source", ["f16", "bf16"])
def test_mixed_precision(source):
    a, b = codes(source, 2, 3)
    c = codes("f32", 1, 4)[0]
    added = elementwise(f"add.rn.f32.{source} %out, %in0, %in1;", [a, c], "u4")
    fused = elementwise(f"fma.rn.f32.{source} %out, %in0, %in1, %in2;", [a, b, c], "u4")
    for row in range(N):
        x, y = (ef.decode(FORMATS[source], int(v[row])) for v in (a, b))
        z = ef.decode(ef.F32, int(c[row]))
        assert int(added[row]) == ef.encode(ef.F32, add(x, z, "rn"))
        assert int(fused[row]) == ef.encode(ef.F32, add(multiply(x, y), z, "rn"))


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("operation", ["min", "max"])
@pytest.mark.parametrize("nan", ["", ".NaN"])
def test_minimum_and_maximum(name, operation, nan):
    if name == "f64" and nan:
        pytest.skip("no .NaN for f64")
    f = FORMATS[name]
    a, b = codes(name, 2, 9)
    result = elementwise(f"{operation}{nan}.{name} %out, %in0, %in1;", [a, b], a.dtype)

    def order(v):  # -0 sorts before +0
        if isinstance(v, str):
            return {"-inf": (-(10**400), 0), "inf": (10**400, 0), "-0": (Fraction(0), -1)}[v]
        return (v, 0)

    for row in range(N):
        x, y = ef.decode(f, int(a[row])), ef.decode(f, int(b[row]))
        if "nan" in (x, y):
            value = "nan" if nan or x == y else (y if x == "nan" else x)
        else:
            value = (min if operation == "min" else max)((x, y), key=order)
        assert same(f, int(result[row]), ef.encode(f, value)), (x, y)


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_reciprocal(name, mode):
    if name == "f64" and mode != "rn":
        pytest.skip("only .rn for f64")
    f = FORMATS[name]
    a = codes(name, 1, 11)[0]
    result = elementwise(f"rcp.{mode}.{name} %out, %in0;", [a], a.dtype)
    for row in range(N):
        value = divide(Fraction(1), ef.decode(f, int(a[row])))
        assert same(f, int(result[row]), ef.encode(f, value, mode))


@pytest.mark.parametrize(
    ("opcode", "function", "tolerance"),
    [
        ("ex2.approx.ftz.f32", np.exp2, 2**-22),
        ("lg2.approx.ftz.f32", np.log2, 2**-22),
        ("sin.approx.f32", np.sin, 2**-20.5),
        ("cos.approx.f32", np.cos, 2**-20.5),
        ("tanh.approx.f32", np.tanh, 2**-11),
        ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x), 2**-22.9),
        ("sqrt.approx.f32", np.sqrt, 2**-23),
        ("rcp.approx.ftz.f32", lambda x: 1 / x, 2**-23),
    ],
)
def test_approximations(opcode, function, tolerance):
    x = np.random.default_rng(0).uniform(0.01, 6, N).astype(np.float32)
    result = elementwise(f"{opcode} %out, %in0;", [x], "f4")
    exact = function(x.astype(np.float64))
    assert np.all(np.abs(result - exact) <= tolerance * np.maximum(np.abs(exact), 1))


def test_special_values_of_approximations():
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, -1, 1e-40], np.float32)
    ex2 = elementwise("ex2.approx.ftz.f32 %out, %in0;", [x], "f4")
    np.testing.assert_array_equal(ex2, np.array([1, 1, np.inf, 0, np.nan, 0.5, 1], np.float32))
    lg2 = elementwise("lg2.approx.ftz.f32 %out, %in0;", [x], "f4")
    minus = -np.inf
    np.testing.assert_array_equal(lg2, [minus, minus, np.inf, np.nan, np.nan, np.nan, minus])


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_unordered_comparisons(name):
    f = FORMATS[name]
    a, b = codes(name, 2, 21)
    b[::5] = a[::5]

    def compare(x, y):
        if "nan" in (x, y):
            return None
        values = [10**400 if v == "inf" else -(10**400) if v == "-inf" else ef.number(v)
                  for v in (x, y)]  # fmt: skip
        return (values[0] > values[1]) - (values[0] < values[1])

    rules = {"eq": {0}, "ne": {-1, 1}, "lt": {-1}, "le": {-1, 0}, "gt": {1}, "ge": {0, 1}}
    rules |= {
        "equ": {0, None}, "neu": {-1, 1, None}, "ltu": {-1, None}, "leu": {-1, 0, None},
        "gtu": {1, None}, "geu": {0, 1, None}, "num": {-1, 0, 1}, "nan": {None},
    }  # fmt: skip
    outcomes = [
        compare(ef.decode(f, int(x)), ef.decode(f, int(y))) for x, y in zip(a, b, strict=True)
    ]
    for rule, accepted in rules.items():
        body = f"setp.{rule}.{name} %p0, %in0, %in1; selp.b32 %out, 1, 0, %p0;"
        result = elementwise(body, [a, b], "u4")
        assert result.tolist() == [int(o in accepted) for o in outcomes], rule


@pytest.mark.parametrize(("name", "bits"), [("f16", 16), ("bf16", 16), ("f32", 32), ("f64", 64)])
def test_sign_operations(name, bits):
    a, b = codes(name, 2, 31)
    sign = a.dtype.type(1 << (bits - 1))
    infinity = a.dtype.type(
        {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0xFF << 23}.get(name, 0x7FF << 52)
    )
    is_nan = a & ~sign > infinity
    assert is_nan.any() and not is_nan.all()
    # PTX leaves open which NaN comes out: these are the ones of an H200.
    nan = a | a.dtype.type(1 << 51) if name == "f64" else ~sign
    for operation, number in [("neg", a ^ sign), ("abs", a & ~sign)]:
        result = elementwise(f"{operation}.{name} %out, %in0;", [a], a.dtype)
        np.testing.assert_array_equal(result, np.where(is_nan, nan, number))
    if name in ("f32", "f64"):
        result = elementwise(f"copysign.{name} %out, %in0, %in1;", [a, b], a.dtype)
        np.testing.assert_array_equal(result, (a & sign) | (b & ~sign))
