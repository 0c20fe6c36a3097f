"""Sums of the tensor core on adversarial operands, bit by bit, against a model in Python integers.

The model (MMA-Sim, arXiv 2511.10909): every product and the accumulator is a significand and an
exponent, not renormalised; all are cut toward zero to 25 places below the largest exponent, added
exactly, and rounded once: f32 toward zero, f16 to nearest even.
"""

import numpy as np
import pytest
from emulator.test_tcgen05_mma import A_AT, B_AT, DEPTH, IMAGE_BYTES, PARAMS, Case, issue
from emulator.tmem_kernels import build, run

# exponent bits, mantissa bits, bias, whether the largest exponent means infinity and NaN
FORMATS = {
    "f16": (5, 10, 15, True),
    "bf16": (8, 7, 127, True),
    "tf32": (8, 10, 127, True),
    "e4m3": (4, 3, 7, False),
    "e5m2": (5, 2, 15, True),
    "f32": (8, 23, 127, True),
}
KINDS = [
    ("f16", "f16", "f16", "f32"),
    ("f16", "f16", "f16", "f16"),
    ("f16", "bf16", "bf16", "f32"),
    ("f16", "f16", "bf16", "f32"),
    ("tf32", "tf32", "tf32", "f32"),
    ("f8f6f4", "e4m3", "e4m3", "f32"),
    ("f8f6f4", "e5m2", "e5m2", "f32"),
    ("f8f6f4", "e4m3", "e5m2", "f16"),
]
PLACES = 25
N = 16


def width(kind):
    return 1 + FORMATS[kind][0] + FORMATS[kind][1]


def decode(code, kind):
    """Returns (sign, significand, exponent): sign * significand * 2^(exponent - mantissa bits).

    The significand of infinity is "inf", that of NaN "nan".
    """
    exponent_bits, mantissa, bias, special = FORMATS[kind]
    sign = -1 if code >> (exponent_bits + mantissa) & 1 else 1
    exponent = code >> mantissa & ((1 << exponent_bits) - 1)
    fraction = code & ((1 << mantissa) - 1)
    if special and exponent == (1 << exponent_bits) - 1:
        return sign, "nan" if fraction else "inf", 0
    if kind == "e4m3" and code & 0x7F == 0x7F:
        return sign, "nan", 0
    if exponent == 0:
        return sign, fraction, 1 - bias
    return sign, fraction | 1 << mantissa, exponent - bias


def encode(total, unit, kind):
    """Returns the code of total * 2^unit: truncated to f32, rounded to nearest even to f16."""
    exponent_bits, mantissa, bias, _ = FORMATS[kind]
    sign = int(total < 0) << (exponent_bits + mantissa)
    size = abs(total)
    if size == 0:
        return 0
    exponent = max(size.bit_length() - 1 + unit, 1 - bias)
    drop = exponent - mantissa - unit  # places of `size` after the last one of the result
    kept = size >> drop if drop > 0 else size << -drop
    if kind == "f16" and drop > 0:
        rest, half = size & ((1 << drop) - 1), 1 << (drop - 1)
        kept += rest > half or (rest == half and kept & 1)
    code = (exponent + bias - 1 << mantissa) + kept  # the leading one adds 1 to the exponent
    if kind == "f16" and code == 0:
        return 0  # a sum that is rounded to zero has no sign
    return sign | min(code, ((1 << exponent_bits) - 1) << mantissa)


def special_sum(pairs, c, kind):
    """Returns the code when NaN or infinity takes part, else None."""
    nan = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}[kind]
    signs = {c[0]} if c[1] == "inf" else set()
    if c[1] == "nan":
        return nan
    for a, b in pairs:
        texts = [x for x in (a[1], b[1]) if isinstance(x, str)]
        if "nan" in texts or (texts and 0 in (a[1], b[1])):
            return nan
        if texts:
            signs.add(a[0] * b[0])
    if not signs:
        return None
    infinity = encode(1, 1000, kind)
    return nan if len(signs) == 2 else infinity | (signs == {-1}) << width(kind) - 1


def dot(a, b, c, a_kind, b_kind, d_kind):
    """Returns the code of c + a . b; operands are decoded."""
    found = special_sum(zip(a, b, strict=True), c, d_kind)
    if found is not None:
        return found
    places = FORMATS[a_kind][1] + FORMATS[b_kind][1]
    terms = [(x[0] * y[0], x[1] * y[1], x[2] + y[2], places) for x, y in zip(a, b, strict=True)]
    terms = [t for t in (*terms, (*c, FORMATS[d_kind][1])) if t[1] != 0]
    largest = max([-126, *(t[2] for t in terms)])
    total = 0
    for sign, significand, exponent, own_places in terms:
        shift = exponent - own_places - (largest - PLACES)
        total += sign * (significand << shift if shift >= 0 else significand >> -shift)
    return encode(total, largest - PLACES, d_kind)


# --- operands


def finite(rng, kind, shape):
    """Any code that is a number: all exponents, subnormal numbers and both zeros."""
    exponent_bits, mantissa, _, special = FORMATS[kind]
    top = (1 << exponent_bits) - (1 if special else 0)
    exponent = rng.integers(0, top, shape)
    exponent[rng.random(shape) < 0.15] = 0
    code = exponent << mantissa | rng.integers(0, 1 << mantissa, shape)
    if not special:
        code[code == (1 << exponent_bits + mantissa) - 1] -= 1
    return code | rng.integers(0, 2, shape) << exponent_bits + mantissa


def anything(rng, kind, shape):
    code = finite(rng, kind, shape)
    exponent_bits, mantissa, _, special = FORMATS[kind]
    odd = rng.random(shape) < 0.02
    ones = ((1 << exponent_bits) - 1) << mantissa
    choices = [ones, ones | 1, ones | 1 << mantissa - 1] if special else [0x7F]
    return np.where(odd, rng.choice(choices, shape) | rng.integers(0, 2, shape) << width(kind) - 1,
                    code)  # fmt: skip


def subnormal(rng, kind, shape):
    """Subnormal numbers and the least normal ones."""
    mantissa = FORMATS[kind][1]
    sign = rng.integers(0, 2, shape) << width(kind) - 1
    return rng.integers(0, 3 << mantissa, shape) | sign


def near_one(rng, kind, shape):
    """Numbers of few exponents around 1: their sums cancel and their last places get lost."""
    mantissa, bias = FORMATS[kind][1:3]
    exponent = bias + rng.choice([-3, -1, 0, 0, 0, 1], shape)
    sign = rng.integers(0, 2, shape) << width(kind) - 1
    return exponent << mantissa | rng.integers(0, 1 << mantissa, shape) | sign


def boundary(rng, kind, shape):
    """One large element in a row; products of the others end around 25 places below it."""
    mantissa, bias = FORMATS[kind][1:3]
    low = max(1, bias - 14)
    exponent = rng.integers(low, max(low + 1, bias - 8), shape)
    exponent[:, 0] = min(bias + 2, 2 * bias)
    sign = rng.integers(0, 2, shape) << width(kind) - 1
    return exponent << mantissa | rng.integers(0, 1 << mantissa, shape) | sign


def cancelling(codes, kind):
    """Every second column becomes the negative of the one before, with another last place."""
    codes = codes.copy()
    codes[:, 1::2] = codes[:, ::2] ^ 1 << width(kind) - 1
    codes[:, 1::4] ^= 1
    return codes


OPERANDS = {
    "huge spread": finite,
    "infinity and NaN": anything,
    "subnormal": subnormal,
    "near one": near_one,
    "around the last place": boundary,
}


def install(case, a, b, c):
    """Puts the codes in the case's image and tensor memory."""
    case.image[:] = 0
    for codes, kind, at in ((a, case.a_type, A_AT), (b, case.b_type, B_AT)):
        size = {"tf32": "u4"}.get(kind, "u1" if width(kind) == 8 else "u2")
        if kind == "tf32":  # the low bits of the register are ignored
            codes = codes << 13 | case.rng.integers(0, 1 << 13, codes.shape)
        case.place(codes.astype(size), kind, at, "128B", "K")
    case.c = c.astype("u4").view(np.float32) if case.d == "f32" else c.astype("u2").view(np.float16)
    case.store(case.cells, case.c)


@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize(("kind", "a_kind", "b_kind", "d_kind"), KINDS)
def test_sums(kind, a_kind, b_kind, d_kind, name, cancel):
    case = Case(kind, a_kind, b_kind, d_kind, n=N, seed=len(name) + cancel)
    make, rng = OPERANDS[name], case.rng
    a, b = make(rng, a_kind, (128, DEPTH[kind])), make(rng, b_kind, (N, DEPTH[kind]))
    if cancel:
        a, b = cancelling(a, a_kind), np.repeat(b[:, ::2], 2, axis=1)
    c = make(rng, d_kind, (128, N))
    c[::3] = 0
    install(case, a, b, c)
    text = build(issue(kind), shared_bytes=IMAGE_BYTES, params=PARAMS)
    out, _ = run(text, case.cells, case.image, case.args)
    found = out[:, :N] & (0xFFFF if d_kind == "f16" else 0xFFFFFFFF)
    rows = [[decode(int(x), a_kind) for x in row] for row in a]
    columns = [[decode(int(x), b_kind) for x in row] for row in b]
    expected = [
        [
            dot(row, column, decode(int(c[i, j]), d_kind), a_kind, b_kind, d_kind)
            for j, column in enumerate(columns)
        ]
        for i, row in enumerate(rows)
    ]
    np.testing.assert_array_equal(found, np.array(expected, np.uint32))


def test_the_model_itself():
    one = decode(0x3C00, "f16")
    minus = decode(0xBC00, "f16")
    tiny = decode(0x0001, "f16")
    zero = (1, 0, -126)
    assert dot([one], [one], zero, "f16", "f16", "f32") == 0x3F800000
    # 2^-24 lies within the 25 places below 1, and is cut by the rounding to f32 toward zero
    assert dot([one, tiny], [one, one], zero, "f16", "f16", "f32") == 0x3F800000
    assert dot([one, tiny, minus], [one, one, one], zero, "f16", "f16", "f32") == 0x33800000
    assert dot([one, tiny, minus], [one, tiny, one], zero, "f16", "f16", "f32") == 0  # 2^-48
    assert dot([one, minus], [tiny, tiny], zero, "f16", "f16", "f16") == 0
    half = decode(0x3800, "f16")
    assert dot([half], [tiny], zero, "f16", "f16", "f16") == 0  # a tie, to even


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize(("a_kind", "b_kind"), [("s8", "s8"), ("u8", "s8"), ("u8", "u8")])
def test_integer_limits(a_kind, b_kind, saturate):
    case = Case("i8", a_kind, b_kind, "s32", n=N, saturate=saturate)
    extremes = {"s8": [-128, 127, -1, 0], "u8": [0, 255, 128, 1]}
    values = []
    for codes, kind, at in ((case.a_codes, a_kind, A_AT), (case.b_codes, b_kind, B_AT)):
        chosen = case.rng.choice(extremes[kind], codes.shape)
        case.place(chosen.astype("i1" if kind == "s8" else "u1").view("u1"), kind, at, "128B", "K")
        values.append(chosen.tolist())
    limits = [2**31 - 1, -(2**31), 2**31 - 70000, 70000 - 2**31, 0]
    case.c = case.rng.choice(limits, case.c.shape).astype(np.int32)
    case.store(case.cells, case.c)
    expected = np.empty(case.c.shape, np.int32)
    over = 0
    for i, row in enumerate(values[0]):
        for j, column in enumerate(values[1]):
            total = int(case.c[i, j]) + sum(x * y for x, y in zip(row, column, strict=True))
            wrapped = (total + 2**31) % 2**32 - 2**31
            over += wrapped != total
            expected[i, j] = min(max(total, -(2**31)), 2**31 - 1) if saturate else wrapped
    assert over > 50
    case.check(expected)
