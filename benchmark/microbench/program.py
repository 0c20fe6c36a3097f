"""The PTX program of a micro-benchmark: a body that is timed by the multiprocessor's own clock.

Every warp runs the body ``repeat`` times, in two passes of which the second one is timed, so that
instructions and constants lie in their caches. (A warp goes on after a barrier, as far as the
clock, before the others have come; so there are two.) It stores the clock before and after: ``out``
is (warps of the grid, 2) of u64. What the body leaves in ``%sink`` is stored after them, so that
no instruction is dead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

_REGISTERS = """
    .reg .pred %p<8>, %again, %wait;
    .reg .b16 %h<64>;
    .reg .b32 %r<1100>, %sink, %thread, %lane, %warp, %left, %pass, %one;
    .reg .f32 %f<1100>, %fa, %fb;
    .reg .b64 %d<64>, %t0, %t1, %out, %data, %at, %row;
    .reg .f64 %g<64>, %ga, %gb;
"""
_TEMPLATE = """.version 8.7
.target {target}
.address_size 64
{shared}
.visible .entry probe(.param .u64 out, .param .u64 data, .param .u32 repeat,
    .param .f32 value, .param .align 64 .b8 map[128])
{{{registers}
    ld.param.u64 %out, [out];
    ld.param.u64 %data, [data];
    ld.param.f32 %fa, [value];
    cvt.f64.f32 %ga, %fa;
    mov.f64 %gb, %ga;
    mov.f32 %fb, %fa;
    mov.b32 %one, %fa;
    mov.u32 %thread, %tid.x;
    and.b32 %lane, %thread, 31;
    shr.u32 %warp, %thread, 5;
    mov.u32 %sink, 0;
{setup}
    mov.u32 %pass, 0;
PASS:
    ld.param.u32 %left, [repeat];
    bar.sync 0;
    bar.sync 0;
    mov.u64 %t0, %clock64;
LOOP:
{body}
    sub.u32 %left, %left, 1;
    setp.ne.u32 %again, %left, 0;
    @%again bra LOOP;
{finish}
    mov.u64 %t1, %clock64;
    add.u32 %pass, %pass, 1;
    setp.ne.u32 %again, %pass, 2;
    @%again bra PASS;
{sinks}
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mad.lo.u32 %r2, %r0, %r1, %thread;
    shr.u32 %r3, %r2, 5;
    mul.wide.u32 %at, %r3, 16;
    add.u64 %at, %out, %at;
    setp.eq.u32 %p0, %lane, 0;
    @%p0 st.global.v2.u64 [%at], {{%t0, %t1}};
    setp.eq.u32 %p1, %sink, 305419896;
    @%p1 st.global.u32 [%at], %sink;
    ret;
}}
"""


@dataclasses.dataclass(frozen=True)
class Probe:
    """One micro-benchmark.

    Attributes:
        name: what is measured, as in the table of results.
        unit: of the value.
        ptx: the program.
        per_warp: what one warp does in a run, in counts of the unit's denominator.
        warps: of a CTA.
        ctas: of the grid.
        repeat: runs of the body.
        smem: dynamic shared memory in bytes.
        data: bytes of the buffer that the program reads, and how it is filled (data.py).
        box: of the tensor map, outer extent first, with its swizzle; None for none.
        value: the operand that the compiler does not know.
        how: ``"latency"``: clocks a count of one warp; ``"turn"``: mean of the warps of the first
            CTA; ``"interval"``: clocks a count of a sub-core, whose warps are every fourth of the
            CTA; ``"sm"``: clocks a count of a CTA, ``"rate"``: the other way round; ``"time"``:
            microseconds of the launch; ``"mhz"``: clocks a microsecond of the launch;
            ``"bandwidth"``: bytes (``per_warp``) a nanosecond of the launch.
        parameters: what varies in a family of benchmarks.
        part: the warps that count for ``"sm"``; None for all.
    """

    name: str
    unit: str
    ptx: str
    per_warp: float
    warps: int = 1
    ctas: int = 1
    repeat: int = 16
    smem: int = 0
    data: tuple[int, str] = (1 << 16, "zeros")
    box: tuple[int, int, str] | None = None
    value: float = 1.0
    how: str = "latency"
    parameters: dict = dataclasses.field(default_factory=dict)
    part: tuple[int, int] | None = None


def registers(letter: str, base: int, count: int) -> str:
    """So many of them as a vector, from ``%r<base>`` on for the letter r."""
    return "{" + ", ".join(f"%{letter}{base + i}" for i in range(count)) + "}"


def mma_of_warp() -> list[str]:
    """64 x 64 x 16 of a warp by mma.sync: sums from %f8 on, A from %r100 on, B from %r116 on."""
    body = []
    for i in range(4):
        for j in range(8):
            sums = registers("f", 8 + 4 * (8 * i + j), 4)
            a, b = registers("r", 100 + 4 * i, 4), registers("r", 116 + 2 * j, 2)
            body.append(
                f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {sums}, {a}, {b}, {sums};"
            )
    return body


def text(
    body: Iterable[str] | str, setup: str = "", finish: str = "", sinks: Iterable[str] = (),
    shared: int = 0, target: str = "sm_90a",
) -> str:  # fmt: skip
    """The PTX text: ``sinks`` are 32-bit registers to keep alive; ``shared`` is in bytes."""
    lines = body if isinstance(body, str) else "\n".join(f"    {line}" for line in body)
    return _TEMPLATE.format(
        target=target,
        shared=f".shared .align 1024 .b8 buffer[{shared}];" if shared else "",
        registers=_REGISTERS, setup=setup, body=lines, finish=finish,
        sinks="\n".join(f"    xor.b32 %sink, %sink, {register};" for register in sinks),
    )  # fmt: skip


def value_of(probe: Probe, clocks, microseconds: float) -> float:
    """The result of a run: ``clocks`` is (warps of the grid, 2), before and after."""
    counts = probe.per_warp * probe.repeat
    if probe.how == "time":
        return microseconds
    if probe.how == "bandwidth":
        return counts * probe.warps * probe.ctas / (microseconds * 1e3)
    if probe.how == "mhz":  # the second of two passes is timed
        return 2 * float((clocks[:, 1] - clocks[:, 0]).mean()) / microseconds
    if probe.how == "latency":
        return float(clocks[0, 1] - clocks[0, 0]) / counts
    if probe.how == "turn":
        return float((clocks[: probe.warps, 1] - clocks[: probe.warps, 0]).mean()) / counts
    first, last = probe.part or (0, probe.warps)
    cta = clocks[first:last].astype("int64")
    elapsed = float(cta[:, 1].max() - cta[:, 0].min())
    if probe.how == "interval":
        return elapsed / (counts * max(1, probe.warps // 4))
    return (
        counts * probe.warps / elapsed if probe.how == "rate" else elapsed / counts / (last - first)
    )
