"""PTX of the steps of a GEMM on a B200 that use one CTA a tile; see timing_steps.py."""

from __future__ import annotations

import dataclasses

ROWS = 128  # of a tile of a CTA, and threads


@dataclasses.dataclass(frozen=True)
class Step:
    """One kernel: tile, stages, and what it has learned."""

    name: str
    published: float  # TFLOP/s
    n: int
    k: int
    stages: int
    swizzled: bool = True
    specialized: bool = False
    pair: bool = False  # two CTAs to a tile of ROWS rows each
    persistent: bool = False

    @property
    def b_rows(self) -> int:
        """Rows of B in the shared memory of a CTA."""
        return self.n // 2 if self.pair else self.n

    @property
    def stage_bytes(self) -> int:
        """Of A and B in bfloat16."""
        return (ROWS + self.b_rows) * self.k * 2

    @property
    def threads(self) -> int:
        """Of a CTA."""
        return 192 if self.persistent else 128


_HEAD = """.version 8.7
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .align 64 .b8 TA[128], .param .align 64 .b8 TB[128], .param .u64 C,
    .param .u32 TILES, .param .u32 STEPS, .param .u32 N)
.maxntid 128, 1, 1
{
 .reg .b32 %t, %i, %x, %warp, %row, %col, %base, %bars, %k, %kk, %n, %r<40>, %v<16>, %p<4>;
 .reg .f32 %f<8>; .reg .b64 %ta, %tb, %a, %b, %d, %e, %high, %c;
 .reg .pred %one, %two, %first, %w, %q, %any;
 .shared .align 8 .b64 bar[32]; .shared .b32 slot;
 mov.b64 %ta, TA; cvta.param.u64 %ta, %ta; mov.b64 %tb, TB; cvta.param.u64 %tb, %tb;
 mov.u32 %x, %tid.x; shr.u32 %warp, %x, 5; mov.u32 %base, smem; mov.u32 %bars, bar;
 setp.eq.u32 %one, %x, 0; setp.eq.u32 %two, %x, LEADER; setp.eq.u32 %q, %warp, 1;
 ld.param.u32 %r1, [TILES]; mov.u32 %r2, %ctaid.x; div.u32 %row, %r2, %r1;
 rem.u32 %col, %r2, %r1; shl.b32 %row, %row, 7; mul.lo.u32 %col, %col, TILE_N;
 ld.param.u32 %n, [STEPS]; mov.u32 %i, INSTRUCTION; mov.u64 %high, HIGH;
 mov.u32 %r3, slot;
 @%q tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], TILE_N;
INITS @%one fence.mbarrier_init.release.cluster;
 tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
 ld.shared.u32 %t, [%r3];
"""
_END = """ tcgen05.fence::after_thread_sync;
 shl.b32 %r4, %warp, 21; add.u32 %r4, %r4, %t;
 add.u32 %r5, %row, %x; ld.param.u32 %r6, [N]; ld.param.u64 %c, [C];
 mul.wide.u32 %d, %r5, %r6; cvt.u64.u32 %e, %col; add.u64 %d, %d, %e; shl.b64 %d, %d, 1;
 add.u64 %c, %c, %d;
STORES tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
 @%q tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t, TILE_N;
 @%q tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
 ret;
}
"""
STORE = """ tcgen05.ld.sync.aligned.32x32b.x8.b32 {%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7}, [%r4];
 tcgen05.wait::ld.sync.aligned;
 mov.b32 %f0, %v0; mov.b32 %f1, %v1; mov.b32 %f2, %v2; mov.b32 %f3, %v3;
 mov.b32 %f4, %v4; mov.b32 %f5, %v5; mov.b32 %f6, %v6; mov.b32 %f7, %v7;
 cvt.rn.bf16x2.f32 %p0, %f1, %f0; cvt.rn.bf16x2.f32 %p1, %f3, %f2;
 cvt.rn.bf16x2.f32 %p2, %f5, %f4; cvt.rn.bf16x2.f32 %p3, %f7, %f6;
 st.global.v4.b32 [%c], {%p0, %p1, %p2, %p3}; add.u64 %c, %c, 16; add.u32 %r4, %r4, 8;
"""
# The barrier keeps a warp that is late from missing two phases.
_SEQUENCE = """PREFETCH mov.u32 %k, 0;
LOOP: add.u32 %kk, %k, AHEAD; setp.lt.u32 %any, %kk, %n; and.pred %any, %any, %one;
 @!%any bra LOADED;
LOADLOADED:
WAITFULL tcgen05.fence::after_thread_sync;
 @!%one bra MULTIPLIED;
MULTIPLYMULTIPLIED:
 and.b32 %r9, %k, 1; add.u32 %r8, %bars, 128;
WAITDONE bar.sync 0;
 add.u32 %k, %k, 1; setp.lt.u32 %any, %k, %n;
 @%any bra LOOP;
"""
_ROLES = """ mov.u32 %k, 0; mov.u32 %kk, 0;
 @%one bra PRODUCER; @%two bra CONSUMER; bra.uni TOGETHER;
PRODUCER: rem.u32 %r7, %kk, STAGES; div.u32 %r9, %kk, STAGES; and.b32 %r9, %r9, 1;
 xor.b32 %r9, %r9, 1; mad.lo.u32 %r8, %r7, 8, %bars; add.u32 %r8, %r8, 64;
WAITDONELOAD add.u32 %kk, %kk, 1; setp.lt.u32 %any, %kk, %n; @%any bra PRODUCER;
 bra TOGETHER;
CONSUMER:
WAITFULL tcgen05.fence::after_thread_sync;
MULTIPLY add.u32 %k, %k, 1; setp.lt.u32 %any, %k, %n; @%any bra CONSUMER;
 add.u32 %r8, %bars, 128;
 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];
TOGETHER: bar.sync 0;
 add.u32 %r8, %bars, 128; mov.u32 %r9, 0;
WAITALL"""


def wait(label: str) -> str:
    """Until the phase of parity %r9 of the barrier at %r8 is complete."""
    return (
        f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %w, [%r8], %r9;\n @!%w bra {label};\n"
    )


def _load(step: Step) -> str:
    """Block %kk of A and B into its slot."""
    width = 64 if step.swizzled else 8
    size = step.stage_bytes
    lines = [
        f"rem.u32 %r7, %kk, {step.stages}; mad.lo.u32 %r8, %r7, 8, %bars;",
        f"mad.lo.u32 %r10, %r7, {size}, %base; mul.lo.u32 %r11, %kk, {step.k};",
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], {size};",
    ]
    for name, rows, row, at in (
        ("%ta", ROWS, "%row", 0),
        ("%tb", step.n, "%col", ROWS * step.k * 2),
    ):
        for part in range(step.k // width):
            lines.append(
                f"add.u32 %r12, %r10, {at + part * rows * width * 2}; "
                f"add.u32 %r13, %r11, {part * width}; "
                "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
                f"[%r12], [{name}, {{%r13, {row}}}], [%r8];"
            )
    return "".join(f" {line}\n" for line in lines)


def _multiply(step: Step) -> str:
    """Block %k in its slot; the barrier of what is done hears of it."""
    lines = [
        f"rem.u32 %r7, %k, {step.stages}; mad.lo.u32 %r10, %r7, {step.stage_bytes}, %base;",
        "setp.ne.u32 %first, %k, 0;",
    ]
    for part in range(step.k // 16):
        for name, rows, at in (("%a", ROWS, 0), ("%b", step.n, ROWS * step.k * 2)):
            offset = part * rows * 32
            if step.swizzled:  # four products in a panel of 64 columns
                offset = part // 4 * rows * 128 + part % 4 * 32
            leading = 0 if step.swizzled else rows << 16
            lines.append(
                f"add.u32 %r11, %r10, {at + offset}; shr.u32 %r11, %r11, 4; "
                f"or.b32 %r11, %r11, {leading}; cvt.u64.u32 {name}, %r11; "
                f"or.b64 {name}, {name}, %high;"
            )
        lines.append("tcgen05.mma.cta_group::1.kind::f16 [%t], %a, %b, %i, %first;")
        if part == 0:
            lines.append("setp.eq.u32 %first, %k, %k;")
    done = "mad.lo.u32 %r8, %r7, 8, %bars; add.u32 %r8, %r8, 64;"
    lines.append(done if step.specialized else "add.u32 %r8, %bars, 128;")
    lines.append("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];")
    return "".join(f" {line}\n" for line in lines)


def program(step: Step) -> str:
    """The PTX of a step."""
    full = (
        f" rem.u32 %r7, %k, {step.stages}; div.u32 %r9, %k, {step.stages}; and.b32 %r9, %r9, 1;\n"
        " mad.lo.u32 %r8, %r7, 8, %bars;\n"
    )
    prefetch = "".join(
        f" mov.u32 %kk, {i};\n @!%one bra AHEAD{i};\n{_load(step)}AHEAD{i}:\n"
        for i in range(step.stages - 1)
    )
    inits = "".join(
        f" @%one mbarrier.init.shared::cta.b64 [%bars+{at}], 1;\n"
        for at in (*range(0, 8 * step.stages, 8), *range(64, 64 + 8 * step.stages, 8), 128)
    )
    # Strides between groups of eight rows; a swizzle of 128 bytes.
    high = 1 << 46 | (2 << 61 | 64 << 32 if step.swizzled else 8 << 32)
    body = _ROLES if step.specialized else _SEQUENCE
    pieces = {
        "PREFETCH": prefetch, "WAITFULL": full + wait("FULL"), "WAITDONE": wait("DONE"),
        "WAITALL": wait("ALL"), "MULTIPLY": _multiply(step), "LOAD": _load(step),
        "STAGES": str(step.stages), "AHEAD": str(step.stages - 1),
    }  # fmt: skip
    # Labels contain some of these words.
    for name in ("PREFETCH", "WAITFULL", "WAITDONE", "WAITALL"):
        body = body.replace(name, pieces[name])
    body = body.replace("MULTIPLYMULTIPLIED", pieces["MULTIPLY"] + "MULTIPLIED")
    body = body.replace("LOADLOADED", pieces["LOAD"] + "LOADED")
    body = body.replace("LOAD add", pieces["LOAD"] + " add")
    body = body.replace("MULTIPLY add", pieces["MULTIPLY"] + " add")
    body = body.replace(", AHEAD;", f", {step.stages - 1};").replace("STAGES", pieces["STAGES"])
    text = _HEAD.replace("INITS", inits) + body + _END.replace("STORES", STORE * (step.n // 8))
    values = {
        "LEADER": 32, "TILE_N": step.n, "HIGH": high,
        "INSTRUCTION": 0x490 | step.n >> 3 << 17 | ROWS >> 4 << 24,
    }  # fmt: skip
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text
