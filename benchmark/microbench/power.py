"""What takes power: the mean clock of kernels that keep all multiprocessors busy for 0.4 seconds.

Two warpgroups of each CTA multiply tiles of normally distributed bfloat16 that lie in shared
memory, and do something else beside; or only one of the two. The value is the clock in MHz, which
the power limit lowers; the clocks of a turn tell how much was done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from program import Probe, mma_of_warp, registers, text

_WARPS, _CTAS = 8, 132
_SECONDS = 0.4
_GROUP = 4  # wgmma m64n128k16 of a turn and warpgroup
STAGED = 32768  # bytes of A and B, before what is copied
#: Clocks that a turn of these takes at least, so that launches have the length that is wanted.
_CLOCKS = 512


@dataclasses.dataclass
class Part:
    """What a turn does: its set-up, its body, and registers that keep the body alive."""

    setup: list[str]
    body: list[str]
    floats: list[int] = dataclasses.field(default_factory=list)


def wgmma() -> Part:
    sums = registers("f", 8, 64)
    setup = [f"mov.f32 %f{8 + i}, 0f00000000;" for i in range(64)]
    setup += [
        "shr.u32 %r2, %warp, 2;", "shl.b32 %r2, %r2, 13;", "mov.u32 %r1, buffer;",
        "add.u32 %r2, %r1, %r2;", "shr.u32 %r2, %r2, 4;", "add.u32 %r1, %r1, 16384;",
        "shr.u32 %r1, %r1, 4;", "cvt.u64.u32 %d8, %r2;", "cvt.u64.u32 %d9, %r1;",
        f"mov.u64 %d10, {(1 << 62) | (64 << 32) | (1 << 16)};",
        "or.b64 %d8, %d8, %d10;", "or.b64 %d9, %d9, %d10;",
        *(f"add.u64 %d{11 + 2 * i + j}, %d{8 + j}, {2 * i};" for i in range(_GROUP)
          for j in range(2)),
    ]  # fmt: skip
    body = ["wgmma.fence.sync.aligned;"]
    body += [f"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {sums}, %d{11 + 2 * i}, "
             f"%d{12 + 2 * i}, 1, 1, 1, 0, 0;" for i in range(_GROUP)]  # fmt: skip
    return Part(setup, [*body, "wgmma.commit_group.sync.aligned;"], floats=list(range(8, 72)))


def _mma(loads: bool) -> Part:
    """64 x 64 x 16 of a warp by mma.sync, with or without the ldmatrix that it needs."""
    setup = [f"mov.f32 %f{8 + i}, 0f00000000;" for i in range(128)]
    setup += ["mov.u32 %r8, buffer;", "mad.lo.u32 %r8, %thread, 16, %r8;"]
    moves = [f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {registers('r', 100 + 4 * i, 4)}, "
             f"[%r9+{4096 * i}];" for i in range(8)]  # fmt: skip
    setup += ["mov.u32 %r9, %r8;", *([] if loads else moves)]
    # Addresses that the compiler takes for others.
    body = (
        ["and.b32 %r9, %left, 1;", "shl.b32 %r9, %r9, 4;", "xor.b32 %r9, %r9, %r8;", *moves]
        if loads
        else []
    )
    return Part(setup, [*body, *mma_of_warp()], floats=list(range(8, 136)))


def beside(kind: str, count: int) -> Part:
    """``count`` instructions of each warp: arithmetic, or lines of L2 that four turns repeat."""
    if kind == "fma":
        setup = [f"mov.f32 %f{200 + i}, %fa;" for i in range(8)]
        body = [f"fma.rn.f32 %f{200 + i % 8}, %f{200 + i % 8}, %fa, %fb;" for i in range(count)]
        return Part(setup, body, floats=list(range(200, 208)))
    setup = [  # a warp has four rows of 8 KiB; a turn goes on by one line
        "mov.u32 %r10, %ctaid.x;", f"mad.lo.u32 %r10, %r10, {_WARPS}, %warp;",
        f"mul.lo.u32 %r10, %r10, {count * 4096};", "shr.u32 %r11, %lane, 3;",
        "mad.lo.u32 %r10, %r11, 1024, %r10;", "and.b32 %r11, %lane, 7;",
        "mad.lo.u32 %r10, %r11, 16, %r10;", "mov.u32 %r12, buffer;",
        f"add.u32 %r12, %r12, {STAGED};", "mad.lo.u32 %r12, %thread, 16, %r12;",
    ]  # fmt: skip
    body = ["and.b32 %r13, %left, 3;", "mad.lo.u32 %r13, %r13, 128, %r10;",
            "cvt.u64.u32 %d2, %r13;", "add.u64 %d2, %d2, %data;"]  # fmt: skip
    for i in range(count):
        body.append(
            f"cp.async.cg.shared.global [%r12+{i % 4 * 4096}], [%d2+{i * 4096}], 16;"
            if kind == "cp.async" else f"ld.global.cg.v4.u32 {{%r{300 + 4 * i}, %r{301 + 4 * i}, "
            f"%r{302 + 4 * i}, %r{303 + 4 * i}}}, [%d2+{i * 4096}];"
        )  # fmt: skip
    if kind == "cp.async":
        return Part(setup, [*body, "cp.async.commit_group;", "cp.async.wait_group 1;"])
    return Part(setup, [*body, *(f"xor.b32 %sink, %sink, %r{300 + i};" for i in range(4 * count))])


def _bulk(size: int) -> Part:
    """A copy of ``size`` bytes of L2 by TMA for the CTA, which is waited for in the next turn."""
    setup = [
        "mov.u32 %r16, buffer;", f"add.u32 %r17, %r16, {STAGED};",
        f"add.u32 %r16, %r16, {STAGED + 16384};", "mov.u32 %r18, 1;",
        "setp.eq.u32 %p4, %thread, 0;", "@%p4 mbarrier.init.shared::cta.b64 [%r16], 1;",
        "fence.proxy.async;", "bar.sync 0;", "mov.u32 %r19, %ctaid.x;",
        f"mul.lo.u32 %r19, %r19, {4 * size};",
        f"@%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r16], {size};",
        "cvt.u64.u32 %d3, %r19;", "add.u64 %d3, %d3, %data;",
        "@%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[%r17], [%d3], {size}, [%r16];",
    ]  # fmt: skip
    body = [
        "xor.b32 %r18, %r18, 1;", "TURN:",
        "mbarrier.try_wait.parity.shared::cta.b64 %wait, [%r16], %r18;", "@!%wait bra TURN;",
        "and.b32 %r20, %left, 3;", f"mad.lo.u32 %r20, %r20, {size}, %r19;",
        "cvt.u64.u32 %d3, %r20;", "add.u64 %d3, %d3, %data;", "bar.sync 0;",
        f"@%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r16], {size};",
        "@%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[%r17], [%d3], {size}, [%r16];",
    ]  # fmt: skip
    return Part(setup, body)


def joined(setup: list[str], parts: tuple[Part, ...], warps: int, shared: int) -> str:
    """The program of CTAs of so many warps that do all ``parts`` in a turn, after ``setup``."""
    body = [line for part in parts for line in part.body]
    finish = []
    if any("wgmma" in line for line in body):
        body.append("wgmma.wait_group.sync.aligned 1;")
        finish.append("wgmma.wait_group.sync.aligned 0;")
    floats = [i for part in parts for i in part.floats]
    finish += [f"mov.b32 %r{600 + i}, %f{i};" for i in floats]
    program = text(body, "\n".join(setup), finish="\n".join(finish),
                   sinks=[f"%r{600 + i}" for i in floats], shared=shared)  # fmt: skip
    return program.replace("map[128])", f"map[128])\n.maxntid {32 * warps}", 1)


def _program(*parts: Part) -> str:
    fill = [  # shared memory gets the values of the buffer
        "mov.u32 %r3, buffer;", "mad.lo.u32 %r3, %thread, 16, %r3;",
        "mul.wide.u32 %d0, %thread, 16;", "add.u64 %d0, %data, %d0;",
    ]  # fmt: skip
    for i in range(STAGED // 4096):
        fill += [f"ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%d0+{4096 * i}];",
                 f"st.shared.v4.u32 [%r3+{4096 * i}], {{%r4, %r5, %r6, %r7}};"]  # fmt: skip
    setup = [*fill, "fence.proxy.async;", "bar.sync 0;"]
    setup += [line for part in parts for line in part.setup]
    return joined(setup, parts, _WARPS, STAGED + 16384 + 8)


def probes() -> Iterator[Probe]:
    """All of them: each twice, its clock and the clocks of its turn."""
    mixes: dict[str, tuple[Part, ...]] = {
        "wgmma": (wgmma(),), "mma.sync": (_mma(False),), "mma.sync, ldmatrix": (_mma(True),),
    }  # fmt: skip
    for kind, counts in {"fma": (32, 96), "cp.async": (4, 8),
                         "ld.global.cg": (4, 8)}.items():  # fmt: skip
        for count in counts:
            mixes[f"wgmma, {count} {kind}"] = (wgmma(), beside(kind, count))
        mixes[f"{counts[-1]} {kind}"] = (beside(kind, counts[-1]),)
    for size in (8192, 16384):
        mixes[f"wgmma, {size} B by TMA"] = (wgmma(), _bulk(size))
    mixes["16384 B by TMA"] = (_bulk(16384),)
    for name, parts in mixes.items():
        clock = Probe(
            f"clock, {name}", "MHz", _program(*parts), 1, warps=_WARPS, ctas=_CTAS,
            repeat=int(_SECONDS / 2 * 1.6e9 / _CLOCKS), data=(1 << 26, "normal"), how="mhz",
        )  # fmt: skip
        yield clock
        yield dataclasses.replace(clock, name=f"turn, {name}", unit="clk", how="turn", repeat=2000)
