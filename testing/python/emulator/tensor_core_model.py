"""Independent models of the PTX ISA's tensor-core data layouts and arithmetic, in NumPy.

Everything here is written from the formulas of the PTX ISA (matrix descriptors, canonical layouts,
data paths) and of MMA-Sim (arXiv 2511.10909) for the arithmetic; it shares nothing with the
emulator.
"""

from __future__ import annotations

import numpy as np
import torch

#: Swizzle name -> (code in a matrix descriptor, bytes of a row, XOR of the byte address).
SWIZZLES = {
    "none": (0, 16, lambda a: a),
    "32B": (6, 32, lambda a: a ^ (((a >> 7) & 1) << 4)),
    "64B": (4, 64, lambda a: a ^ (((a >> 7) & 3) << 4)),
    "128B": (2, 128, lambda a: a ^ (((a >> 7) & 7) << 4)),
    "128B_atom32B": (1, 128, lambda a: a ^ (((a >> 7) & 3) << 5)),
}

TORCH_TYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}
TYPE_CODES = {
    "f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5,
    "u8": 0, "s8": 1,
}  # fmt: skip
BYTES = {"f16": 2, "bf16": 2, "tf32": 4}
LEAST_EXPONENT = {
    "f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14, "e2m3": 0, "e3m2": -2,
    "e2m1": 0, "f32": -126,
}  # fmt: skip
#: Small formats: exponent bits, mantissa bits, bias.
MINI = {"e2m3": (2, 3, 1), "e3m2": (3, 2, 3), "e2m1": (2, 1, 1)}


def element_bytes(kind: str) -> int:
    return BYTES.get(kind, 1)


def mini_value(kind: str, code: int) -> float:
    exponent_bits, mantissa_bits, bias = MINI[kind]
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = code & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


def random_operand(rng, kind: str, shape, spread: float = 4.0):
    """Codes (unsigned integers) and exact values (float64) of random elements."""
    if kind in ("u8", "s8"):
        codes = rng.integers(0, 256, shape, dtype=np.uint8)
        return codes, (codes if kind == "u8" else codes.view(np.int8)).astype(np.float64)
    if kind in MINI:
        bits = 1 + sum(MINI[kind][:2])
        codes = rng.integers(0, 1 << bits, shape, dtype=np.uint8)
        table = np.array([mini_value(kind, c) for c in range(1 << bits)])
        return codes, table[codes]
    values = rng.standard_normal(shape) * np.exp2(rng.uniform(-spread, spread, shape))
    values[rng.random(shape) < 0.05] = 0.0
    if kind == "tf32":
        codes = values.astype(np.float32).view(np.uint32)
        return codes, (codes & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    typed = torch.from_numpy(np.clip(values, -400, 400)).to(TORCH_TYPES[kind])
    raw = typed.view(torch.uint8 if element_bytes(kind) == 1 else torch.int16).numpy()
    return raw.view(np.uint16 if raw.dtype == np.int16 else np.uint8), typed.double().numpy()


def element_offset(swizzle: str, major: str, eb: int, row: int, k: int, lbo: int, sbo: int) -> int:
    """Byte offset of element (row, k) from the descriptor's start, before the swizzle."""
    width = SWIZZLES[swizzle][1]
    unit = 16 // eb
    kb = k * eb
    if major == "K":
        if swizzle == "none":
            return row % 8 * 16 + row // 8 * sbo + kb // 16 * lbo + kb % 16
        return row % 8 * width + row // 8 * sbo + kb
    if swizzle == "none":
        return row % unit * eb + row // unit * sbo + k % 8 * 16 + k // 8 * lbo
    lines = 4 if swizzle == "128B_atom32B" else 8
    per = width // eb
    return row % per * eb + row // per * lbo + k % lines * width + k // lines * sbo


def offsets_of(swizzle: str, major: str, eb: int, rows: int, depth: int):
    """Leading and stride byte offsets of a dense tile, and the bytes it takes."""
    width = SWIZZLES[swizzle][1]
    if major == "K":
        if swizzle == "none":
            stride = 128 * (depth * eb // 16)
            return 128, stride, (rows + 7) // 8 * stride
        return 16, 8 * width, (rows + 7) // 8 * 8 * width
    if swizzle == "none":
        unit = 16 // eb
        sbo = 128
        lbo = rows // unit * 128
        return lbo, sbo, depth // 8 * lbo if depth >= 8 else lbo
    lines = 4 if swizzle == "128B_atom32B" else 8
    sbo = lines * width
    lbo = depth // lines * sbo
    per = width // eb
    return lbo, sbo, -(-rows // per) * lbo


def descriptor(start: int, lbo: int, sbo: int, swizzle: str, base: int = 0) -> int:
    code = SWIZZLES[swizzle][0]
    return start >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | 1 << 46 | base << 49 | code << 61


def place_operand(image, start, codes, kind, swizzle, major, lbo, sbo):
    """Writes the operand [rows, K] into the shared-memory image as the descriptor will read it."""
    eb = element_bytes(kind)
    xor = SWIZZLES[swizzle][2]
    rows, depth = codes.shape
    for row in range(rows):
        for k in range(depth):
            if kind in MINI:
                place_packed(image, start, row, k, int(codes[row, k]), kind, swizzle, lbo, sbo)
                continue
            at = xor(start + element_offset(swizzle, major, eb, row, k, lbo, sbo))
            image[at : at + eb] = np.frombuffer(codes[row, k].tobytes(), np.uint8)


def place_packed(image, start, row, k, code, kind, swizzle, lbo, sbo):
    """4- and 6-bit elements: sixteen packed at the start of each 16-byte unit."""
    bits = 4 if kind == "e2m1" else 6
    xor = SWIZZLES[swizzle][2]
    unit = xor(start + element_offset(swizzle, "K", 1, row, k // 16 * 16, lbo, sbo))
    position = bits * (k % 16)
    word = int.from_bytes(image[unit : unit + 16].tobytes(), "little")
    word |= code << position
    image[unit : unit + 16] = np.frombuffer(word.to_bytes(16, "little"), np.uint8)


def instruction_descriptor(
    m, n, a, b, d="f32", a_major="K", b_major="K", negate_a=0, negate_b=0, saturate=0, max_shift=0
) -> int:
    return (
        {0: 0, 8: 1, 16: 2, 32: 3}[max_shift] << 30
        | saturate << 3
        | {"f16": 0, "f32": 1, "s32": 2}[d] << 4
        | TYPE_CODES[a] << 7
        | TYPE_CODES[b] << 10
        | negate_a << 13
        | negate_b << 14
        | (a_major == "MN") << 15
        | (b_major == "MN") << 16
        | n >> 3 << 17
        | m >> 4 << 24
    )


def column_mask(starts, first, zeros, used, shift=0, generate=1) -> int:
    """A zero-column mask descriptor; spans are counts of columns."""
    bits = sum(start << 8 * i for i, start in enumerate(starts))
    bits |= sum(flag << 32 + i for i, flag in enumerate(first))
    return bits | generate << 39 | zeros - 1 << 40 | used - 1 << 48 | shift << 56


def masked_columns(m, n, starts, first, zeros, used) -> np.ndarray:
    """Which of n columns are zero: one sub-mask for each bank, as the examples of the PTX ISA."""
    parts = 128 // m
    masks = []
    for start, flag in zip(starts[:parts], first[:parts], strict=True):
        period = np.r_[np.zeros(used, bool), np.ones(zeros, bool)]
        if flag:
            period = ~np.r_[np.zeros(zeros, bool), np.ones(used, bool)]
        masks.append(np.resize(period, start + n // parts)[start:])
    return np.concatenate(masks)


def accumulator_cell(m_total: int, n_total: int, ws: bool, m: int, n: int):
    """Lane and column of D's element (m, n): layouts D, E, F and G of the PTX ISA."""
    if m_total == 128:
        return m, n
    if not ws:  # F
        return 32 * (m // 16) + m % 16, n
    parts = 128 // m_total  # E, G
    width = n_total // parts
    return m + m_total * (n // width), n % width


def exponents(values: np.ndarray, least: int) -> np.ndarray:
    """Exponent of each value as the multiplier sees it; very small for zeros."""
    exponent = np.frexp(values)[1].astype(np.int64) - 1
    return np.where(values == 0, -100000, np.maximum(exponent, least))


def truncate_f32(values: np.ndarray) -> np.ndarray:
    """float64 to float32 toward zero; magnitudes from 2^128 on become infinite."""
    with np.errstate(over="ignore"):
        nearest = values.astype(np.float32)
    beyond = np.abs(nearest.astype(np.float64)) > np.abs(values)
    beyond &= np.abs(values) < 2.0**128
    return np.where(beyond, np.nextafter(nearest, np.float32(0)), nearest)


def reference(
    a, b, c, a_kind, b_kind, d_kind, scale=0, saturate=False, fraction_bits=25, result_bits=23
):
    """D [m, n] of A [m, k], B [n, k] and C [m, n]; operands are exact float64 values.

    Every step is exact in float64 but the truncations: products have at most 22 significant bits,
    aligned terms at most 28. An f32 result keeps ``result_bits`` bits of its fraction.
    """
    if d_kind == "s32":
        exact = a.astype(np.int64) @ b.astype(np.int64).T + c.astype(np.int64)
        if saturate:
            exact = np.clip(exact, -(2**31), 2**31 - 1)
        return exact.astype(np.int32)
    c = c.astype(np.float64) * 2.0**-scale
    ea, eb = exponents(a, LEAST_EXPONENT[a_kind]), exponents(b, LEAST_EXPONENT[b_kind])
    products = a[:, None, :] * b[None, :, :]
    largest = (ea[:, None, :] + eb[None, :, :]).max(axis=2)
    # A subnormal accumulator is aligned as it is stored.
    least = LEAST_EXPONENT[d_kind] - scale
    largest = np.maximum(np.maximum(largest, exponents(c, least)), -126)
    unit = np.exp2((largest - fraction_bits).astype(np.float64))
    total = np.trunc(products / unit[:, :, None]).sum(axis=2) + np.trunc(c / unit)
    with np.errstate(over="ignore"):
        if d_kind == "f16":
            return (total * unit).astype(np.float16) + np.float16(0)  # no -0
        kept = np.uint32(0xFFFFFFFF << (23 - result_bits) & 0xFFFFFFFF)
        return (truncate_f32(total * unit).view(np.uint32) & kept).view(np.float32)
