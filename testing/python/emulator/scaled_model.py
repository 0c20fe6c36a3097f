"""NumPy model of block-scaled products, from OCP's formats and MMA-Sim (arXiv 2511.10909).

It shares nothing with the emulator.
"""

from __future__ import annotations

import numpy as np

from emulator import tensor_core_model as model

#: Exponents of scale factors that are zero, too small to matter.
NOTHING = -100000


def scale_parts(kind: str, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Significand (NaN of a NaN) and exponent of scale factors of ``"ue8m0"`` or ``"ue4m3"``."""
    codes = codes.astype(np.int64)
    if kind == "ue8m0":
        return np.where(codes == 255, np.nan, 1.0), codes - 127
    codes = codes & 127
    exponent, mantissa = codes >> 3, codes & 7
    significand = np.where(exponent == 0, mantissa / 8, 1 + mantissa / 8)
    significand = np.where(codes == 127, np.nan, significand)
    exponent = np.where(exponent == 0, -6, exponent - 7)
    return significand, np.where(codes == 0, NOTHING, exponent)


def scale_values(kind: str, codes: np.ndarray) -> np.ndarray:
    significand, exponent = scale_parts(kind, codes)
    return np.where(significand == 0, 0, significand * np.exp2(np.maximum(exponent, -1000.0)))


def random_scales(rng, kind: str, shape, spread: int = 12) -> np.ndarray:
    if kind == "ue8m0":
        return rng.integers(127 - spread, 128 + spread, shape, dtype=np.uint8)
    return rng.integers(0, 127, shape, dtype=np.uint8)


def _sum(terms, term_exponents, c, fraction_bits):
    """Of terms [m, n, count], aligned to the largest exponent, and C."""
    largest = np.maximum(term_exponents.max(axis=2), model.exponents(c, -126))
    largest = np.maximum(largest, -126)
    unit = np.exp2((largest - fraction_bits).astype(np.float64))
    total = np.trunc(terms / unit[:, :, None]).sum(axis=2) + np.trunc(c / unit)
    return model.truncate_f32(total * unit) + np.float32(0)


def reference(a, b, c, sa, sb, a_kind, b_kind, scale_kind, fp4):
    """D [m, n] f32 of A [m, k], B [n, k] (exact values), C, and the codes of scale factors
    [m, blocks], [n, blocks]."""
    c = c.astype(np.float64)
    block = a.shape[1] // sa.shape[1]
    (fa, ea), (fb, eb) = scale_parts(scale_kind, sa), scale_parts(scale_kind, sb)
    if fp4:
        groups = np.einsum("mgk,ngk->mng", *(x.reshape(len(x), -1, 16) for x in (a, b)))
        fa, ea, fb, eb = (np.repeat(x, block // 16, axis=1) for x in (fa, ea, fb, eb))
        exponent = np.maximum(ea[:, None] + eb[None], NOTHING)
        # A term is below 2^12 times its unit of 2^exponent.
        power = np.exp2(np.maximum(exponent, -600).astype(np.float64))
        terms = groups * fa[:, None] * fb[None] * power
        result = _sum(np.nan_to_num(terms), exponent, c, 35)
        invalid = np.isnan(terms).any(axis=2)
    else:
        ea = model.exponents(a, model.LEAST_EXPONENT[a_kind]) + np.repeat(ea, block, axis=1)
        eb = model.exponents(b, model.LEAST_EXPONENT[b_kind]) + np.repeat(eb, block, axis=1)
        values_a = a * np.repeat(scale_values(scale_kind, sa), block, axis=1)
        values_b = b * np.repeat(scale_values(scale_kind, sb), block, axis=1)
        terms = values_a[:, None] * values_b[None]
        result = _sum(np.nan_to_num(terms), ea[:, None] + eb[None], c, 25)
        invalid = np.isnan(terms).any(axis=2)
    return np.where(invalid, np.uint32(0x7FFFFFFF).view(np.float32), result)
