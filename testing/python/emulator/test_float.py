"""Float arithmetic against exact rational arithmetic, rounded once."""

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
    divide,
    expect,
    is_negative,
    multiply,
    run,
    same,
)  # fmt: skip
from ptx_kernels import elementwise


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
    f = FORMATS[name]
    a = codes(name, 1, 11)[0]
    result = elementwise(f"rcp.{mode}.{name} %out, %in0;", [a], a.dtype)
    for row in range(N):
        value = divide(Fraction(1), ef.decode(f, int(a[row])))
        assert same(f, int(result[row]), ef.encode(f, value, mode))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_f64_square_root(mode):
    a = codes("f64", 1, 12)[0]
    result = elementwise(f"sqrt.{mode}.f64 %out, %in0;", [a], "u8")
    for code, got in zip(a.tolist(), result.tolist(), strict=True):
        x, root = ef.decode(ef.F64, code), ef.decode(ef.F64, got)
        if x in ("nan", "-inf") or (x != "-0" and is_negative(x)):
            assert root == "nan"
        elif x in ("inf", "-0") or x == 0:
            assert root == x
        else:  # by where the squares of the neighbours lie
            below, above = (ef.decode(ef.F64, got + step) for step in (-1, 1))
            low, high = {
                "rn": ((below + root) / 2, (root + above) / 2),
                "rp": (below, root),
            }.get(mode, (root, above))
            assert low**2 <= x <= high**2
            assert mode == "rn" or x not in ((low**2,) if mode == "rp" else (high**2,))


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
