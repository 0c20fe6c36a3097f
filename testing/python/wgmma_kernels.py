"""Kernels of one warpgroup that multiply with wgmma, and the NumPy model of what they compute.

The model is written from the formulas of the PTX ISA (register fragments, canonical layouts and
matrix descriptors of wgmma); it shares nothing with the emulator.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emulator import tensor_core_model as model

HEADER = ".version 8.5\n.target sm_90a\n.address_size 64\n"
THREADS = 128
ROWS = 64
A_AT, B_AT = 0, 8192
IMAGE_BYTES = 40960
#: Swizzle -> code in bits 63:62 of a descriptor.
SWIZZLE_CODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
#: Elements of K of one instruction.
DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "b1": 256}
POISON = 0x5A5A5A5A


class Form(NamedTuple):
    """One ``wgmma.mma_async``; ``a_step`` and ``b_step`` advance a K-major swizzled operand by so
    many times 32 bytes within its atom. ``repeat`` instructions accumulate one after the other."""

    a: str
    b: str
    d: str
    n: int
    registers: bool = False
    a_swizzle: str = "128B"
    b_swizzle: str = "128B"
    a_major: str = "K"
    b_major: str = "K"
    a_step: int = 0
    b_step: int = 0
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    accumulate: bool = True
    repeat: int = 1

    @property
    def depth(self) -> int:
        return DEPTH.get(self.a, 32)

    @property
    def accumulators(self) -> int:
        """Registers of a thread that hold D."""
        return self.n // (4 if self.d == "f16" else 2)

    @property
    def is_integer(self) -> bool:
        return self.d == "s32"

    @property
    def opcode(self) -> str:
        satfinite = ".satfinite" if self.saturate else ""
        binary = ".and.popc" if self.a == "b1" else ""
        shape = f"m64n{self.n}k{self.depth}"
        return f"wgmma.mma_async.sync.aligned.{shape}{satfinite}.{self.d}.{self.a}.{self.b}{binary}"

    @property
    def immediates(self) -> str:
        if self.is_integer:
            return ""
        values = [-1 if self.negate_a else 1, -1 if self.negate_b else 1]
        if self.a in ("f16", "bf16"):
            if not self.registers:
                values.append(int(self.a_major == "MN"))
            values.append(int(self.b_major == "MN"))
        return "".join(f", {value}" for value in values)


def instruction(form: Form, predicate: str = "%acc", b: str = "%descB") -> str:
    d = ", ".join(f"%d{i}" for i in range(form.accumulators))
    a = "{%a0, %a1, %a2, %a3}" if form.registers else "%descA"
    return f"{form.opcode} {{{d}}}, {a}, {b}, {predicate}{form.immediates};"


def descriptor_fields(form: Form, operand: str) -> tuple[str, str, int, int, int]:
    """Swizzle, major-ness, leading and stride byte offset, start in the image."""
    if operand == "a":
        swizzle, major, rows, at, step = form.a_swizzle, form.a_major, ROWS, A_AT, form.a_step
    else:
        swizzle, major, rows, at, step = form.b_swizzle, form.b_major, form.n, B_AT, form.b_step
    kind = getattr(form, operand)
    depth = 32 if kind == "b1" else form.depth  # in containers
    lbo, sbo, _ = model.offsets_of(swizzle, major, model.element_bytes(kind), rows, depth)
    return swizzle, major, lbo, sbo, at + 32 * step


def make_descriptor(form: Form, operand: str) -> str:
    """PTX that puts the descriptor of an operand into %descA or %descB."""
    swizzle, _, lbo, sbo, start = descriptor_fields(form, operand)
    bits = lbo >> 4 << 16 | sbo >> 4 << 32 | SWIZZLE_CODES[swizzle] << 62
    name = f"%desc{operand.upper()}"
    return (
        f" mov.u32 %i2, sm; add.u32 %i2, %i2, {start}; shr.u32 %i2, %i2, 4;\n"
        f" cvt.u64.u32 {name}, %i2; or.b64 {name}, {name}, {bits:#x};\n"
    )


FENCE = " wgmma.fence.sync.aligned;\n"
COMMIT = " wgmma.commit_group.sync.aligned;\n"
WAIT = " wgmma.wait_group.sync.aligned 0;\n"


def repeated(form: Form) -> str:
    """``form.repeat`` instructions, each with a descriptor of B that ptxas cannot know to be that
    of another (``%ctaid.y`` is 0), because it drops some of those that it sees to be alike."""
    text = f" .reg .b64 %repeatB<{form.repeat}>; mov.u32 %i3, %ctaid.y;\n"
    for i in range(form.repeat):
        text += f" mad.wide.u32 %repeatB{i}, %i3, {i}, %descB;\n"
    text += FENCE
    for i in range(form.repeat):
        text += f" {instruction(form, b=f'%repeatB{i}')}\n"
    return text + COMMIT + WAIT


def kernel(form: Form, body: str | None = None, proxy_fence: bool = True) -> str:
    """PTX of ``k(image, fragments, accumulators, out)``.

    The image fills shared memory; fragments are words [4, 128], accumulators and results words
    [registers, 128] by thread. ``body`` replaces fence, instructions, commit and wait.
    """
    body = repeated(form) if body is None else body
    count = form.accumulators
    text = HEADER + ".visible .entry k(.param .u64 P0, .param .u64 P1, .param .u64 P2,"
    text += " .param .u64 P3) {\n .shared .align 1024 .b8 sm[" + str(IMAGE_BYTES) + "];\n"
    text += " .reg .b32 %i<9>, %a<4>; .reg .b64 %r<9>, %descA, %descB; .reg .pred %p<4>, %acc;\n"
    text += f" .reg .b32 %d<{count}>;\n"
    text += " mov.u32 %i0, %tid.x; shl.b32 %i1, %i0, 2; cvt.u64.u32 %r4, %i1;\n"
    text += " ld.param.u64 %r0, [P0]; mov.u32 %i3, sm; add.u32 %i3, %i3, %i1;\n"
    text += " add.u64 %r0, %r0, %r4; mov.u32 %i4, 0;\n"
    text += "COPY: ld.global.u32 %i5, [%r0]; st.shared.u32 [%i3], %i5;\n"
    text += " add.u64 %r0, %r0, 512; add.u32 %i3, %i3, 512; add.u32 %i4, %i4, 512;\n"
    text += f" setp.lt.u32 %p0, %i4, {IMAGE_BYTES}; @%p0 bra COPY;\n"
    text += " fence.proxy.async.shared::cta;\n" if proxy_fence else ""
    text += " bar.sync 0;\n ld.param.u64 %r1, [P1]; add.u64 %r1, %r1, %r4;\n"
    text += "".join(f" ld.global.b32 %a{i}, [%r1+{512 * i}];\n" for i in range(4))
    text += " ld.param.u64 %r2, [P2]; add.u64 %r2, %r2, %r4;\n"
    text += "".join(f" ld.global.b32 %d{i}, [%r2+{512 * i}];\n" for i in range(count))
    text += make_descriptor(form, "a") + make_descriptor(form, "b")
    text += f" setp.eq.u32 %acc, {int(form.accumulate)}, 1;\n"
    text += body + " ld.param.u64 %r3, [P3]; add.u64 %r3, %r3, %r4;\n"
    text += "".join(f" st.global.b32 [%r3+{512 * i}], %d{i};\n" for i in range(count))
    return text + " ret;\n}\n"


# --- fragments (PTX ISA, "Register fragments and shared memory matrix layouts" of wgmma) --------


def accumulator_places(form: Form) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of every element that threads hold: [registers, 128], f16 [registers, 128, 2]
    with the low half first."""
    r = np.arange(form.accumulators)[:, None]
    t = np.arange(THREADS)[None, :]
    warp, group, c = t // 32, t % 32 // 4, t % 4
    if form.d == "f16":
        half = np.arange(2)
        rows = (16 * warp + group + 8 * (r % 2))[..., None] + 0 * half
        return rows, (8 * (r // 2) + 2 * c)[..., None] + half
    return 16 * warp + group + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * c + r % 2


def accumulator_words(form: Form, matrix: np.ndarray) -> np.ndarray:
    """The registers of all threads, words [registers, 128], that hold D [64, n]."""
    rows, columns = accumulator_places(form)
    held = np.ascontiguousarray(matrix[rows, columns])
    words = held.view(np.uint32)
    return words[..., 0] if form.d == "f16" else words


def fragment_words(form: Form, codes: np.ndarray) -> np.ndarray:
    """Words [4, 128] of the registers that hold A [64, K], packed for types below 32 bits."""
    i = np.arange(4)[:, None]
    t = np.arange(THREADS)[None, :]
    warp, group, c = t // 32, t % 32 // 4, t % 4
    rows = 16 * warp + group + 8 * (i % 2)
    per = 4 // codes.itemsize  # elements of a register
    columns = c * per + 4 * per * (i // 2)
    e = np.arange(per)
    held = codes[rows[..., None] + 0 * e, columns[..., None] + e]
    return np.ascontiguousarray(held).view(np.uint32)[..., 0]


# --- data ---------------------------------------------------------------------------------------

EXPONENT_BITS = {"f16": 5, "bf16": 8, "tf32": 8, "e4m3": 4, "e5m2": 5}
MANTISSA_BITS = {"f16": 10, "bf16": 7, "tf32": 23, "e4m3": 3, "e5m2": 2}
CODE_TYPES = {"f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32}


def values_of(kind: str, codes: np.ndarray) -> np.ndarray:
    """Exact values of elements; tf32 drops the low 13 bits. b1: one value for each bit."""
    if kind == "b1":
        return np.unpackbits(codes, axis=1, bitorder="little").astype(np.float64)
    if kind in ("u8", "s8"):
        return codes.view(np.int8 if kind == "s8" else np.uint8).astype(np.float64)
    exponent_bits, mantissa_bits = EXPONENT_BITS[kind], MANTISSA_BITS[kind]
    bits = codes.astype(np.int64)
    if kind == "tf32":
        bits &= 0xFFFFE000
    mantissa = bits & (1 << mantissa_bits) - 1
    field = bits >> mantissa_bits & (1 << exponent_bits) - 1
    sign = np.where(bits >> (mantissa_bits + exponent_bits), -1.0, 1.0)
    bias = (1 << exponent_bits - 1) - 1
    fraction = np.where(field > 0, mantissa + (1 << mantissa_bits), mantissa).astype(np.float64)
    value = sign * np.ldexp(fraction, np.maximum(field, 1) - bias - mantissa_bits)
    top = (1 << exponent_bits) - 1
    if kind == "e4m3":
        return np.where((field == top) & (mantissa == 7), np.nan, value)
    return np.where(field == top, np.where(mantissa > 0, np.nan, sign * np.inf), value)


def code_bits(kind: str) -> int:
    return 1 + EXPONENT_BITS[kind] + MANTISSA_BITS[kind] if kind in EXPONENT_BITS else 8


def random_codes(rng, kind: str, shape, data: str) -> np.ndarray:
    """Elements as unsigned codes. ``data``:

    "small": integers up to 3 in magnitude, whose sums are exact; "normal": near 1; "wide": all
    exponents of which f32 can hold the products; "subnormal": subnormals of the type and normal
    numbers; "special": infinities and NaN among others; "bits": anything finite.
    """
    dtype = CODE_TYPES.get(kind, np.uint8)
    if kind in ("u8", "s8", "b1"):
        if data == "small" and kind != "b1":
            return rng.integers(0, 4, shape).astype(np.uint8)
        return rng.integers(0, 256, shape).astype(np.uint8)
    exponent_bits, mantissa_bits = EXPONENT_BITS[kind], MANTISSA_BITS[kind]
    bias = (1 << exponent_bits - 1) - 1
    if data == "small":
        return small_codes(kind, rng.integers(-3, 4, shape)).astype(dtype)
    mantissa = rng.integers(0, 1 << mantissa_bits, shape)
    sign = rng.integers(0, 2, shape) << (exponent_bits + mantissa_bits)
    top = (1 << exponent_bits) - 1
    spread = {"normal": 3, "wide": 30, "special": 3}.get(data, 3)
    low, high = max(0, bias - spread), min(top - 1, bias + spread)
    if kind == "e4m3":
        high = min(high, top)
    field = rng.integers(low, high + 1, shape)
    if data == "subnormal":
        field = np.where(rng.random(shape) < 0.5, 0, np.minimum(field, rng.integers(0, 3, shape)))
        if kind in ("bf16", "tf32"):  # so that not all products vanish
            field = np.where(rng.random(shape) < 0.3, bias + 100, field)
    if data == "bits":
        field = rng.integers(0, top, shape)
    if data == "special":
        field = np.where(rng.random(shape) < 0.01, top, field)
        mantissa = np.where((field == top) & (rng.random(shape) < 0.5), 0, mantissa)
    elif kind == "e4m3":
        mantissa = np.where((field == top) & (mantissa == 7), 6, mantissa)
    codes = sign | field << mantissa_bits | mantissa
    codes[rng.random(shape) < 0.03] = 0
    return codes.astype(dtype)


def small_codes(kind: str, integers: np.ndarray) -> np.ndarray:
    """Codes of integers from -3 to 3."""
    table = np.arange(1 << min(code_bits(kind), 16))
    shift = 16 if kind == "tf32" else 0
    values = values_of(kind, (table << shift).astype(CODE_TYPES.get(kind, np.uint8)))
    found = {v: int(np.flatnonzero(values == v)[0]) << shift for v in range(-3, 4)}
    return np.vectorize(found.get, otypes=[np.int64])(integers)


class Data(NamedTuple):
    """Operands of a kernel and what it is launched with; ``c`` is the accumulator [64, n]."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    arrays: list[np.ndarray]


def cancel(rng, codes: np.ndarray, kind: str) -> np.ndarray:
    """Elements 2i + 1 along K are those at 2i with the other sign, but for a few."""
    sign = 1 << code_bits(kind) - 1
    paired = codes.copy()
    flipped = paired[:, 0::2] ^ paired.dtype.type(sign)
    keep = rng.random(flipped.shape) < 0.25
    paired[:, 1::2] = np.where(keep, paired[:, 1::2], flipped)
    return paired


def random_accumulator(rng, form: Form, data: str, like: np.ndarray) -> np.ndarray:
    """Of the type of D; ``like`` is the exact A * B."""
    shape = like.shape
    if form.is_integer:
        high = 8 if data == "small" else 2**31
        return rng.integers(-high, high, shape, dtype=np.int64).astype(np.int32)
    dtype = np.float16 if form.d == "f16" else np.float32
    if data == "small":
        return rng.integers(-64, 65, shape).astype(dtype)
    finite = np.where(np.isfinite(like), like, 0)
    scale = np.exp2(rng.uniform(-12, 3, shape))
    c = rng.standard_normal(shape) * scale * (np.abs(finite) + 1e-6)
    if data == "cancel":
        c = np.where(rng.random(shape) < 0.5, -finite, c)
    if data == "subnormal" and form.d == "f32":
        c = np.where(rng.random(shape) < 0.3, rng.standard_normal(shape) * 2.0**-130, c)
    with np.errstate(over="ignore"):
        c = np.clip(c, -60000, 60000).astype(dtype) if form.d == "f16" else c.astype(dtype)
    c = np.where(np.isfinite(c), c, dtype(1))
    if data == "special":
        c = np.where(rng.random(shape) < 0.02, dtype(np.inf), c)
    return c.astype(dtype)


def make_data(form: Form, data: str, seed: int) -> Data:
    rng = np.random.default_rng([seed, form.n, *map(ord, form.a + form.b + form.d + data)])
    kind = "wide" if data == "cancel" else data
    depth = 32 if form.a == "b1" else form.depth
    a = random_codes(rng, form.a, (ROWS, depth), kind)
    b = random_codes(rng, form.b, (form.n, depth), kind)
    if data == "cancel" and not form.is_integer:
        a = cancel(rng, a, form.a)
        b[:, 1::2] = b[:, 0::2]
    with np.errstate(invalid="ignore"):
        like = values_of(form.a, a) @ values_of(form.b, b).T
    c = random_accumulator(rng, form, data, like)
    image = rng.integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    for codes, name in ((a, "a"), (b, "b")):
        if name == "a" and form.registers:
            continue
        swizzle, major, lbo, sbo, start = descriptor_fields(form, name)
        kind = getattr(form, name)
        model.place_operand(image, start, codes, kind, swizzle, major, lbo, sbo)
    out = np.full((form.accumulators, THREADS), POISON, np.uint32)
    arrays = [image, fragment_words(form, a), accumulator_words(form, c), out]
    return Data(a, b, c, arrays)


#: Bits of the fraction that terms keep after alignment, and that an f32 result keeps.
ACCUMULATION = {"e4m3": (13, 13), "e5m2": (13, 13)}


def expected(form: Form, data: Data, accumulation: tuple[int, int] | None = None) -> np.ndarray:
    """Words [registers, 128] of the results; operands must be finite."""
    fraction_bits, result_bits = accumulation or ACCUMULATION.get(form.a, (25, 23))
    a, b = values_of(form.a, data.a), values_of(form.b, data.b)
    a, b = (-a if form.negate_a else a), (-b if form.negate_b else b)
    d = data.c
    for _ in range(form.repeat):
        c = d if form.accumulate else np.zeros_like(d)
        d = model.reference(
            a, b, c, form.a, form.b, form.d, saturate=form.saturate,
            fraction_bits=fraction_bits, result_bits=result_bits,
        )  # fmt: skip
    return accumulator_words(form, d)
