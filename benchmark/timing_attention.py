"""Attention on a B200 in the structure of FlashAttention-4, by the timing model; needs no GPU.

    python benchmark/timing_attention.py [--check]

The forward kernel of the FlashAttention-4 paper (arXiv 2603.05451), 128 dimensions, bfloat16, as
PTX that this file writes: a persistent CTA has two tiles of 128 queries at a time, whose scores and
sums lie in tensor memory. One warp loads, one multiplies; a warpgroup for each tile computes its
weights, which replace the scores there, and of which the first three quarters are multiplied before
the others are there; a third warpgroup rescales the sums, only if a maximum has grown by more than
a factor of 2^8, and stores them at the end. A quarter of the exponentials is a polynomial. Prints
the TFLOP/s of the model and the share of the peak, beside the published ones.
``--check`` computes a small one and compares it with float64.
"""

from __future__ import annotations

import argparse

import numpy as np

from tilelang.emulator import Device, TimingOptions

DIMENSIONS = 128
TILE = 128  # queries of a warpgroup, keys of a block
STAGES = 3  # blocks of keys or values in shared memory
PEAK = 2 * 4096 * 148 * 1.85e9 / 1e12  # TFLOP/s
PUBLISHED = 1613.0

_BLOCK = TILE * DIMENSIONS * 2  # bytes
# Shared memory: queries, then blocks.
_BLOCKS_AT = 2 * _BLOCK
_OUT_AT = (2 + STAGES) * _BLOCK  # results, in two panels for each tile
# Offsets of mbarriers.
_Q_FULL, _KV_FULL, _KV_EMPTY, _S_FULL, _P_FULL = 0, 16, 40, 64, 80
_O_SCALED, _SCALE, _SCALE_TAKEN, _P_LAST = 96, 112, 128, 144
_O_FULL, _Q_EMPTY = 160, 176
_SMS = 148
_FIRST = 96  # weights of a row that are multiplied before the others are there
# Columns of tensor memory.
_S_AT, _O_AT = 0, 256

_HEAD = """.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .align 64 .b8 TQ[128], .param .align 64 .b8 TK[128],
    .param .align 64 .b8 TV[128], .param .align 64 .b8 TO[128], .param .u32 BLOCKS,
    .param .u32 TILES, .param .f32 SCALE)
.maxntid 512, 1, 1 .minnctapersm 1
{
 .reg .b32 %t, %x, %warp, %bars, %base, %n, %j, %parity, %other, %row, %head, %r<20>, %p<64>;
 // The tile of 256 queries, how many come before it here, blocks and factors of all so far.
 .reg .b32 %tile, %tiles, %step, %turn, %g, %c, %last;
 .reg .f32 %s<128>, %m, %new, %top<4>, %alpha, %scale, %total, %f<8>, %low, %high;
 .reg .b64 %tq, %tk, %tv, %to, %a, %b, %w<8>, %scale2, %shift2, %sum<4>, %magic2, %k<4>;
 .reg .pred %q, %w, %lazy, %first, %one, %any;
 .shared .align 8 .b64 bar[24]; .shared .b32 slot; .shared .f32 alphas[256];
 mov.b64 %tq, TQ; cvta.param.u64 %tq, %tq; mov.b64 %tk, TK; cvta.param.u64 %tk, %tk;
 mov.b64 %tv, TV; cvta.param.u64 %tv, %tv; mov.b64 %to, TO; cvta.param.u64 %to, %to;
 ld.param.u32 %n, [BLOCKS]; ld.param.f32 %scale, [SCALE];
 mov.u32 %x, %tid.x; shr.u32 %warp, %x, 5; mov.u32 %bars, bar; mov.u32 %base, smem;
 setp.eq.u32 %one, %x, 0; setp.eq.u32 %q, %warp, 12;
 ld.param.u32 %tiles, [TILES]; mov.u32 %step, %nctaid.x; mov.u32 %tile, %ctaid.x;
 mov.u32 %turn, 0; mov.u32 %g, 0; mov.u32 %c, 0; mov.u32 %r2, slot;
 @%q tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 512;
INITS @%one fence.mbarrier_init.release.cluster;
 tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
 ld.shared.u32 %t, [%r2];
 setp.ge.u32 %q, %warp, 14; @%q bra END; setp.eq.u32 %q, %warp, 13; @%q bra LOADS;
 setp.eq.u32 %q, %warp, 12; @%q bra PRODUCTS; setp.ge.u32 %q, %warp, 8; @%q bra CORRECTION;
"""
_END = """END: tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
 setp.eq.u32 %q, %warp, 12;
 @%q tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t, 512;
 @%q tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
 ret;
}
"""
# The keys and values of a tile's head begin at row %head.
_PLACE = """ shr.u32 %r0, %n, 1; div.u32 %head, %tile, %r0; mul.lo.u32 %head, %head, %n;
 shl.b32 %head, %head, 7; shl.b32 %row, %tile, 8; mov.u32 %j, 0;
"""
_labels = 0


def _next_tile(label: str) -> str:
    return (
        " add.u32 %tile, %tile, %step; xor.b32 %turn, %turn, 1; setp.lt.u32 %any, %tile, %tiles;\n"
        f" @%any bra {label};\n bra END;\n"
    )


def _wait(address: str, parity: str) -> str:
    global _labels
    _labels += 1
    label = f"W{_labels}"
    return (
        f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %w, [{address}], {parity};\n"
        f" @!%w bra {label};\n"
    )


def _arrive(address: str) -> str:
    return f" mbarrier.arrive.shared::cta.b64 _, [{address}];\n"


def _commit(address: str) -> str:
    return f" tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{address}];\n"


def _names(name: str, count: int, first: int = 0) -> str:
    return ", ".join(f"%{name}{first + i}" for i in range(count))


def _slot(index: str) -> str:
    """%r3, %r4 and %r5: the slot of a block, its offset among barriers, its parity."""
    return (
        f" rem.u32 %r3, {index}, {STAGES}; shl.b32 %r4, %r3, 3; div.u32 %r5, {index}, {STAGES};\n"
        " and.b32 %r5, %r5, 1; add.u32 %r4, %r4, %bars;\n"
    )


# --- the warp that loads --------------------------------------------------------------------------


def _copy(tensor: str, to: str, row: str, barrier: str) -> str:
    """128 rows in two panels of 64 columns."""
    text = f" mbarrier.arrive.expect_tx.shared::cta.b64 _, [{barrier}], {_BLOCK};\n"
    for panel in (0, 1):
        text += (
            f" add.u32 %r8, {to}, {panel * _BLOCK // 2}; mov.u32 %r9, {panel * 64};\n"
            " cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
            f"[%r8], [{tensor}, {{%r9, {row}}}], [{barrier}];\n"
        )
    return text


def _loads() -> str:
    text = "LOADS: setmaxnreg.dec.sync.aligned.u32 48; elect.sync _|%q, -1; @!%q bra END;\n"
    text += "TILE:\n" + _PLACE + " xor.b32 %other, %turn, 1;\n"
    for tile in (0, 1):
        text += f" add.u32 %r10, %bars, {_Q_EMPTY + 8 * tile};\n" + _wait("%r10", "%other")
        text += (
            f" add.u32 %r6, %base, {tile * _BLOCK}; add.u32 %r7, %row, {tile * TILE};\n"
            + f" add.u32 %r10, %bars, {_Q_FULL + 8 * tile};\n"
            + _copy("%tq", "%r6", "%r7", "%r10")
        )
        if tile == 0:
            text += " mov.u32 %r12, %head;\n"
    text += "BLOCK:\n"
    for part, tensor in enumerate(("%tk", "%tv")):
        text += (
            f" mad.lo.u32 %r11, %g, 2, {part};\n" + _slot("%r11") + " xor.b32 %r5, %r5, 1;\n"
            + f" add.u32 %r10, %r4, {_KV_EMPTY};\n" + _wait("%r10", "%r5")
            + f" add.u32 %r10, %r4, {_KV_FULL}; mad.lo.u32 %r6, %r3, {_BLOCK}, %base;\n"
            + f" add.u32 %r6, %r6, {_BLOCKS_AT};\n" + _copy(tensor, "%r6", "%r12", "%r10")
        )  # fmt: skip
    return (
        text
        + (
            f" add.u32 %r12, %r12, {TILE}; add.u32 %g, %g, 1; add.u32 %j, %j, 1;\n"
            " setp.lt.u32 %any, %j, %n; @%any bra BLOCK;\n"
        )
        + _next_tile("TILE")
    )


# --- the warp that multiplies ---------------------------------------------------------------------

_K_MAJOR = 1 << 46 | 2 << 61 | 1024 >> 4 << 32
_MN_MAJOR = _K_MAJOR | (_BLOCK // 2) >> 4 << 16
_INSTRUCTION = 0x490 | TILE >> 3 << 17 | TILE >> 4 << 24


def _descriptor(name: str, base: str, offset: int, high: int) -> str:
    return (
        f" add.u32 %r15, {base}, {offset}; shr.u32 %r15, %r15, 4; cvt.u64.u32 {name}, %r15; "
        f"or.b64 {name}, {name}, {high};\n"
    )


def _scores(tile: int, keys: str) -> str:
    """Queries by the keys at shared address ``keys``."""
    text = f" add.u32 %r14, %t, {_S_AT + TILE * tile}; setp.ne.u32 %first, 0, 0;\n"
    for part in range(DIMENSIONS // 16):
        at = part // 4 * (_BLOCK // 2) + part % 4 * 32
        text += _descriptor("%a", "%base", tile * _BLOCK + at, _K_MAJOR)
        text += _descriptor("%b", keys, at, _K_MAJOR)
        text += f" tcgen05.mma.cta_group::1.kind::f16 [%r14], %a, %b, {_INSTRUCTION}, %first;\n"
        if part == 0:
            text += " setp.eq.u32 %first, 0, 0;\n"
    return text + f" add.u32 %r10, %bars, {_S_FULL + 8 * tile};\n" + _commit("%r10")


def _sums(tile: int, values: str) -> str:
    """Weights by the values at shared address ``values``, added from the second block on."""
    text = f" add.u32 %r14, %t, {_O_AT + TILE * tile}; setp.ne.u32 %first, %j, 0;\n"
    for part in range(TILE // 16):
        if part == _FIRST // 16:
            text += f" add.u32 %r10, %bars, {_P_LAST + 8 * tile};\n" + _wait("%r10", "%parity")
            text += " tcgen05.fence::after_thread_sync;\n"
        text += _descriptor("%b", values, part * 2048, _MN_MAJOR)
        text += (
            f" tcgen05.mma.cta_group::1.kind::f16 [%r14], [%t+{_S_AT + TILE * tile + 8 * part}], "
            f"%b, {_INSTRUCTION | 1 << 16}, %first;\n"
        )
        if part == 0:
            text += " setp.eq.u32 %first, 0, 0;\n"
    return text


def _block(register: str, index: str) -> str:
    """Waits for a block; ``register`` is its address, and that of its empty barrier is above."""
    empty = f"%r{int(register[2:]) + 1}"
    return (
        _slot(index) + f" add.u32 %r10, %r4, {_KV_FULL};\n" + _wait("%r10", "%r5")
        + f" mad.lo.u32 {register}, %r3, {_BLOCK}, %base; "
        + f"add.u32 {register}, {register}, {_BLOCKS_AT}; add.u32 {empty}, %r4, {_KV_EMPTY};\n"
    )  # fmt: skip


def _products() -> str:
    text = "PRODUCTS: setmaxnreg.dec.sync.aligned.u32 48; elect.sync _|%q, -1; @!%q bra END;\n"
    text += "FIRST: mov.u32 %j, 0; mul.lo.u32 %r11, %g, 2;\n" + _block("%r16", "%r11")
    for tile in (0, 1):
        text += f" add.u32 %r10, %bars, {_Q_FULL + 8 * tile};\n" + _wait("%r10", "%turn")
        text += _scores(tile, "%r16")
    text += _commit("%r17") + "MULTIPLY: and.b32 %parity, %g, 1; mad.lo.u32 %r11, %g, 2, 1;\n"
    text += _block("%r18", "%r11") + " add.u32 %r11, %r11, 1; add.u32 %r12, %j, 1;\n"
    text += " setp.lt.u32 %any, %r12, %n; @%any bra QUERIES;\n"
    for tile in (0, 1):
        text += f" add.u32 %r10, %bars, {_Q_EMPTY + 8 * tile};\n" + _commit("%r10")
    text += "QUERIES:\n"
    for tile in (0, 1):
        for barrier in (_P_FULL, _O_SCALED):
            text += f" add.u32 %r10, %bars, {barrier + 8 * tile};\n" + _wait("%r10", "%parity")
        text += " tcgen05.fence::after_thread_sync;\n" + _sums(tile, "%r18")
        if tile == 1:
            text += _commit("%r19")
        text += f" @!%any bra LAST{tile};\n"
        if tile == 0:
            text += _block("%r16", "%r11")
        text += _scores(tile, "%r16") + f"LAST{tile}:\n"
    text += " add.u32 %g, %g, 1; @%any bra MORE;\n"
    for tile in (0, 1):
        text += f" add.u32 %r10, %bars, {_O_FULL + 8 * tile};\n" + _commit("%r10")
    text += _next_tile("FIRST")
    return text + "MORE:\n" + _commit("%r17") + " mov.u32 %j, %r12; bra MULTIPLY;\n"


# --- the warpgroups of weights --------------------------------------------------------------------


def _maximum() -> str:
    text = ""
    for i in range(0, TILE, 2):
        top = f"%top{i // 2 % 4}"
        before = "%m" if i < 8 else top
        text += f" max.f32 {top}, {before}, %s{i}, %s{i + 1};\n"
    return text + " max.f32 %top0, %top0, %top1, %top2; max.f32 %new, %top0, %top3;\n"


def _exponentials(first: int, polynomial: bool) -> str:
    """Weights of two neighbours, from scores."""
    low, high = f"%s{first}", f"%s{first + 1}"
    text = f" mov.b64 %w0, {{{low}, {high}}}; fma.rn.f32x2 %w0, %w0, %scale2, %shift2;\n"
    if not polynomial:
        return text + (
            f" mov.b64 {{{low}, {high}}}, %w0;\n"
            f" ex2.approx.ftz.f32 {low}, {low}; ex2.approx.ftz.f32 {high}, {high};\n"
        )
    return text + (
        " mov.b64 {%low, %high}, %w0; max.f32 %low, %low, 0fC2FC0000;\n"
        " max.f32 %high, %high, 0fC2FC0000; mov.b64 %w0, {%low, %high};\n"
        " add.rn.f32x2 %w1, %w0, %magic2; sub.rn.f32x2 %w2, %w1, %magic2;\n"
        " sub.rn.f32x2 %w0, %w0, %w2; fma.rn.f32x2 %w3, %w0, %k3, %k2;\n"
        " fma.rn.f32x2 %w3, %w3, %w0, %k1; fma.rn.f32x2 %w3, %w3, %w0, %k0;\n"
        " mov.b64 {%r6, %r7}, %w1; mov.b64 {%r8, %r9}, %w3;\n"
        " shl.b32 %r6, %r6, 23; shl.b32 %r7, %r7, 23; add.s32 %r8, %r8, %r6;\n"
        f" add.s32 %r9, %r9, %r7; mov.b32 {low}, %r8; mov.b32 {high}, %r9;\n"
    )


def _weights() -> str:
    """In parts of 32 columns, each packed and stored when it is ready; tells of the first ones."""
    text = ""
    for part in range(0, TILE, 32):
        for first in range(part, part + 32, 2):
            text += _exponentials(first, polynomial=first // 2 % 4 == 3)
        text += "".join(
            f" cvt.rn.bf16x2.f32 %p{i}, %s{2 * i + 1}, %s{2 * i};\n"
            for i in range(part // 2, part // 2 + 16)
        )
        text += (
            f" tcgen05.st.sync.aligned.32x32b.x16.b32 [%r14+{part // 2}], "
            f"{{{_names('p', 16, part // 2)}}};\n"
        )
        if part + 32 in (_FIRST, TILE):
            barrier = _P_FULL if part + 32 == _FIRST else _P_LAST
            text += " tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;\n"
            text += f" add.u32 %r10, %r1, {barrier};\n" + _arrive("%r10")
    return text


def _softmax() -> str:
    constants = (1.0, 0.6931472, 0.2402265, 0.0555041)
    text = """ setmaxnreg.inc.sync.aligned.u32 192;
 shr.u32 %r0, %warp, 2; shl.b32 %r1, %r0, 3; add.u32 %r1, %r1, %bars; and.b32 %r2, %warp, 3;
 shl.b32 %r14, %r2, 21; add.u32 %r14, %r14, %t; mad.lo.u32 %r14, %r0, 128, %r14;
 mov.u32 %r13, alphas; mad.lo.u32 %r13, %x, 4, %r13;
 mov.b64 %scale2, {%scale, %scale}; mov.f32 %f0, 0f4B400000; mov.b64 %magic2, {%f0, %f0};
"""
    for i, value in enumerate(constants):
        bits = np.float32(value).view(np.uint32)
        text += f" mov.b32 %f0, {bits}; mov.b64 %k{i}, {{%f0, %f0}};\n"
    text += "ROWS: mov.u32 %j, 0; mov.f32 %m, 0fFF800000; mov.f32 %total, 0f00000000;\n"
    text += "WEIGHTS: and.b32 %parity, %g, 1; and.b32 %other, %c, 1; xor.b32 %other, %other, 1;\n"
    text += f" add.u32 %r10, %r1, {_S_FULL};\n" + _wait("%r10", "%parity")
    text += " tcgen05.fence::after_thread_sync;\n"
    for part in range(0, TILE, 32):
        text += (
            f" tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{_names('s', 32, part)}}}, [%r14+{part}];\n"
        )
    text += " tcgen05.wait::ld.sync.aligned;\n" + _maximum()
    # The old maximum stays if it is not 2^8 too small.
    text += """ sub.f32 %f0, %m, %new; mul.f32 %f0, %f0, %scale; setp.ge.f32 %lazy, %f0, 0fC1000000;
 ex2.approx.ftz.f32 %alpha, %f0; selp.f32 %alpha, 0f3F800000, %alpha, %lazy;
 selp.f32 %m, %m, %new, %lazy; mul.f32 %f1, %m, %scale; neg.f32 %f1, %f1;
 mov.b64 %shift2, {%f1, %f1};
"""
    text += f" add.u32 %r10, %r1, {_SCALE_TAKEN};\n" + _wait("%r10", "%other")
    text += f" st.shared.f32 [%r13], %alpha; add.u32 %r10, %r1, {_SCALE};\n" + _arrive("%r10")
    text += _weights()
    for i in range(0, TILE, 2):
        accumulator = f"%sum{i // 2 % 4}"
        text += f" mov.b64 %w0, {{%s{i}, %s{i + 1}}};"
        text += (
            f" mov.b64 {accumulator}, %w0;\n" if i < 8
            else f" add.rn.f32x2 {accumulator}, {accumulator}, %w0;\n"
        )  # fmt: skip
    text += """ add.rn.f32x2 %sum0, %sum0, %sum1; add.rn.f32x2 %sum2, %sum2, %sum3;
 add.rn.f32x2 %sum0, %sum0, %sum2; mov.b64 {%low, %high}, %sum0; add.f32 %low, %low, %high;
 fma.rn.f32 %total, %total, %alpha, %low;
 add.u32 %g, %g, 1; add.u32 %c, %c, 1; add.u32 %j, %j, 1; setp.lt.u32 %any, %j, %n;
 @%any bra WEIGHTS;
 and.b32 %other, %c, 1; xor.b32 %other, %other, 1; add.u32 %c, %c, 1;
"""
    text += f" add.u32 %r10, %r1, {_SCALE_TAKEN};\n" + _wait("%r10", "%other")
    text += f" st.shared.f32 [%r13], %total; add.u32 %r10, %r1, {_SCALE};\n" + _arrive("%r10")
    return text + _next_tile("ROWS")


# --- the warpgroup that rescales ------------------------------------------------------------------


def _rescale(tile: int) -> str:
    text = ""
    for part in range(0, DIMENSIONS, 32):
        at = f"[%r14+{_O_AT + tile * TILE + part}]"
        text += f" tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{_names('s', 32)}}}, {at};\n"
        text += " tcgen05.wait::ld.sync.aligned;\n"
        text += "".join(f" mul.f32 %s{i}, %s{i}, %alpha;\n" for i in range(32))
        text += f" tcgen05.st.sync.aligned.32x32b.x32.b32 {at}, {{{_names('s', 32)}}};\n"
    return text + " tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;\n"


def _factor(tile: int) -> str:
    """What the warpgroup of a tile wrote for block %j."""
    return (
        f" add.u32 %r10, %bars, {_SCALE + 8 * tile};\n" + _wait("%r10", "%parity")
        + f" ld.shared.f32 %alpha, [%r13+{512 * tile}]; add.u32 %r10, %bars, "
        + f"{_SCALE_TAKEN + 8 * tile};\n" + _arrive("%r10")
    )  # fmt: skip


def _store(tile: int) -> str:
    """The rows of a tile become bfloat16 in shared memory, in swizzled panels, and are copied."""
    text = f" add.u32 %r10, %bars, {_O_FULL + 8 * tile};\n" + _wait("%r10", "%turn")
    text += " tcgen05.fence::after_thread_sync;\n" + _factor(tile)
    text += " rcp.approx.f32 %alpha, %alpha;\n"
    for part in range(0, DIMENSIONS, 32):
        at = f"[%r14+{_O_AT + tile * TILE + part}]"
        text += f" tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{_names('s', 32)}}}, {at};\n"
        text += " tcgen05.wait::ld.sync.aligned;\n"
        text += "".join(f" mul.f32 %s{i}, %s{i}, %alpha;\n" for i in range(32))
        text += "".join(f" cvt.rn.bf16x2.f32 %p{i}, %s{2 * i + 1}, %s{2 * i};\n" for i in range(16))
        for i in range(0, 16, 4):
            unit = part % 64 // 8 + i // 4
            panel = (2 * tile + part // 64) * (_BLOCK // 2)
            text += f" xor.b32 %r4, %r12, {16 * unit}; add.u32 %r4, %r4, %r11;\n"
            text += f" st.shared.v4.b32 [%r4+{panel}], {{{_names('p', 4, i)}}};\n"
    text += " fence.proxy.async.shared::cta; bar.sync 1, 128; setp.eq.u32 %q, %r2, 0;\n"
    for panel in (0, 1):
        at = _OUT_AT + (2 * tile + panel) * (_BLOCK // 2)
        text += f" add.u32 %r4, %base, {at}; add.u32 %r5, %row, {tile * TILE};\n"
        text += f" mov.u32 %r6, {64 * panel};\n"
        text += (
            " @%q cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
            "[%to, {%r6, %r5}], [%r4];\n"
        )
    return text + " @%q cp.async.bulk.commit_group;\n"


def _correction() -> str:
    text = f"""CORRECTION: setmaxnreg.dec.sync.aligned.u32 64;
 and.b32 %r2, %x, 127; mov.u32 %r13, alphas; mad.lo.u32 %r13, %r2, 4, %r13;
 and.b32 %r3, %warp, 3; shl.b32 %r14, %r3, 21; add.u32 %r14, %r14, %t;
 // A thread's row of a panel of results, and what its 16-byte units are exchanged by.
 mad.lo.u32 %r11, %r2, 128, %base; add.u32 %r11, %r11, {_OUT_AT}; and.b32 %r12, %r2, 7;
 shl.b32 %r12, %r12, 4;
STORES:
{_PLACE}RESCALE: and.b32 %parity, %c, 1; setp.eq.u32 %first, %j, 0;
"""
    for tile in (0, 1):
        text += _factor(tile) + f" setp.neu.f32 %any, %alpha, 0f3F800000; @%first bra SAME{tile};\n"
        text += f" vote.sync.any.pred %any, %any, -1; @!%any bra SAME{tile};\n"
        text += " tcgen05.fence::after_thread_sync;\n" + _rescale(tile) + f"SAME{tile}:\n"
        text += f" add.u32 %r10, %bars, {_O_SCALED + 8 * tile};\n" + _arrive("%r10")
    text += " add.u32 %c, %c, 1; add.u32 %j, %j, 1; setp.lt.u32 %any, %j, %n; @%any bra RESCALE;\n"
    text += " and.b32 %parity, %c, 1; add.u32 %c, %c, 1; setp.eq.u32 %q, %r2, 0;\n"
    text += " @%q cp.async.bulk.wait_group.read 0; bar.sync 1, 128;\n" + _store(0) + _store(1)
    text += " tcgen05.fence::before_thread_sync;\n add.u32 %tile, %tile, %step;\n"
    text += " xor.b32 %turn, %turn, 1; setp.lt.u32 %any, %tile, %tiles; @%any bra STORES;\n"
    return text + " @%q cp.async.bulk.wait_group 0;\n"


def program() -> str:
    """The PTX of the kernel."""
    global _labels
    _labels = 0
    counts = dict.fromkeys(range(0, _Q_EMPTY + 16, 8), 1)
    counts |= dict.fromkeys(range(_P_FULL, _O_FULL, 8), TILE)
    inits = "".join(
        f" @%one mbarrier.init.shared::cta.b64 [%bars+{at}], {count};\n"
        for at, count in counts.items()
    )
    return (
        _HEAD.replace("INITS", inits) + _softmax() + _loads() + _products() + _correction() + _END
    )  # fmt: skip


def launch(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    o: np.ndarray,
    scale: float,
    sms: int = _SMS,
    **options,
):
    """Attention of (heads, S, 128) in bfloat16 as bits, by ``sms`` CTAs; S a multiple of 256."""
    heads, length, dimensions = q.shape
    device = Device("sm_100a")
    maps = [
        device.tensor_map(
            x.reshape(-1, dimensions), box=(TILE, 64), swizzle="128B", dtype="bfloat16"
        )
        for x in (q, k, v, o)
    ]
    tiles = heads * length // (2 * TILE)
    arguments = [*maps, length // TILE, tiles, scale * np.log2(np.e)]
    return device.load_ptx(program())["k"].launch(
        min(tiles, sms), 512, arguments, smem=_OUT_AT + 2 * _BLOCK, **options
    )


def check() -> float:
    """The largest error of two small heads, relative to the largest value."""
    rng = np.random.default_rng(2)
    shape = (2, 768, DIMENSIONS)
    # The scores of later keys are larger, so that maxima grow.
    inputs = [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]
    inputs[1] *= np.linspace(0.2, 4, shape[1], dtype=np.float32)[:, None]
    bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in inputs]
    q, k, v = ((x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for x in bits)
    o = np.full(shape, 0x7FC0, np.uint16)
    scale = DIMENSIONS**-0.5
    launch(*bits, o, scale, sms=2)  # several tiles for each
    scores = q @ k.swapaxes(1, 2) * scale
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    expected = weights @ v / weights.sum(axis=2, keepdims=True)
    found = (o.astype(np.uint32) << 16).view(np.float32)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def predicted(heads: int = 16, length: int = 32768) -> tuple[float, float]:
    """TFLOP/s of the model, and the share of the cycles in which the tensor cores are busy."""
    q, k, v, o = (np.zeros((heads, length, DIMENSIONS), np.uint16) for _ in range(4))
    options = TimingOptions(sampled=True, record=False)
    timing = launch(q, k, v, o, 0.1, timing=options, sanitize=False, progress=False).timing
    busy = dict(zip(timing.engine_name, timing.engine_share, strict=True))["tensor pipe"]
    return 4 * heads * length**2 * DIMENSIONS / timing.grid_us / 1e6, float(busy)


def main() -> None:
    """Prints what the model predicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        print(f"error {check():.1e}")
        return
    rate, busy = predicted()
    print(
        f"{rate:.0f} TFLOP/s, {100 * rate / PEAK:.0f} % of the peak, published {PUBLISHED:.0f}, 71"
    )
    print(f"tensor cores busy in {100 * busy:.0f} % of the cycles")


if __name__ == "__main__":
    main()
