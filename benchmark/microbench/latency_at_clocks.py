"""How long loads of L2 and HBM take when the power limit has lowered the clock of the SMs.

Four warps of each CTA load from addresses that depend on what they have loaded. Two warpgroups
beside them take power: they multiply in m64n128k16, and copy from L2. Each latency is measured in
clocks and in nanoseconds, so that their ratio is the clock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from power import STAGED, Part, beside, joined, wgmma
from program import Probe

_WARPS, _CTAS, _SHARED = 12, 132, STAGED + 16384
_TURNS = 400_000  # of a pass; loads, which take longer, have half of them
_FIRST = 4  # of the warps that multiply; those before it load
#: Lines of 128 bytes that a CTA loads one after the other, by where they are, and how many on.
_LINES = {"L2": (256, 1), "HBM": (32768, 97)}


def _chase(where: str) -> list[str]:
    """The warp that loads, with the passes of `program.text` and its store of the clock."""
    lines, step = _LINES[where]  # each begins at a quarter of its own
    return [
        "mov.u32 %r900, %ctaid.x;", f"mul.wide.u32 %d40, %r900, {lines * 128};",
        "add.u64 %d40, %data, %d40;",
        f"add.u64 %d40, %d40, {1 << 26};",  # after what is copied
        f"mul.lo.u32 %r901, %warp, {lines * 32};", "mov.u32 %pass, 0;",
        "AGAIN:", "bar.sync 0;", "bar.sync 0;", "ld.param.u32 %left, [repeat];",
        "shr.u32 %left, %left, 1;", "mov.u64 %t0, %clock64;", "CHASE:",
        "cvt.u64.u32 %d41, %r901;", "add.u64 %d41, %d41, %d40;",
        "ld.global.cg.u32 %r902, [%d41];", f"add.u32 %r901, %r901, {step * 128};",
        "add.u32 %r901, %r901, %r902;", f"and.b32 %r901, %r901, {lines * 128 - 1};",
        "sub.u32 %left, %left, 1;", "setp.ne.u32 %again, %left, 0;", "@%again bra CHASE;",
        "mov.u64 %t1, %clock64;", "add.u32 %pass, %pass, 1;", "setp.ne.u32 %again, %pass, 2;",
        "@%again bra AGAIN;", "setp.eq.u32 %p6, %r901, 305419896;",
        "@%p6 st.global.u32 [%out], %r901;", f"mad.lo.u32 %r900, %r900, {_WARPS}, %warp;",
        "mul.wide.u32 %at, %r900, 16;", "add.u64 %at, %out, %at;",
        "st.global.v2.u64 [%at], {%t0, %t1};", "ret;",
    ]  # fmt: skip


def _fill() -> list[str]:
    """bfloat16 of an eighth to two, of both signs, for the products: the buffer holds zeros."""
    lines = ["mov.u32 %r3, buffer;", "mad.lo.u32 %r3, %thread, 4, %r3;",
             "mul.lo.u32 %r4, %thread, 2654435761;"]  # fmt: skip
    for i in range(STAGED // 1024):
        lines += ["mad.lo.u32 %r4, %r4, 1664525, 1013904223;", "shr.u32 %r5, %r4, 9;",
                  "xor.b32 %r5, %r5, %r4;", "and.b32 %r5, %r5, 0x81ff81ff;",
                  "or.b32 %r5, %r5, 0x3e003e00;",
                  f"st.shared.u32 [%r3+{1024 * i}], %r5;"]  # fmt: skip
    return [*lines, "fence.proxy.async;", "bar.sync 1, 256;"]


def _program(where: str, parts: tuple[Part, ...]) -> str:
    setup = [f"setp.ge.u32 %p5, %warp, {_FIRST};", "@%p5 bra MULTIPLY;", *_chase(where),
             "MULTIPLY:", f"sub.u32 %warp, %warp, {_FIRST};",
             f"sub.u32 %thread, %thread, {32 * _FIRST};", *_fill()]  # fmt: skip
    setup += [line for part in parts for line in part.setup]
    setup.append(f"add.u32 %thread, %thread, {32 * _FIRST};")
    return joined(setup, parts, _WARPS, _SHARED)


def probes() -> Iterator[Probe]:
    """All of them."""
    mixes: dict[str, tuple[Part, ...]] = {"alone": (), "wgmma": (wgmma(),)}
    for count in (1, 2, 4):
        mixes[f"wgmma, {count} cp.async"] = (wgmma(), beside("cp.async", count))
    for where in _LINES:
        for name, parts in mixes.items():
            clocks = Probe(
                f"latency at a clock, {where}, {name}", "clk", _program(where, parts), 0.5,
                warps=_WARPS, ctas=_CTAS, repeat=_TURNS, data=(1 << 30, "zeros"),
            )  # fmt: skip
            yield clocks
            timed = clocks.ptx.replace("%clock64", "%globaltimer")
            yield dataclasses.replace(clocks, name=f"{clocks.name}, time", unit="ns", ptx=timed)
