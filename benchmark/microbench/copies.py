"""cp.async, bulk and tensor copies: latency of one, bandwidth of several in flight."""

from __future__ import annotations

from collections.abc import Iterator

from program import Probe, text

_STAGES = 64 << 10


def _cp_async() -> Iterator[Probe]:
    address = """
    mov.u32 %r8, buffer;
    mad.lo.u32 %r8, %thread, 16, %r8;
    mul.wide.u32 %d8, %thread, 16;
    add.u64 %d8, %data, %d8;"""
    one = "cp.async.cg.shared.global [%r8], [%d8], 16;"
    wait = ["cp.async.commit_group;", "cp.async.wait_group 0;"]
    yield Probe(
        "cp.async 16 B latency, L2", "clk", text([one, *wait] * 8, address, shared=16384), 8
    )
    for warps in (4, 8, 16, 32):
        body = [f"cp.async.cg.shared.global [%r8], [%d8+{i * warps * 512}], 16;" for i in range(16)]
        yield Probe(
            f"cp.async 16 B bandwidth, L2, {warps} warps", "clk/warp/SM",
            text([*body, *wait], address, shared=16384), 16, warps=warps, how="sm",
            data=(1 << 20, "zeros"),
        )  # fmt: skip


_BARRIERS = """
    mov.u32 %r8, buffer;
    add.u32 %r9, %r8, {data};
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
    setp.eq.u32 %p4, %thread, 0;
    {inits}
    fence.proxy.async;
    bar.sync 0;
    mov.u32 %r12, %ctaid.x;
    mov.u32 %r13, %nctaid.x;
    mov.u32 %r14, 0;
"""


def _wait(label: str, barrier: str, parity: str) -> list[str]:
    return [
        f"{label}:",
        f"mbarrier.try_wait.parity.shared::cta.b64 %wait, [{barrier}], {parity};",
        f"@!%wait bra {label};",
    ]


def _copy(kind: str, offset: int, barrier: str, size: int) -> list[str]:
    """One load of ``size`` bytes: the bulk form, or a box of rows of 128 bytes."""
    if kind == "bulk":
        return [f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                f"[%r9+{offset}], [%at], {size}, [{barrier}];"]  # fmt: skip
    return [f"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            f"[%r9+{offset}], [%row, {{%r14, %r15}}], [{barrier}];"]  # fmt: skip


def _program(
    kind: str, size: int, stages: int, cold: bool, steps: int, sharers: int = 1
) -> str:  # fmt: skip
    """One thread keeps ``stages`` copies in flight; each repeat is a turn of the ring.

    The tile of a copy is ``%r11``: it grows by the number of CTAs if ``cold``, so that every copy
    takes other bytes, and stays within sixteen tiles of the CTA if not.
    """
    rows = size // 128
    inits = "\n    ".join(
        f"@%p4 mbarrier.init.shared::cta.b64 [%r8+{8 * s}], 1;" for s in range(stages)
    )
    setup = _BARRIERS.format(data=1024, inits=inits)
    if sharers > 1:
        setup += f"    div.u32 %r12, %r12, {sharers};\n"
    setup += "    mov.b64 %row, map;\n    cvta.param.u64 %row, %row;\n    mov.u32 %r11, %r12;\n"

    def fetch(stage: int) -> list[str]:
        barrier = f"%r8+{8 * stage}"
        lines = [
            f"mul.wide.u32 %at, %r11, {size};", "add.u64 %at, %data, %at;",
            "shr.u32 %r15, %r11, 7;", f"mul.lo.u32 %r15, %r15, {rows};",
            "and.b32 %r14, %r11, 127;", "shl.b32 %r14, %r14, 6;",
            f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{barrier}], {size};",
            *_copy(kind, stage * size, barrier, size),
        ]  # fmt: skip
        step = "add.u32 %r11, %r11, %r13;" if cold else "xor.b32 %r11, %r11, 256;"
        return [*lines, step]

    first = [line for stage in range(stages) for line in fetch(stage)]
    body = ["@!%p4 bra SKIP;"]
    for stage in range(stages):
        body += _wait(f"WAIT{stage}", f"%r8+{8 * stage}", "%r10")
        body += fetch(stage)
    body += ["xor.b32 %r10, %r10, 1;", "SKIP:"]
    setup += "    @!%p4 bra PRIMED;\n" + "\n".join(f"    {x}" for x in first) + "\nPRIMED:"
    drain = ["@!%p4 bra DRAINED;"]
    for stage in range(stages):
        drain += _wait(f"DRAIN{stage}", f"%r8+{8 * stage}", "%r10")
    program = text(body, setup, shared=1024 + stages * size)
    end = "    mov.u32 %r0, %ctaid.x;"
    return program.replace(end, "\n".join(drain) + f"\nDRAINED:\n{end}", 1)


def _box(kind: str, size: int) -> tuple[int, int, str] | None:
    return None if kind == "bulk" else (size // 128, 64, "128B")


def _bulk() -> Iterator[Probe]:
    for kind in ("bulk", "tensor"):
        for size in (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768):
            for cold in (False, True):
                if kind == "tensor" and size < 1024:
                    continue
                place = "HBM" if cold else "L2"
                yield Probe(
                    f"{kind} load of {size} B, {place}, latency", "clk",
                    _program(kind, size, 1, cold, 1), 1, repeat=32,
                    data=(1 << 30, "zeros"), box=_box(kind, size),
                    parameters={"bytes": size},
                )  # fmt: skip
            if size >= 512:
                stages = min(8, (192 << 10) // size)
                yield Probe(
                    f"{kind} loads of {size} B, {stages} in flight, L2", "clk/copy/SM",
                    _program(kind, size, stages, False, 1), stages, repeat=32,
                    data=(1 << 30, "zeros"), box=_box(kind, size), how="sm",
                    parameters={"bytes": size, "stages": stages},
                )  # fmt: skip
    yield from _whole_chip()
    for ctas, sharers in ((33, 1), (132, 1), (132, 4), (132, 12)):
        for stages in (1, 2, 4, 8):
            yield Probe(
                f"tensor loads of 16384 B, {stages} in flight, L2, {ctas} CTAs, {sharers} the same",
                "clk/copy/SM", _program("tensor", 16384, stages, False, 1, sharers), stages,
                ctas=ctas, repeat=64, data=(1 << 30, "zeros"), box=_box("tensor", 16384),
                how="sm", parameters={"ctas": ctas, "sharers": sharers, "stages": stages},
            )  # fmt: skip


def _whole_chip() -> Iterator[Probe]:
    """All multiprocessors, from HBM: bandwidth by size and number in flight."""
    for size in (4096, 8192, 16384, 32768):
        for stages in (1, 2, 4, 6):
            if stages * size > 200 << 10:
                continue
            turns = max(8, (1 << 29) // (132 * stages * size))
            yield Probe(
                f"tensor loads of {size} B, 132 CTAs, {stages} in flight, HBM", "B/ns",
                _program("tensor", size, stages, True, 1), 2 * stages * size, ctas=132,
                repeat=turns, data=(2 << 30, "zeros"), box=_box("tensor", size),
                how="bandwidth", parameters={"bytes": size, "stages": stages},
            )  # fmt: skip


def _stores() -> Iterator[Probe]:
    setup = """
    mov.u32 %r8, buffer;
    setp.eq.u32 %p4, %thread, 0;
    mov.b64 %row, map;
    cvta.param.u64 %row, %row;
    mov.u32 %r14, 0;"""
    for size in (1024, 4096, 16384):
        for read in (".read", ""):
            body = [
                "@%p4 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
                "[%row, {%r14, %r14}], [%r8];",
                "@%p4 cp.async.bulk.commit_group;",
                f"@%p4 cp.async.bulk.wait_group{read} 0;",
            ]
            yield Probe(
                f"tensor store of {size} B{', source read' if read else ''}, latency", "clk",
                text(body, setup, shared=size), 1, data=(1 << 26, "zeros"),
                box=_box("tensor", size), parameters={"bytes": size},
            )  # fmt: skip


def probes() -> Iterator[Probe]:
    """All of them."""
    yield from _cp_async()
    yield from _bulk()
    yield from _stores()
