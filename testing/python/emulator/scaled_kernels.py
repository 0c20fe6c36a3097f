"""Block-scaled tcgen05.mma of one CTA or a pair: operands, scale factors, what must come out."""

from __future__ import annotations

import numpy as np
from emulator.pair_kernels import IMAGE_BYTES, IMAGE_START, body, program
from emulator.tmem_kernels import COLUMNS, COMMIT, LANES, build, run

from emulator import scaled_model
from emulator import tensor_core_model as model

A_AT, B_AT = 0, 32 * 1024
#: From one buffer of an operand to the next, for rows of K = 96 that run over the first.
BUFFER = 16 * 1024
#: Columns of tensor memory: D from 0 on.
SFA_AT, SFB_AT, TMEM_A_AT = 300, 320, 400
PARAMS = ", .param .u64 ADESC, .param .u64 BDESC, .param .u32 IDESC, .param .u32 ACCUMULATE"
OPERANDS = """
 ld.param.u64 %d20, [ADESC]; ld.param.u64 %d21, [BDESC]; ld.param.u32 %r20, [IDESC];
 ld.param.u32 %r21, [ACCUMULATE]; setp.ne.u32 %p5, %r21, 0;
"""


def mma(kind, vector, group=1, a="%d20", sfa=SFA_AT, sfb=SFB_AT):
    return (
        f" tcgen05.mma.cta_group::{group}.kind::{kind}.block_scale{vector} [%r2], {a}, %d21, %r20,"
        f" [%r2+{sfa}], [%r2+{sfb}], %p5;"
    )


def one_cta(instructions):
    return f" @!%p0 bra ISSUED;{OPERANDS}{instructions}{COMMIT}"


def place_nibbles(image, start, codes, swizzle, lbo, sbo, column=0):
    """Two elements of four bits in a byte, K-major; rows begin at byte ``column`` of a line."""
    xor = model.SWIZZLES[swizzle][2]
    for row, line in enumerate(codes):
        for i in range(len(line) // 2):
            buffer, byte = divmod(column + i, 128)
            offset = model.element_offset(swizzle, "K", 1, row, byte, lbo, sbo)
            image[xor(start + buffer * BUFFER + offset)] = line[2 * i] | line[2 * i + 1] << 4


class ScaledCase:
    def __init__(
        self, kind, a="e2m1", b="e2m1", scale="ue8m0", *, block=32, m=128, n=64, group=1,
        swizzles=("128B", "128B"), majors=("K", "K"), ids=(0, 0), accumulate=True, seed=0,
        negate=(0, 0), exact=False, depth=None, column=0,
    ):  # fmt: skip
        self.rng = rng = np.random.default_rng([seed, m, n, block, group, *map(ord, kind + a + b)])
        self.kind, self.a_kind, self.b_kind, self.scale_kind = kind, a, b, scale
        self.fp4 = kind != "mxf8f6f4"
        self.m, self.n, self.group, self.ids, self.accumulate = m, n, group, ids, accumulate
        self.depth = depth or (64 if self.fp4 else 32)
        self.column = column
        self.count = self.depth // block
        self.a_codes, self.a = model.random_operand(rng, a, (m, self.depth))
        self.b_codes, self.b = model.random_operand(rng, b, (n, self.depth))
        spread = 1 if exact else 12
        self.sa = scaled_model.random_scales(rng, scale, (m, self.count), spread)
        self.sb = scaled_model.random_scales(rng, scale, (n, self.count), spread)
        self.c = (rng.standard_normal((m, n)) * np.exp2(rng.uniform(-8, 8))).astype(np.float32)
        if exact:
            self.c = rng.integers(-64, 64, (m, n)).astype(np.float32)
        self.images = rng.integers(0, 256, (group, IMAGE_BYTES), dtype=np.uint8)
        for rank, image in enumerate(self.images):
            rows = self.a_codes[m // group * rank :][: m // group]
            columns = self.b_codes[n // group * rank :][: n // group]
            descriptors = [
                self._place(image, rows, a, A_AT, swizzles[0], majors[0]),
                self._place(image, columns, b, B_AT, swizzles[1], majors[1]),
            ]
        self.args = [*descriptors, self.instruction(negate, majors), int(accumulate)]
        self.negate = negate
        self.cells = rng.integers(0, 2**32, (group, LANES, COLUMNS), dtype=np.uint32)
        self.store(self.cells, self.c)
        self.store_scales()

    def instruction(self, negate, majors):
        codes = [1, 1] if self.fp4 else [model.TYPE_CODES[k] for k in (self.a_kind, self.b_kind)]
        return (
            self.ids[1] << 4 | codes[0] << 7 | codes[1] << 10 | negate[0] << 13 | negate[1] << 14
            | (majors[0] == "MN") << 15 | (majors[1] == "MN") << 16 | self.n >> 3 << 17
            | (self.scale_kind == "ue8m0") << 23 | self.m >> 7 << 27 | self.ids[0] << 29
            | (self.depth == 96) << 31
        )  # fmt: skip

    def _place(self, image, codes, kind, at, swizzle, major):
        row_bytes = self.depth // 2 if self.fp4 else self.depth
        lbo, sbo, size = model.offsets_of(swizzle, major, 1, len(codes), row_bytes)
        assert size <= 32 * 1024
        if self.fp4:
            place_nibbles(image, at, codes, swizzle, lbo, sbo, self.column)
            if self.depth == 96 and swizzle == "128B":
                start = IMAGE_START + at
                bits = model.descriptor(start + self.column, start + BUFFER, sbo, swizzle)
                return bits | 1 << 52
        else:
            if kind in model.MINI:
                image[at : at + size] = 0
            model.place_operand(image, at, codes, kind, swizzle, major, lbo, sbo)
        return model.descriptor(IMAGE_START + at, lbo, sbo, swizzle)

    def cell(self, row, column):
        """CTA, lane and column of D: layouts D, A and B of the PTX ISA."""
        if self.group == 1 or self.m == 256:
            return row // 128, row % 128, column
        half = self.n // 2
        return row // 64, row % 64 + 64 * (column // half), column % half

    def store(self, cells, matrix):
        words = matrix.view(np.uint32)
        for i in range(self.m):
            for j in range(self.n):
                cells[self.cell(i, j)] = words[i, j]

    def put_scale(self, cta, quarters, row, column, byte, code):
        for quarter in quarters:
            at = (cta, 32 * quarter + row % 32, column + row // 32)
            cell = int(self.cells[at]) & ~(0xFF << 8 * (byte % 4))
            self.cells[at] = cell | int(code) << 8 * (byte % 4)

    def store_scales(self):
        rows = self.m // self.group
        halves = 2 if self.group == 2 and self.m == 128 else 1
        for j in range(self.count):
            byte_a, byte_b = self.ids[0] + j, self.ids[1] + j
            # Four bytes along K are a group of columns.
            sfa = SFA_AT + byte_a // 4 * 4
            sfb = SFB_AT + byte_b // 4 * 4 * -(-(self.n // halves) // 128)
            for row, code in enumerate(self.sa[:, j]):
                self.put_scale(row // rows, range(4), row % rows, sfa, byte_a, code)
            for column, code in enumerate(self.sb[:, j]):
                half, own = divmod(column, self.n // halves)
                quarters = range(4 // halves * half, 4 // halves * (half + 1))
                for cta in range(self.group):
                    self.put_scale(cta, quarters, own, sfb, byte_b, code)

    def store_a(self):
        """A into tensor memory; elements of eight bits, or nibbles."""
        codes = self.a_codes.astype(np.uint8)
        if self.fp4:
            codes = codes[:, ::2] | codes[:, 1::2] << 4
        elif self.a_kind == "e2m1":
            codes = codes << 2
        words = np.ascontiguousarray(codes).view(np.uint32)
        rows = self.m // self.group
        for row, values in enumerate(words):
            for lane in range(row % rows, 128, rows):
                self.cells[row // rows, lane, TMEM_A_AT : TMEM_A_AT + 8] = values

    def expected(self):
        c = self.c if self.accumulate else np.zeros_like(self.c)
        a, b = ((-x if flag else x) for x, flag in zip((self.a, self.b), self.negate, strict=True))
        return scaled_model.reference(
            a, b, c, self.sa, self.sb, self.a_kind, self.b_kind, self.scale_kind, self.fp4
        )

    def check(self, vector=None, expected=None, a="%d20", high=0, **options):
        """Runs and compares all of tensor memory; ``high`` is added to the addresses of factors."""
        vector = f".block{self.depth // self.count}" if vector is None else vector
        after = self.cells.copy()
        self.store(after, self.expected() if expected is None else expected)
        text = mma(self.kind, vector, self.group, a, SFA_AT + high, SFB_AT + high)
        if self.group == 1:
            text = build(one_cta(text), shared_bytes=IMAGE_BYTES, params=PARAMS)
            out, report = run(text, self.cells[0], self.images[0], self.args, **options)
            out = out[None]
        else:
            options = {"grid": 2, "cluster": 2, **options}
            out, report = run(program(body(text)), self.cells, self.images, self.args, **options)
        # NaN by its bits.
        differing = np.argwhere(out != after)
        assert len(differing) == 0, (len(differing), differing[:4])
        return report
