"""PTX of the steps of a GEMM on a B200 whose tiles pairs of CTAs compute; see timing_steps.py.

Each CTA loads its 128 rows of A and half of the rows of B. The even one issues the products of
both, whose operands complete on its barriers; commits tell both. The persistent kernel has two
accumulators: four warps store one while the other is computed.
"""

from __future__ import annotations

from timing_steps_ptx import ROWS, STORE, Step, wait

# Barriers: full from 0 on, empty from 64 on; accumulators computed at 128 and 136, stored at 144
# and 152.
_HEAD = """.version 8.7
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .align 64 .b8 TA[128], .param .align 64 .b8 TB[128], .param .u64 C,
    .param .u32 TILES, .param .u32 STEPS, .param .u32 N, .param .u32 COUNT)
.maxntid {threads}, 1, 1 .reqnctapercluster 2
{{
 .reg .b32 %t, %i, %x, %warp, %row, %col, %base, %bars, %k, %n, %r<40>, %v<16>, %p<4>;
 .reg .b32 %rank, %cols, %count, %tile, %all, %stage, %phase, %acc, %turn;
 .reg .f32 %f<8>; .reg .b64 %ta, %tb, %a, %b, %d, %e, %high, %c; .reg .b16 %both;
 .reg .pred %one, %two, %first, %w, %q, %any, %alloc;
 .shared .align 8 .b64 bar[32]; .shared .b32 slot;
 mov.b64 %ta, TA; cvta.param.u64 %ta, %ta; mov.b64 %tb, TB; cvta.param.u64 %tb, %tb;
 mov.u32 %x, %tid.x; shr.u32 %warp, %x, 5; mov.u32 %base, smem; mov.u32 %bars, bar;
 mov.u32 %rank, %cluster_ctarank; mov.u32 %all, %nctaid.x; mov.u32 %tile, %ctaid.x;
 setp.eq.u32 %one, %x, 0; setp.eq.u32 %q, %rank, 0; setp.eq.and.u32 %two, %x, 32, %q;
 setp.eq.u32 %alloc, %warp, 1; mov.b16 %both, 3;
 ld.param.u32 %cols, [TILES]; ld.param.u32 %n, [STEPS]; ld.param.u32 %count, [COUNT];
 mov.u32 %i, {instruction}; mov.u64 %high, {high}; mov.u32 %r3, slot;
 mov.u32 %stage, 0; mov.u32 %acc, 0;
 @%alloc tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r3], {columns};
{inits} @%one fence.mbarrier_init.release.cluster;
 tcgen05.fence::before_thread_sync;
 barrier.cluster.arrive; barrier.cluster.wait;
 tcgen05.fence::after_thread_sync;
 ld.shared.u32 %t, [%r3];
"""
_END = """ tcgen05.fence::after_thread_sync;
 @%alloc tcgen05.dealloc.cta_group::2.sync.aligned.b32 %t, {columns};
 @%alloc tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
 ret;
}}
"""
# Pairs of tiles one above the other, along a row of them.
_PLACE = """ shl.b32 %r1, %cols, 1; div.u32 %row, %tile, %r1; shl.b32 %row, %row, 1;
 add.u32 %row, %row, %rank; shl.b32 %row, %row, 7;
 shr.u32 %col, %tile, 1; rem.u32 %col, %col, %cols; mul.lo.u32 %col, %col, {tile_n};
"""
_ADVANCE = """ add.u32 %stage, %stage, 1; setp.eq.u32 %q, %stage, {stages};
 selp.b32 %stage, 0, %stage, %q; @%q xor.b32 %phase, %phase, 1;
 add.u32 %k, %k, 1; setp.lt.u32 %any, %k, %n; @%any bra {loop};
"""
_NEXT_TILE = """ add.u32 %tile, %tile, %all; setp.lt.u32 %any, %tile, %count; @%any bra {loop};
"""
_OTHER_ACCUMULATOR = """ xor.b32 %acc, %acc, 1; setp.eq.u32 %q, %acc, 0;
 @%q xor.b32 %turn, %turn, 1;
"""
_COPY = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2"
)
_COMMIT = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"


def _barrier(at: int) -> str:
    return f" mad.lo.u32 %r8, %acc, 8, %bars; add.u32 %r8, %r8, {at}; mov.u32 %r9, %turn;\n"


def _producer(step: Step) -> str:
    """Loads the blocks of tiles into their slots."""
    load = f"""
LOAD: mad.lo.u32 %r7, %stage, 8, %bars; add.u32 %r8, %r7, 64; mov.u32 %r9, %phase;
{wait("EMPTY")} and.b32 %r7, %r7, 0xFEFFFFFF;
 mad.lo.u32 %r10, %stage, {step.stage_bytes}, %base; add.u32 %r11, %r10, {ROWS * step.k * 2};
 mul.lo.u32 %r12, %k, {step.k}; mad.lo.u32 %r13, %rank, {step.b_rows}, %col;
 {_COPY} [%r10], [%ta, {{%r12, %row}}], [%r7];
 {_COPY} [%r11], [%tb, {{%r12, %r13}}], [%r7];
 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r7], {step.stage_bytes};
"""
    loop = "PRODUCER:\n" + _PLACE.format(tile_n=step.n) + " mov.u32 %k, 0;" + load
    loop += _ADVANCE.format(stages=step.stages, loop="LOAD")
    return " mov.u32 %phase, 1;\n" + loop + _NEXT_TILE.format(loop="PRODUCER")


def _products(step: Step) -> str:
    lines = []
    for part in range(step.k // 16):
        for name, at in (("%a", 0), ("%b", ROWS * step.k * 2)):
            lines.append(
                f"add.u32 %r11, %r10, {at + part * 32}; shr.u32 %r11, %r11, 4; "
                f"cvt.u64.u32 {name}, %r11; and.b64 {name}, {name}, 0x3FFF; "
                f"or.b64 {name}, {name}, %high;"
            )
        lines.append("tcgen05.mma.cta_group::2.kind::f16 [%r12], %a, %b, %i, %first;")
        if part == 0:
            lines.append("setp.eq.u32 %first, %k, %k;")
    return "".join(f" {line}\n" for line in lines)


def _consumer(step: Step) -> str:
    """Multiplies them, and tells both CTAs of free slots and of finished accumulators."""
    stored = _barrier(144) + wait("STORED")
    multiply = f"""
MULTIPLY: mad.lo.u32 %r8, %stage, 8, %bars; mov.u32 %r9, %phase;
{wait("FULL")} tcgen05.fence::after_thread_sync;
 mad.lo.u32 %r10, %stage, {step.stage_bytes}, %base; mad.lo.u32 %r12, %acc, {step.n}, %t;
 setp.ne.u32 %first, %k, 0;
{_products(step)} mad.lo.u32 %r8, %stage, 8, %bars; add.u32 %r8, %r8, 64;
 {_COMMIT} [%r8], %both;
"""
    loop = "CONSUMER:\n" + (stored if step.persistent else "") + " mov.u32 %k, 0;" + multiply
    loop += _ADVANCE.format(stages=step.stages, loop="MULTIPLY")
    loop += _barrier(128) + f" {_COMMIT} [%r8], %both;\n" + _OTHER_ACCUMULATOR
    return " mov.u32 %phase, 0; mov.u32 %turn, 1;\n" + loop + _NEXT_TILE.format(loop="CONSUMER")


def _store(step: Step) -> str:
    """The rows of a warp of an accumulator become bfloat16."""
    return (
        _PLACE.format(tile_n=step.n)
        + f""" and.b32 %r5, %warp, 3; shl.b32 %r4, %r5, 21; add.u32 %r4, %r4, %t;
 mad.lo.u32 %r4, %acc, {step.n}, %r4;
 and.b32 %r6, %x, 31; mad.lo.u32 %r5, %r5, 32, %r6; add.u32 %r5, %r5, %row;
 ld.param.u32 %r6, [N]; ld.param.u64 %c, [C]; mul.wide.u32 %d, %r5, %r6; cvt.u64.u32 %e, %col;
 add.u64 %d, %d, %e; shl.b64 %d, %d, 1; add.u64 %c, %c, %d;
"""
        + STORE * (step.n // 8)
    )


def _one_tile(step: Step) -> str:
    return (
        " @%one bra LOADS; @%two bra MULTIPLIES; bra.uni TOGETHER;\n"
        + f"LOADS:\n{_producer(step)} bra TOGETHER;\nMULTIPLIES:\n{_consumer(step)}"
        + "TOGETHER: bar.sync 0; mov.u32 %acc, 0; mov.u32 %turn, 0; mov.u32 %tile, %ctaid.x;\n"
        + _barrier(128) + wait("DONE") + " tcgen05.fence::after_thread_sync;\n" + _store(step)
        + " tcgen05.fence::before_thread_sync; bar.sync 0;\n"
    )  # fmt: skip


def _persistent(step: Step) -> str:
    stores = f"""
EPILOGUE:
{_barrier(128)}{wait("DONE")} tcgen05.fence::after_thread_sync;
{_store(step)} tcgen05.fence::before_thread_sync;
{_barrier(144)} and.b32 %r8, %r8, 0xFEFFFFFF; and.b32 %r6, %x, 31; setp.eq.u32 %q, %r6, 0;
 @%q mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];
{_OTHER_ACCUMULATOR}"""
    return (
        " @%one bra LOADS; @%two bra MULTIPLIES; setp.ge.u32 %q, %warp, 2; @%q bra STORES;\n"
        + f" bra.uni TOGETHER;\nLOADS:\n{_producer(step)} bra TOGETHER;\n"
        + f"MULTIPLIES:\n{_consumer(step)} bra TOGETHER;\n"
        + f"STORES: mov.u32 %turn, 0;{stores}{_NEXT_TILE.format(loop='EPILOGUE')}"
        + "TOGETHER: tcgen05.fence::before_thread_sync;\n"
        + " barrier.cluster.arrive; barrier.cluster.wait;\n"
    )


def program(step: Step) -> str:
    """The PTX of a step."""
    counts = dict.fromkeys(range(0, 8 * step.stages, 8), 2)
    counts |= dict.fromkeys(range(64, 64 + 8 * step.stages, 8), 1) | {128: 1, 136: 1}
    counts |= {144: 8, 152: 8}
    columns = step.n * (2 if step.persistent else 1)
    head = _HEAD.format(
        threads=step.threads, columns=columns, high=1 << 46 | 2 << 61 | 64 << 32,
        instruction=0x490 | step.n >> 3 << 17 | 2 * ROWS >> 4 << 24,
        inits="".join(
            f" @%one mbarrier.init.shared::cta.b64 [%bars+{at}], {count};\n"
            for at, count in counts.items()
        ),
    )  # fmt: skip
    body = _persistent(step) if step.persistent else _one_tile(step)
    return head + body + _END.format(columns=columns)
