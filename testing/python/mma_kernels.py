"""Kernels of one warp that multiply with mma.sync, and the NumPy model of what they compute.

The model is written from the formulas of the PTX ISA ("Matrix Fragments for mma") and, for the
arithmetic, of MMA-Sim (arXiv 2511.10909); it shares nothing with the emulator.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import wgmma_kernels

from emulator import tensor_core_model as model

LANES = 32
BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "f64": 64, "s8": 8, "u8": 8,
    "s4": 4, "u4": 4, "b1": 1, "f32": 32, "s32": 32,
}  # fmt: skip
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}
POISON = 0x5A5A5A5A


class Form(NamedTuple):
    shape: str
    d: str
    a: str
    b: str
    c: str
    a_layout: str = "row"
    b_layout: str = "col"
    saturate: bool = False
    operation: str = ""

    @property
    def sizes(self) -> tuple[int, int, int]:
        m, n, k = map(int, re.findall(r"\d+", self.shape))
        return m, n, k

    @property
    def is_integer(self) -> bool:
        return self.d == "s32"

    @property
    def quads(self) -> bool:
        """Four multiplications, one for each quad pair."""
        return self.shape == "m8n8k4" and self.a == "f16"

    @property
    def opcode(self) -> str:
        saturate = ".satfinite" if self.saturate else ""
        operation = f".{self.operation}.popc" if self.operation else ""
        return (
            f"mma.sync.aligned.{self.shape}.{self.a_layout}.{self.b_layout}{saturate}"
            f".{self.d}.{self.a}.{self.b}.{self.c}{operation}"
        )

    @property
    def registers(self) -> dict[str, int]:
        """Registers of a lane for each operand; of 64 bits for f64."""
        m, n, k = self.sizes
        sizes = {"d": m * n, "a": m * k, "b": n * k, "c": m * n}
        width = 64 if self.a == "f64" else 32
        count = 4 if self.quads else 1
        return {
            name: count * size * BITS[getattr(self, name)] // (LANES * width)
            for name, size in sizes.items()
        }


def instruction(form: Form) -> str:
    groups = [
        "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"
        for name, count in form.registers.items()
    ]
    return f"{form.opcode} {', '.join(groups)};"


def kernel(form: Form, target: str = "sm_90a", body: str | None = None) -> str:
    """PTX of ``k(a, b, c, d)``: words [registers, 32] by lane, of 64 bits for f64."""
    bits = 64 if form.a == "f64" else 32
    text = f".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k("
    text += ", ".join(f".param .u64 P{name}" for name in "abcd") + ") {\n"
    text += " .reg .b32 %i<4>; .reg .b64 %r<4>;\n mov.u32 %i0, %tid.x;\n"
    text += f" mul.wide.u32 %r1, %i0, {bits // 8};\n"
    for name, count in form.registers.items():
        text += f" .reg .b{bits} %{name}<{count}>;\n"
    for name in "abc":
        text += f" ld.param.u64 %r0, [P{name}]; add.u64 %r0, %r0, %r1;\n"
        for i in range(form.registers[name]):
            text += f" ld.global.b{bits} %{name}{i}, [%r0+{bits // 8 * LANES * i}];\n"
    text += f" {body or instruction(form)}\n ld.param.u64 %r0, [Pd]; add.u64 %r0, %r0, %r1;\n"
    for i in range(form.registers["d"]):
        text += f" st.global.b{bits} [%r0+{bits // 8 * LANES * i}], %d{i};\n"
    return text + " ret;\n}\n"


# --- fragments ----------------------------------------------------------------------------------


def places(form: Form, operand: str) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each element, [elements of a lane, 32]; of B: column and row."""
    kind = getattr(form, operand)
    count = form.registers[operand] * (64 if form.a == "f64" else 32) // BITS[kind]
    i, lane = np.arange(count)[:, None], np.arange(LANES)[None, :]
    if form.quads:
        return quad_places(form, operand, i, lane)
    group, c = lane >> 2, lane & 3
    if operand in "cd":
        return np.where(i >= 2, group + 8, group), 2 * c + (i & 1)
    per = max(32 // BITS[kind], 1)
    along = c * per + i % per
    if operand == "b" or form.sizes[0] == 8:
        return group + 0 * i, along + i // per * 4 * per
    return np.where(i // per % 2 == 1, group + 8, group), along + i // (2 * per) * 4 * per


def quad_places(form: Form, operand: str, i, lane) -> tuple[np.ndarray, np.ndarray]:
    """Of m8n8k4 of f16; the multiplications follow one another along M (A, C, D) or N (B)."""
    quad, upper = lane % 16 // 4 * 8, np.where(lane < 16, 0, 4)
    if operand in "cd" and getattr(form, operand) == "f32":
        return quad + (lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1)
    layout = getattr(form, f"{operand}_layout", "")
    if (operand, layout) in (("a", "col"), ("b", "row")):
        return quad + i % 4 + upper, lane % 4 + 0 * i
    return quad + lane % 4 + upper + 0 * i, i + 0 * lane


def words(form: Form, operand: str, matrix: np.ndarray) -> np.ndarray:
    """Registers of all lanes that hold ``matrix``: A [m, k], B [n, k], C and D [m, n]; codes of
    elements below 8 bits are one in a byte."""
    rows, columns = places(form, operand)
    held = matrix[rows, columns]
    bits = BITS[getattr(form, operand)]
    if bits == 64:
        return held.view(np.uint64)
    if bits >= 8:
        held = held.view(f"u{bits // 8}")
    packed = held.astype(np.uint64).reshape(-1, 32 // bits, LANES)
    shifts = (bits * np.arange(32 // bits, dtype=np.uint64))[None, :, None]
    return (packed << shifts).sum(axis=1, dtype=np.uint64).astype(np.uint32)


# --- data and results ---------------------------------------------------------------------------


class Data(NamedTuple):
    """A [m, k], B [n, k] and C [m, n]; ``arrays`` are those of the launch."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    arrays: list[np.ndarray]


def values_of(kind: str, codes: np.ndarray) -> np.ndarray:
    if kind == "f64":
        return codes
    if kind in ("u4", "b1"):
        return codes.astype(np.float64)
    if kind == "s4":
        return (codes ^ 8).astype(np.float64) - 8
    return wgmma_kernels.values_of(kind, codes)


def random_codes(rng, kind: str, shape, data: str) -> np.ndarray:
    if kind in ("s4", "u4", "b1"):
        return rng.integers(0, 1 << BITS[kind], shape).astype(np.uint8)
    if kind != "f64":
        return wgmma_kernels.random_codes(rng, kind, shape, data)
    if data == "small":
        return rng.integers(-3, 4, shape).astype(np.float64)
    spread = {"normal": 3, "subnormal": 1000}.get(data, 200)
    return rng.standard_normal(shape) * np.exp2(rng.integers(-spread, min(spread, 200), shape))


def random_accumulator(rng, form: Form, data: str, like: np.ndarray) -> np.ndarray:
    if form.c != "f64":
        return wgmma_kernels.random_accumulator(rng, form._replace(d=form.c), data, like)
    if data == "small":
        return rng.integers(-64, 65, like.shape).astype(np.float64)
    return np.where(rng.random(like.shape) < 0.5, -like, rng.standard_normal(like.shape))


def make_data(form: Form, data: str, seed: int) -> Data:
    rng = np.random.default_rng([seed, *map(ord, form.opcode + data)])
    m, n, k = form.sizes
    m, n = (4 * m, 4 * n) if form.quads else (m, n)
    kind = "wide" if data == "cancel" else data
    a, b = random_codes(rng, form.a, (m, k), kind), random_codes(rng, form.b, (n, k), kind)
    if data == "cancel" and form.a not in ("f64", "b1") and not form.is_integer:
        a = wgmma_kernels.cancel(rng, a, form.a)
        b[:, 1::2] = b[:, 0::2]
    with np.errstate(all="ignore"):
        like = values_of(form.a, a) @ values_of(form.b, b).T
    like = own_columns(like) if form.quads else like
    c = random_accumulator(rng, form, data, like)
    out = np.full((form.registers["d"], LANES), POISON, np.uint64 if form.a == "f64" else np.uint32)
    arrays = [words(form, "a", a), words(form, "b", b), words(form, "c", c), out]
    return Data(a, b, c, arrays)


def own_columns(all_pairs: np.ndarray) -> np.ndarray:
    """[32, 8]: of the products of all quad pairs' A and B those of each with itself."""
    return np.concatenate([all_pairs[q : q + 8, q : q + 8] for q in range(0, LANES, 8)])


def quad_sums(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """m8n8k4 of f16 by quad pairs, in f32 as the code of ptxas has it for sm_80 and later."""
    a, b = a.reshape(4, 8, 1, 4).astype(np.float32), b.reshape(4, 1, 8, 4).astype(np.float32)
    products = (a * b).astype(np.float64)  # exact; a sum of it and an f32 is rounded once
    c = c.reshape(4, 8, 8).astype(np.float32)

    def add(sum_, k):
        return (sum_.astype(np.float64) + products[..., k]).astype(np.float32)

    def product(k):
        return products[..., k].astype(np.float32)

    if form.d == "f16":
        d = (add(product(0), 1) + c + add(product(2), 3)).astype(np.float16)
    else:
        d = add(add(add(product(0), 1), 2), 3) + c
    return d.reshape(32, 8)


def fused(one: float, other: float, sum_: float) -> float:
    return float(Fraction(one) * Fraction(other) + Fraction(sum_))


def chain(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Fused multiply-adds over k in f64, rounded to nearest."""
    d = c.copy()
    for at in np.ndindex(*d.shape):
        for k in range(a.shape[1]):
            d[at] = fused(a[at[0], k], b[at[1], k], d[at])
    return d


class Accumulation(NamedTuple):
    """How a unit sums: bits of the fraction that terms keep after alignment and that an f32 result
    keeps, and elements along K of one sum (0: all)."""

    fraction_bits: int
    result_bits: int
    terms: int = 0


def accumulation_of(kind: str, sm: int) -> Accumulation:
    if sm >= 90:
        return Accumulation(25, 23)
    terms = 128 // BITS[kind]
    return Accumulation(13, 13, terms) if BITS[kind] == 8 else Accumulation(24, 23, terms)


def expected(form: Form, data: Data, sm: int = 90, accumulation=None) -> np.ndarray:
    """Words of the results; operands must be finite."""
    a, b, c = values_of(form.a, data.a), values_of(form.b, data.b), data.c
    if form.a == "f64":
        return words(form, "d", chain(a, b, c))
    if form.quads:
        return words(form, "d", quad_sums(form, a, b, c))
    if form.operation:
        bits = a[:, None, :].astype(int), b[None, :, :].astype(int)
        counts = (bits[0] ^ bits[1] if form.operation == "xor" else bits[0] & bits[1]).sum(axis=2)
        return words(form, "d", (counts + c).astype(np.int32))
    if form.is_integer:
        d = model.reference(a, b, c, form.a, form.b, form.d, saturate=form.saturate)
        return words(form, "d", d)
    accumulation = accumulation or accumulation_of(form.a, sm)

    def add(columns, c, kind_a, kind_b):
        return model.reference(
            a[:, columns], b[:, columns], c, kind_a, kind_b, form.d,
            fraction_bits=accumulation.fraction_bits, result_bits=accumulation.result_bits,
        )  # fmt: skip

    k = np.arange(a.shape[1])
    if BITS[form.a] == 8 and sm >= 90:
        # Converted to f16; the first two of each four elements, the others, then C.
        d = add(k % 4 < 2, np.zeros_like(c), "f16", "f16")
        d = add(k % 4 >= 2, d, "f16", "f16") + c
        return words(form, "d", d)
    terms = accumulation.terms or len(k)
    for first in range(0, len(k), terms):
        c = add(slice(first, first + terms), c, form.a, form.b)
    return words(form, "d", c)
