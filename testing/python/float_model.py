"""Float arithmetic by exact rational arithmetic, rounded once, and random inputs for it."""

from fractions import Fraction

import exact_floats as ef
import numpy as np
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
