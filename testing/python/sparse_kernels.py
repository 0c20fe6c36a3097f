"""Kernels that multiply a sparse A with mma.sp or wgmma.mma_async.sp, and what they must compute.

Where metadata lies is written from the tables of the PTX ISA ("Sparse matrix storage" and the
fragments of mma.sp); the sums are those of the dense A. It shares nothing with the emulator.
"""

from __future__ import annotations

from typing import NamedTuple

import mma_kernels
import numpy as np
import wgmma_kernels
from mma_kernels import BITS, LANES, POISON

from emulator import tensor_core_model as model

#: Indices of two elements of four, the first in the low bits.
GROWING = (0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)
ANY = (*GROWING, 0b0001, 0b0010, 0b0110, 0b0011, 0b0111, 0b1011)
#: Of tf32: the first or the second of two elements.
ONE_OF_TWO = (0b0100, 0b1110)


class Sparse(NamedTuple):
    """A sparse A: what it stores [m, K / 2], the metadata of each chunk, its places along K."""

    stored: np.ndarray
    indices: np.ndarray
    places: np.ndarray
    dense: np.ndarray


def chunk_of(kind: str) -> int:
    """Elements along K that four bits of metadata describe."""
    return {32: 2, 4: 8}.get(BITS[kind], 4)


def compress(rng, stored: np.ndarray, chunk: int, legal) -> Sparse:
    """Random places for ``stored``; ``dense`` has zeros elsewhere."""
    rows, half = stored.shape
    chunks = 2 * half // chunk
    indices = rng.choice(np.array(legal, np.uint32), (rows, chunks))
    if chunk == 2:
        at = (indices == 0b1110)[..., None].astype(int)
    else:
        at = np.stack([indices & 3, indices >> 2], axis=-1).astype(int)
        if chunk == 8:
            at = (2 * at[..., None] + np.arange(2)).reshape(rows, chunks, 4)
    places = (at + chunk * np.arange(chunks)[None, :, None]).reshape(rows, half)
    dense = np.zeros((rows, 2 * half), stored.dtype)
    np.put_along_axis(dense, places, stored, axis=1)
    return Sparse(stored, indices, places, dense)


def metadata_words(rng, kind: str, indices: np.ndarray, selector: int) -> np.ndarray:
    """Words [32] of the lanes for 16 rows; what the selector leaves out is random."""
    rows, chunks = indices.shape
    bits = np.zeros((rows, 4 * chunks), np.uint64)
    for bit in range(4):
        bits[:, bit::4] = indices >> bit & 1
    words = rng.integers(0, 2**32, LANES, dtype=np.uint32)
    lanes = 4 * chunks // 16
    for group in range(8):
        for i in range(lanes):
            if BITS[kind] >= 16:
                low, high = (bits[r, 16 * i : 16 * i + 16] for r in (group, group + 8))
                held = np.concatenate([low, high])
            else:
                held = bits[group + 8 * (i % 2), 32 * (i // 2) : 32 * (i // 2) + 32]
            word = (held << np.arange(32, dtype=np.uint64)).sum()
            words[4 * group + selector * lanes + i] = word
    return words


# --- mma.sp -------------------------------------------------------------------------------------


class Form(NamedTuple):
    """``dense`` is the instruction without sparsity, of the K that A stores."""

    dense: mma_kernels.Form
    variant: str = "sp"
    selector: int = 0

    @property
    def depth(self) -> int:
        return 2 * self.dense.sizes[2]

    @property
    def full(self) -> mma_kernels.Form:
        """With the K of B."""
        return self.dense._replace(shape=f"m16n8k{self.depth}")

    @property
    def opcode(self) -> str:
        return self.full.opcode.replace("mma.sync", f"mma.{self.variant}.sync")

    @property
    def selectors(self) -> int:
        """How many values the selector has."""
        return 64 // (4 * self.depth // chunk_of(self.dense.a))

    @property
    def legal(self) -> tuple[int, ...]:
        if self.dense.a == "tf32":
            return ONE_OF_TWO
        return ANY if self.variant == "sp" else GROWING


def instruction(form: Form) -> str:
    text = mma_kernels.instruction(form.dense).replace(form.dense.opcode, form.opcode)
    b = ", ".join(f"%b{i}" for i in range(form.full.registers["b"]))
    text = text.replace("{" + ", ".join(f"%b{i}" for i in range(form.dense.registers["b"])) + "}",
                        "{" + b + "}")  # fmt: skip
    return text.replace(";", f", %e, {form.selector};")


def kernel(form: Form, target: str = "sm_90a", body: str | None = None) -> str:
    """PTX of ``k(a, b, c, e, d)``: words [registers, 32] by lane."""
    registers = {**form.dense.registers, "b": form.full.registers["b"]}
    text = f".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k("
    text += ", ".join(f".param .u64 P{name}" for name in "abced") + ") {\n"
    text += " .reg .b32 %i<4>, %e; .reg .b64 %r<4>;\n mov.u32 %i0, %tid.x;\n"
    text += " mul.wide.u32 %r1, %i0, 4;\n"
    for name, count in registers.items():
        text += f" .reg .b32 %{name}<{count}>;\n"
    for name in "abc":
        text += f" ld.param.u64 %r0, [P{name}]; add.u64 %r0, %r0, %r1;\n"
        for i in range(registers[name]):
            text += f" ld.global.b32 %{name}{i}, [%r0+{4 * LANES * i}];\n"
    text += " ld.param.u64 %r0, [Pe]; add.u64 %r0, %r0, %r1; ld.global.b32 %e, [%r0];\n"
    text += f" {body or instruction(form)}\n ld.param.u64 %r0, [Pd]; add.u64 %r0, %r0, %r1;\n"
    for i in range(registers["d"]):
        text += f" st.global.b32 [%r0+{4 * LANES * i}], %d{i};\n"
    return text + " ret;\n}\n"


class Data(NamedTuple):
    a: Sparse
    b: np.ndarray
    c: np.ndarray
    arrays: list[np.ndarray]


def make_data(form: Form, data: str, seed: int) -> Data:
    rng = np.random.default_rng([seed, *map(ord, form.opcode + data)])
    full, dense = form.full, form.dense
    stored = mma_kernels.random_codes(rng, dense.a, (16, dense.sizes[2]), data)
    a = compress(rng, stored, chunk_of(dense.a), form.legal)
    b = mma_kernels.random_codes(rng, dense.b, (8, form.depth), data)
    like = mma_kernels.values_of(dense.a, a.dense) @ mma_kernels.values_of(dense.b, b).T
    c = mma_kernels.random_accumulator(rng, dense, data, like)
    out = np.full((dense.registers["d"], LANES), POISON, np.uint32)
    words = mma_kernels.words
    arrays = [
        words(dense, "a", stored), words(full, "b", b), words(dense, "c", c),
        metadata_words(rng, dense.a, a.indices, form.selector), out,
    ]  # fmt: skip
    return Data(a, b, c, arrays)


def expected(form: Form, data: Data) -> np.ndarray:
    """Words of the results: those of one sum of all stored products."""
    dense = form.dense
    a, b = mma_kernels.values_of(dense.a, data.a.dense), mma_kernels.values_of(dense.b, data.b)
    d = model.reference(a, b, data.c, dense.a, dense.b, dense.d, saturate=dense.saturate)
    return mma_kernels.words(dense, "d", d)


def mma_forms() -> list[Form]:
    """Every shape and type."""
    found = []
    for kind, ks, ds in [
        ("f16", (8, 16), ("f16", "f32")), ("bf16", (8, 16), ("f32",)), ("tf32", (4, 8), ("f32",)),
        ("e4m3", (32,), ("f32",)), ("e5m2", (32,), ("f32",)), ("s8", (16, 32), ("s32",)),
        ("u8", (16, 32), ("s32",)), ("s4", (32, 64), ("s32",)), ("u4", (32, 64), ("s32",)),
    ]:  # fmt: skip
        for k in ks:
            for d in ds:
                found.append(Form(mma_kernels.Form(f"m16n8k{k}", d, kind, kind, d)))
    return found


# --- wgmma.mma_async.sp -------------------------------------------------------------------------


def wgmma_instruction(form: wgmma_kernels.Form, selector: int, b: str = "%descB") -> str:
    text = wgmma_kernels.instruction(form, b=b)
    text = text.replace("mma_async.sync", "mma_async.sp.sync")
    text = text.replace(f"k{form.depth}.", f"k{2 * form.depth}.", 1)
    return text.replace(f"{b}, %acc", f"{b}, %a4, {selector}, %acc")


def wgmma_kernel(form: wgmma_kernels.Form, selector: int, body: str | None = None) -> str:
    """As ``wgmma_kernels.kernel``; the fifth word of the fragments is the metadata."""
    lbo, sbo, _ = offsets_of_b(form)
    dense = wgmma_kernels.make_descriptor(form, "b")
    bits = lbo >> 4 << 16 | sbo >> 4 << 32 | wgmma_kernels.SWIZZLE_CODES[form.b_swizzle] << 62
    start, _, tail = dense.rpartition("%descB, %descB, ")
    body = body or (
        wgmma_kernels.FENCE + wgmma_instruction(form, selector) + wgmma_kernels.COMMIT
        + wgmma_kernels.WAIT
    )  # fmt: skip
    text = wgmma_kernels.kernel(form, body)
    text = text.replace(dense, f"{start}%descB, %descB, {bits:#x};\n") if tail else text
    text = text.replace("%a<4>", "%a<5>")
    return text.replace(
        " ld.global.b32 %a3, [%r1+1536];\n",
        " ld.global.b32 %a3, [%r1+1536];\n ld.global.b32 %a4, [%r1+2048];\n",
    )


def offsets_of_b(form: wgmma_kernels.Form) -> tuple[int, int, int]:
    element = model.element_bytes(form.b)
    return model.offsets_of(form.b_swizzle, form.b_major, element, form.n, 2 * form.depth)


def make_wgmma_data(form: wgmma_kernels.Form, data: str, selector: int, seed: int = 0) -> Data:
    rng = np.random.default_rng([seed, form.n, selector, *map(ord, form.a + form.b + data)])
    stored = wgmma_kernels.random_codes(rng, form.a, (64, form.depth), data)
    legal = ONE_OF_TWO if form.a == "tf32" else ANY
    a = compress(rng, stored, chunk_of(form.a), legal)
    b = wgmma_kernels.random_codes(rng, form.b, (form.n, 2 * form.depth), data)
    like = wgmma_kernels.values_of(form.a, a.dense) @ wgmma_kernels.values_of(form.b, b).T
    c = wgmma_kernels.random_accumulator(rng, form, data, like)
    image = rng.integers(0, 256, wgmma_kernels.IMAGE_BYTES, dtype=np.uint8)
    if not form.registers:
        swizzle, major, lbo, sbo, start = wgmma_kernels.descriptor_fields(form, "a")
        model.place_operand(image, start, stored, form.a, swizzle, major, lbo, sbo)
    lbo, sbo, _ = offsets_of_b(form)
    model.place_operand(
        image, wgmma_kernels.B_AT, b, form.b, form.b_swizzle, form.b_major, lbo, sbo
    )
    words = [
        metadata_words(rng, form.a, a.indices[16 * w : 16 * w + 16], selector) for w in range(4)
    ]
    fragments = np.vstack([wgmma_kernels.fragment_words(form, stored), np.concatenate(words)])
    out = np.full((form.accumulators, wgmma_kernels.THREADS), POISON, np.uint32)
    return Data(a, b, c, [image, fragments, wgmma_kernels.accumulator_words(form, c), out])


def wgmma_expected(form: wgmma_kernels.Form, data: Data) -> np.ndarray:
    dense = wgmma_kernels.Data(data.a.dense, data.b, data.c, data.arrays)
    return wgmma_kernels.expected(form, dense)
