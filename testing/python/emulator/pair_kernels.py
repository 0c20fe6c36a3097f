"""Programs for pairs of CTAs: one thread of a pair issues, both CTAs wait and dump."""

from __future__ import annotations

import numpy as np
from emulator.tmem_kernels import COLUMNS, LANES, build, run

from emulator import tensor_core_model as model

IMAGE_BYTES = 64 * 1024
IMAGE_START = 1024  # shared memory starts after the reserved kilobyte
A_AT, B_AT = 0, 32 * 1024
DEPTH = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}
_PARAMS = ", .param .u64 ADESC, .param .u64 BDESC, .param .u32 IDESC, .param .u32 ACCUMULATE"

#: %p4: thread 0 of the CTA of rank {issuer} in its pair; %h0: the mask of both.
ISSUER = """
 mov.u32 %r10, %cluster_ctarank; and.b32 %r11, %r10, 1; setp.eq.and.u32 %p4, %r11, {issuer}, %p0;
 and.b32 %r11, %r10, 14; mov.u32 %r12, 3; shl.b32 %r12, %r12, %r11; cvt.u16.u32 %h0, %r12;
 @!%p4 bra ISSUED;
"""
OPERANDS = """
 ld.param.u64 %d20, [ADESC]; ld.param.u64 %d21, [BDESC]; ld.param.u32 %r20, [IDESC];
 ld.param.u32 %r21, [ACCUMULATE]; setp.ne.u32 %p5, %r21, 0;
"""
#: Tells both CTAs of the pair, each of which waits.
COMMIT = """
 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r4+8],
   %h0;
"""
WAIT = """
ISSUED:
 mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4+8], 0; @!%p3 bra ISSUED;
 tcgen05.fence::after_thread_sync;
"""


def mma(kind, a="%d20", tail="", modifiers="", scale=""):
    return (
        f" tcgen05.mma.cta_group::2.kind::{kind}{modifiers} [%r2], {a}, %d21, %r20, {tail}%p5"
        f"{scale};"
    )


def body(instructions, issuer=0, before="", commit=COMMIT):
    """One thread of the pair executes ``instructions`` and commits them."""
    return before + ISSUER.format(issuer=issuer) + OPERANDS + instructions + commit + WAIT


def program(text):
    """PTX of the kernel around a body."""
    return build(text, shared_bytes=IMAGE_BYTES, params=_PARAMS, group=2)


def place(image, codes, kind, at, swizzle, major):
    """Puts an operand into an image of shared memory and returns its descriptor."""
    leading, stride, size = model.offsets_of(
        swizzle, major, model.element_bytes(kind), *codes.shape
    )
    assert size <= 32 * 1024
    if kind in model.MINI:
        image[at : at + size] = 0
    model.place_operand(image, at, codes, kind, swizzle, major, leading, stride)
    return model.descriptor(IMAGE_START + at, leading, stride, swizzle)


class PairCase:
    """One instruction of a pair: operands in the images of both CTAs, and what must come out."""

    def __init__(
        self, kind, a, b, d="f32", m=256, n=64, *, majors="KK", swizzles=("128B", "128B"),
        accumulate=True, seed=0, spread=4.0, **fields,
    ):  # fmt: skip
        self.rng = rng = np.random.default_rng([seed, m, n, *map(ord, kind + a + b)])
        self.kind, self.a_type, self.b_type, self.d, self.m, self.n = kind, a, b, d, m, n
        self.accumulate = accumulate
        self.images = rng.integers(0, 256, (2, IMAGE_BYTES), dtype=np.uint8)
        self.a_codes, self.a = model.random_operand(rng, a, (m, DEPTH[kind]), spread)
        self.b_codes, self.b = model.random_operand(rng, b, (n, DEPTH[kind]), spread)
        major = {"K": "K", "M": "MN"}
        for rank, image in enumerate(self.images):
            rows = self.a_codes[m // 2 * rank :][: m // 2]
            columns = self.b_codes[n // 2 * rank :][: n // 2]
            a_descriptor = place(image, rows, a, A_AT, swizzles[0], major[majors[0]])
            b_descriptor = place(image, columns, b, B_AT, swizzles[1], major[majors[1]])
        instruction = model.instruction_descriptor(
            m, n, a, b, d, major[majors[0]], major[majors[1]], **fields
        )
        self.args = [a_descriptor, b_descriptor, instruction, int(accumulate)]
        self.cells = rng.integers(0, 2**32, (2, LANES, COLUMNS), dtype=np.uint32)
        c = rng.standard_normal((m, n)) * np.exp2(rng.uniform(-spread, spread))
        if d == "s32":
            c = rng.integers(-(2**31), 2**31, c.shape)
        self.c = c.astype({"f32": np.float32, "f16": np.float16, "s32": np.int32}[d])
        self.store(self.cells, self.c)

    def cell(self, row, column):
        """CTA, lane and column of an element of D: layouts A and B of the PTX ISA."""
        if self.m == 256:
            return row // 128, row % 128, column
        half = self.n // 2
        return row // 64, row % 64 + 64 * (column // half), column % half

    def store(self, cells, matrix):
        words = matrix.view(np.uint16 if self.d == "f16" else np.uint32)
        for i in range(self.m):
            for j in range(self.n):
                cells[self.cell(i, j)] = words[i, j]

    def store_a(self, column, codes=None):
        """Puts A into tensor memory, 32 bytes of a row into eight columns."""
        codes = self.a_codes if codes is None else codes
        words = np.ascontiguousarray(codes).view(np.uint8).reshape(len(codes), -1).view(np.uint32)
        for row, values in enumerate(words):
            lanes = [row % 128] if self.m == 256 else [row % 64, row % 64 + 64]
            for lane in lanes:
                self.cells[row // (self.m // 2), lane, column : column + 8] = values

    def expected(self, a=None, **fields):
        c = self.c if self.accumulate else np.zeros_like(self.c)
        a = self.a if a is None else a
        return model.reference(a, self.b, c, self.a_type, self.b_type, self.d, **fields)

    def check(self, expected=None, text=None, keep=None, **options):
        """Runs and compares both tensor memories, also what must not change."""
        after = self.cells.copy()
        self.store(after, self.expected() if expected is None else expected)
        if keep is not None:
            after[keep] = self.cells[keep]
        out = self.run(body(mma(self.kind)) if text is None else text, **options)
        differing = np.argwhere(out != after)
        assert len(differing) == 0, (len(differing), differing[:4])

    def run(self, text, grid=2, cluster=2, **options):
        data, cells = (np.tile(x, (grid // 2, 1)) for x in (self.images, self.cells.reshape(2, -1)))
        cells = cells.reshape(grid, LANES, COLUMNS)
        out, _ = run(program(text), cells, data, self.args, grid=grid, cluster=cluster, **options)
        for pair in range(1, grid // 2):
            np.testing.assert_array_equal(out[2 * pair : 2 * pair + 2], out[:2])
        return out[:2]
