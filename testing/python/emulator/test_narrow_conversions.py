"""cvt to and from floats of eight, six and four bits and powers of two, against tables of their
codes (OCP Microscaling Formats; OCP 8-bit floating point)."""

import itertools

import numpy as np
import pytest
import torch
from ptx_kernels import elementwise

# exponent bits, mantissa bits, bias, code of the largest number, code of infinity or None, NaN
FORMATS = {
    "e4m3": (4, 3, 7, 0x7E, None, 0x7F),
    "e5m2": (5, 2, 15, 0x7B, 0x7C, 0x7F),
    "e2m3": (2, 3, 1, 0x1F, None, None),
    "e3m2": (3, 2, 3, 0x1F, None, None),
    "e2m1": (2, 1, 1, 0x7, None, None),
}
N = 4096


def width(name):
    return 1 + sum(FORMATS[name][:2])


def value(name, code):
    exponent_bits, mantissa_bits, bias, largest, infinity, _ = FORMATS[name]
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) & 1 else 1.0
    code &= (1 << exponent_bits + mantissa_bits) - 1
    if code > largest:
        return sign * np.inf if code == infinity else np.nan
    exponent, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


def table(name):
    return np.array([value(name, code) for code in range(1 << width(name))])


def rounded(name, values, relu):
    """Codes of float64 values, to nearest even, largest numbers instead of infinities."""
    _, _, _, largest, _, nan = FORMATS[name]
    magnitudes = table(name)[: largest + 1]
    x = np.abs(values)
    above = np.clip(np.searchsorted(magnitudes, np.nan_to_num(x, posinf=1e30)), 1, largest)
    low, high = magnitudes[above - 1], magnitudes[above]
    up = (x - low > high - x) | ((x - low == high - x) & (above % 2 == 0))
    code = np.where(x >= magnitudes[-1], largest, above - 1 + up)
    code = np.where(np.isnan(values), largest if nan is None else nan, code)
    sign = np.signbit(values) & ~np.isnan(values)
    if relu:
        code, sign = np.where(values <= 0, 0, code), sign & False
    return code | sign.astype(np.int64) << width(name) - 1


def inputs(name, rng):
    """Around the range of the format: halves between numbers, zeros, infinities, NaN, too large."""
    numbers = table(name)
    numbers = numbers[np.isfinite(numbers)]
    x = rng.choice(numbers, N) * rng.choice([1, 1, 0.5, 1.5, 1.0625, 0.96875], N)
    x[: len(numbers) - 1] = (numbers[1:] + numbers[:-1]) / 2
    x[-8:] = [0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45]
    return rng.permutation(x).astype(np.float32)


def as_source(kind, x):
    """Registers that hold pairs of ``x`` [2, N] (low, high) in the type, and the exact values."""
    if kind == "f32":
        return [x[1].view(np.uint32), x[0].view(np.uint32)], x.astype(np.float64)
    typed = torch.from_numpy(x).to({"f16x2": torch.float16, "bf16x2": torch.bfloat16}[kind])
    bits = typed.view(torch.int16).numpy().view(np.uint16).astype(np.uint32)
    return [bits[0] | bits[1] << 16], typed.double().numpy()


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize(("name", "source"),
                         list(itertools.product(FORMATS, ("f32", "f16x2", "bf16x2"))))  # fmt: skip
def test_to_narrow(name, source, relu):
    rng = np.random.default_rng(width(name))
    x = np.stack([inputs(name, rng), inputs(name, rng)])
    registers, exact = as_source(source, x)
    operands = ", ".join(f"%in{i}" for i in range(len(registers)))
    body = f"cvt.rn.satfinite{relu}.{name}x2.{source} %out, {operands};"
    if name == "e2m1":
        body = f"{{ .reg .b8 n; {body.replace('%out', 'n')} cvt.u16.u8 %out, n; }}"
    found = elementwise(body, registers, "u2")
    shift = 4 if name == "e2m1" else 8
    low, high = rounded(name, exact, bool(relu))
    np.testing.assert_array_equal(found, low | high << shift)


def from_narrow(name, form, relu="", scales=None):
    """Runs over all pairs of codes; returns the words, and the exact values [2, count]."""
    shift = 4 if name == "e2m1" else 8
    count = 1 << width(name)
    low, high = (x.ravel() for x in np.meshgrid(np.arange(count), np.arange(0, count, 3)))
    pairs = (low | high << shift).astype(np.uint16)
    arrays = [pairs]
    operand = "%in0"
    if scales is not None:
        arrays.append(np.resize(scales, len(pairs)).astype(np.uint16))
    body = f"cvt.rn{form[0]}{relu}{form[1]}.{form[2]}.{name}x2 %out, {operand}"
    body += ", %in1;" if scales is not None else ";"
    if name == "e2m1":
        body = f"{{ .reg .b8 n; cvt.u8.u16 n, %in0; {body.replace('%in0', 'n')} }}"
    found = elementwise(body, arrays, "u4")
    values = np.stack([table(name)[low], table(name)[high]])
    if scales is not None:
        codes = np.stack([arrays[1] & 255, arrays[1] >> 8]).astype(np.int64)
        values = np.where(codes == 255, np.nan, values * np.exp2(codes - 127.0))
    return found, values


def words_of(kind, values):
    dtype = {"f16x2": torch.float16, "bf16x2": torch.bfloat16}[kind]
    typed = torch.from_numpy(values).to(torch.float32).to(dtype)
    bits = typed.view(torch.int16).numpy().view(np.uint16).astype(np.uint32)
    bits = np.where(np.isnan(values), 0x7FFF, bits)
    return bits[0] | bits[1] << 16


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
@pytest.mark.parametrize("name", FORMATS)
def test_from_narrow(name, kind, relu):
    found, values = from_narrow(name, ("", "", kind), relu)
    if relu:
        values = np.where(values <= 0, 0.0, values)
    np.testing.assert_array_equal(found, words_of(kind, values))


@pytest.mark.parametrize("saturate", ["", ".satfinite"])
@pytest.mark.parametrize("name", FORMATS)
def test_from_narrow_times_scale_factors(name, saturate):
    """Each element has its own; results that are too large become infinite or the largest."""
    scales = np.random.default_rng(0).integers(0, 1 << 16, 997)
    found, values = from_narrow(name, (saturate, ".scaled::n2::ue8m0", "bf16x2"), scales=scales)
    if saturate:
        top = float(torch.finfo(torch.bfloat16).max)
        values = np.clip(values, -top, top)
    np.testing.assert_array_equal(found, words_of("bf16x2", values))


@pytest.mark.parametrize("saturate", ["", ".satfinite"])
@pytest.mark.parametrize("rounding", ["rz", "rp"])
@pytest.mark.parametrize("source", ["f32", "bf16x2"])
def test_to_powers_of_two(source, rounding, saturate):
    """The sign is dropped; what is below 2^-127 is 2^-127, NaN is 255."""
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((2, N)) * np.exp2(rng.uniform(-140, 127, (2, N)))).astype(np.float32)
    x[:, :6] = [0, np.nan, 1, 2.0**-127, 1.5, 2.0**127]
    x[0, 6:8] = [3e38, -1e-40]
    registers, exact = as_source(source, x)
    operands = ", ".join(f"%in{i}" for i in range(len(registers)))
    found = elementwise(f"cvt.{rounding}{saturate}.ue8m0x2.{source} %out, {operands};",
                        registers, "u2")  # fmt: skip
    mantissa, exponent = np.frexp(np.abs(exact))
    floor = exponent - 1 + 127  # |x| = 2 mantissa * 2^(exponent - 1)
    code = floor + (rounding == "rp") * (mantissa > 0.5)
    code = np.where(exact == 0, 0, np.clip(code, 0, 255))
    code = np.where(np.isnan(exact), 255, code)
    if saturate:
        code = np.where(~np.isnan(exact) & (code == 255), 254, code)
    np.testing.assert_array_equal(found, code[0] | code[1] << 8)


def test_from_powers_of_two():
    codes = np.arange(1 << 16, dtype=np.uint16)
    found = elementwise("cvt.rn.bf16x2.ue8m0x2 %out, %in0;", [codes], "u4")
    values = np.stack([codes & 255, codes >> 8]).astype(np.float64)
    values = np.where(values == 255, np.nan, np.exp2(values - 127))
    np.testing.assert_array_equal(found, words_of("bf16x2", values))


# --- s2f6: a signed byte in units of 1/64


def s2f6_inputs(rng):
    """Around all codes: halves between them, what is out of range, infinities, NaN, zeros."""
    x = rng.integers(-140, 140, N) / 64.0
    x = x + rng.choice([0, 1 / 128, -1 / 128, 1e-3, 1e-7], N)
    x[-8:] = [0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45]
    return rng.permutation(x).astype(np.float32)


def factors(codes):
    return np.where(codes == 255, np.nan, np.exp2(codes - 127.0))


def as_s2f6(values, relu):
    if relu:
        values = np.where(values <= 0, 0.0, values)  # NaN stays
    with np.errstate(invalid="ignore"):
        codes = np.clip(np.rint(values * 64.0), -128, 127)
    return np.where(np.isnan(values), 127, codes).astype(np.int64) & 255


@pytest.mark.parametrize("scaled", ["", ".scaled::n2::ue8m0"])
@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("source", ["f32", "bf16x2"])
def test_to_s2f6(source, relu, scaled):
    """Each value is divided by its scale factor; NaN becomes the largest number."""
    rng = np.random.default_rng(len(source) + len(relu))
    x = np.stack([s2f6_inputs(rng), s2f6_inputs(rng)])
    scales = rng.integers(120, 134, (2, N))
    scales[:, :5] = [[0, 255, 254, 1, 127]] * 2
    if scaled:
        near = np.clip(x.astype(np.float64) * factors(np.clip(scales, 100, 150)), -3e38, 3e38)
        x = near.astype(np.float32)
    inputs, values = as_source(source, x)
    operands = ", ".join(f"%in{i}" for i in range(len(inputs)))
    if scaled:
        operands += f", %in{len(inputs)}"
        inputs.append((scales[0] | scales[1] << 8).astype(np.uint16))
        values = values / factors(scales)
    found = elementwise(
        f"cvt.rn.satfinite{relu}{scaled}.s2f6x2.{source} %out, {operands};", inputs, "u2"
    )
    low, high = as_s2f6(values, relu)
    np.testing.assert_array_equal(found, low | high << 8)


@pytest.mark.parametrize("scaled", ["", ".scaled::n2::ue8m0"])
@pytest.mark.parametrize("saturate", ["", ".satfinite"])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_from_s2f6(relu, saturate, scaled):
    pairs = np.arange(1 << 16, dtype=np.uint16)
    codes = np.stack([pairs & 255, pairs >> 8]).astype(np.uint8)
    values = codes.view(np.int8) / 64.0
    inputs = [pairs]
    if scaled:
        inputs.append(np.random.default_rng(3).integers(0, 1 << 16, 1 << 16).astype(np.uint16))
        inputs[1][-3:] = 0x8585  # a byte as it is
        values = values * factors(np.stack([inputs[1] & 255, inputs[1] >> 8]).astype(np.int64))
    operands = ", ".join(f"%in{i}" for i in range(len(inputs)))
    found = elementwise(
        f"cvt.rn{saturate}{relu}{scaled}.bf16x2.s2f6x2 %out, {operands};", inputs, "u4"
    )
    if relu:
        values = np.where(values <= 0, 0.0, values)
    if saturate:
        top = float(torch.finfo(torch.bfloat16).max)
        values = np.clip(values, -top, top)
    np.testing.assert_array_equal(found, words_of("bf16x2", values))
