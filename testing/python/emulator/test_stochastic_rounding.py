"""cvt.rs against a model in fractions: the carry of the discarded part and a random number."""

from fractions import Fraction

import numpy as np
import pytest
from ptx_kernels import elementwise

from tilelang.emulator import EmulatorError

N = 777
# exponent bits, mantissa bits, bias, code of the largest number, code of infinity or None
FORMATS = {
    "bf16x2": (8, 7, 127, 0x7F7F, 0x7F80),
    "f16x2": (5, 10, 15, 0x7BFF, 0x7C00),
    "e4m3x4": (4, 3, 7, 0x7E, None),
    "e5m2x4": (5, 2, 15, 0x7B, 0x7C),
    "e2m3x4": (2, 3, 1, 0x1F, None),
    "e3m2x4": (3, 2, 3, 0x1F, None),
    "e2m1x4": (2, 1, 1, 0x7, None),
}
# For each source: positions in the random word, the most significant bit first.
POSITIONS = {
    "bf16x2": [range(31, 15, -1), range(15, -1, -1)],
    "f16x2": [range(28, 15, -1), range(12, -1, -1)],
    "e4m3x4": [range(16, 32), range(31, 15, -1), range(16), range(15, -1, -1)],
    "e2m1x4": [
        [*range(8, 16), *range(24, 32)], [*range(31, 23, -1), *range(15, 7, -1)],
        [*range(8), *range(16, 24)], [*range(23, 15, -1), *range(7, -1, -1)],
    ],
}  # fmt: skip
for same in ("e5m2x4", "e2m3x4", "e3m2x4"):
    POSITIONS[same] = POSITIONS["e4m3x4"]


def magnitude(code, mantissa, bias):
    exponent, fraction = code >> mantissa, code & ((1 << mantissa) - 1)
    if exponent:
        fraction += 1 << mantissa
    return Fraction(fraction) * Fraction(2) ** (max(exponent, 1) - bias - mantissa)


def rounded(value, name, random, relu, satfinite):
    """Returns the code of ``value``, an f32; ``random`` is a fraction below 1."""
    exponent_bits, mantissa, bias, largest, infinity = FORMATS[name]
    width = exponent_bits + mantissa
    if np.isnan(value):
        return (1 << width) - 1
    sign = 0 if relu and value <= 0 else int(np.signbit(value)) << width
    if np.isinf(value):
        if sign == 0 and value < 0:
            return 0
        return sign | (largest if satfinite else infinity)
    target = Fraction(0) if relu and value <= 0 else abs(Fraction(float(value)))
    low, high = 0, largest + 1  # magnitude(low) <= target < magnitude(high)
    top = magnitude(largest, mantissa, bias)
    place = top - magnitude(largest - 1, mantissa, bias)
    if target >= top + place:
        return sign | (largest if satfinite else infinity)
    while high - low > 1:
        middle = (low + high) // 2
        if magnitude(middle, mantissa, bias) <= target:
            low = middle
        else:
            high = middle
    floor = magnitude(low, mantissa, bias)
    above = magnitude(low + 1, mantissa, bias) if low < largest else top + place
    code = low + ((target - floor) / (above - floor) + random >= 1)
    if code > largest:
        code = largest if satfinite else infinity
    return sign | code


def values(name, rng):
    """Values whose magnitudes lie around the format's range, subnormal and too large ones too."""
    exponent_bits, mantissa, bias, _, _ = FORMATS[name]
    exponents = rng.uniform(-bias - mantissa - 2, (1 << exponent_bits) - bias + 1, N)
    x = (rng.choice([-1, 1], N) * 2.0 ** np.clip(exponents, -140, 127)).astype(np.float32)
    x[::4] = np.float32(1) + rng.integers(0, 1 << 16, len(x[::4])).astype(np.float32) * 2.0**-23
    x[:9] = [0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, -1e-45]
    return rng.permutation(x)


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("satfinite", ["", ".satfinite"])
@pytest.mark.parametrize("name", FORMATS)
def test_stochastic_rounding(name, satfinite, relu):
    count = len(POSITIONS[name])
    if count == 4 and not satfinite:
        with pytest.raises(EmulatorError, match=r"needs \.satfinite"):
            elementwise(f"cvt.rs.{name}.f32 %out, {{%in0,%in0,%in0,%in0}}, %in0;",
                        [np.zeros(3, np.uint32)], "u2" if name == "e2m1x4" else "u4")  # fmt: skip
        return
    rng = np.random.default_rng(len(name) + len(relu))
    sources = [values(name, rng) for _ in range(count)]
    words = rng.integers(0, 1 << 32, N, np.uint32)
    words[:40] = rng.choice([0, 0xFFFFFFFF, 1, 1 << 31], 40)
    operands = ", ".join(f"%in{i}" for i in range(count))
    operands = f"{{{operands}}}" if count == 4 else operands
    found = elementwise(
        f"cvt.rs{relu}{satfinite}.{name}.f32 %out, {operands}, %in{count};",
        [*(x.view(np.uint32) for x in sources), words],
        "u2" if name == "e2m1x4" else "u4",
    )
    bits = {2: 16, 4: 8}[count] if name != "e2m1x4" else 4
    for row in range(N):
        expected = 0
        for x, positions in zip(sources, POSITIONS[name], strict=True):
            number = 0
            for position in positions:
                number = number << 1 | int(words[row]) >> position & 1
            random = Fraction(number, 1 << len(positions))
            code = rounded(x[row], name, random, bool(relu), bool(satfinite))
            expected = expected << bits | code
        assert int(found[row]) == expected, [x[row] for x in sources]
