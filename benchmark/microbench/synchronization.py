"""Barriers, mbarriers and fences; launches of empty and of waiting kernels."""

from __future__ import annotations

from collections.abc import Iterator

from program import Probe, text


def _barriers() -> Iterator[Probe]:
    for warps in (1, 2, 4, 8, 16, 32):
        yield Probe(
            f"bar.sync of {warps} warps", "clk", text(["bar.sync 0;"] * 16), 16, warps=warps
        )
    body = ["bar.red.popc.u32 %r8, 0, %p7;"] * 8
    yield Probe(
        "bar.red of 8 warps", "clk", text(body, "    setp.eq.u32 %p7, %thread, 0;"), 8, warps=8
    )
    for name, fence in {
        "fence.proxy.async": "fence.proxy.async.shared::cta;",
        "membar.cta": "fence.acq_rel.cta;",
        "membar.gpu": "fence.acq_rel.gpu;",
    }.items():
        yield Probe(f"{name}, nothing outstanding", "clk", text([fence] * 8), 8)
        store = ["st.shared.u32 [%r8], %thread;", fence] * 8
        setup = "    mov.u32 %r8, buffer;\n    mad.lo.u32 %r8, %thread, 4, %r8;"
        yield Probe(f"st.shared + {name}", "clk", text(store, setup, shared=1024), 8)


_SETUP = """
    mov.u32 %r8, buffer;
    add.u32 %r9, %r8, 8;
    setp.eq.u32 %p4, %thread, 0;
    @%p4 mbarrier.init.shared::cta.b64 [%r8], {count};
    @%p4 mbarrier.init.shared::cta.b64 [%r9], {count};
    bar.sync 0;
    mov.u32 %r10, 0;
    setp.eq.u32 %p5, %warp, 0;
    setp.eq.u32 %p6, %lane, 0;"""
_ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [{}];"
_WAIT = ["{0}:", "mbarrier.try_wait.parity.shared::cta.b64 %wait, [{1}], %r10;", "@!%wait bra {0};"]


def _wait(label: str, barrier: str) -> list[str]:
    return [line.format(label, barrier) for line in _WAIT]


def _mbarriers() -> Iterator[Probe]:
    flip = "xor.b32 %r10, %r10, 1;"
    alone = ["@%p6 " + _ARRIVE.format("%r8"), *_wait("W0", "%r8"), flip]
    yield Probe("mbarrier arrive + wait, one thread", "clk",
                text(alone, _SETUP.format(count=1), shared=1024), 1, repeat=64)  # fmt: skip
    arrivals = ["@%p6 " + _ARRIVE.format("%r8")] * 8
    yield Probe("mbarrier arrive, back to back", "clk",
                text(arrivals, _SETUP.format(count=1), shared=1024), 8)  # fmt: skip
    # Warp 0 arrives at the first barrier and waits for the second one; warp 1 the other way round.
    turn = [
        "@!%p5 bra ONE;", "@%p6 " + _ARRIVE.format("%r8"), *_wait("W0", "%r9"), "bra BOTH;",
        "ONE:", *_wait("W1", "%r8"), "@%p6 " + _ARRIVE.format("%r9"), "BOTH:", flip,
    ]  # fmt: skip
    yield Probe("mbarrier from warp to warp, both ways", "clk",
                text(turn, _SETUP.format(count=1), shared=1024), 1, warps=2, repeat=64)  # fmt: skip
    all_threads = [_ARRIVE.format("%r8"), *_wait("W0", "%r8"), flip]
    for warps in (4, 8):
        yield Probe(f"mbarrier arrive + wait, all threads of {warps} warps", "clk",
                    text(all_threads, _SETUP.format(count=32 * warps), shared=1024), 1,
                    warps=warps, repeat=64)  # fmt: skip


def _launches() -> Iterator[Probe]:
    """Microseconds between events around a launch."""
    empty = text([], "")
    for ctas in (1, 132, 1056, 8448, 67584):
        for warps in (1, 4, 32):
            if ctas * warps <= 1 << 20:
                yield Probe(
                    f"empty kernel, {ctas} CTAs of {warps} warps", "us", empty, 1, warps=warps,
                    ctas=ctas, repeat=1, how="time", parameters={"ctas": ctas, "warps": warps},
                )  # fmt: skip
    work = text(["fma.rn.f32 %f8, %f8, %fa, %fb;"] * 64, "    mov.f32 %f8, %fa;",
                finish="    mov.b32 %sink, %f8;")  # fmt: skip
    for ctas in (132, 133, 264, 265, 1056, 1057, 2112):
        yield Probe(
            f"kernel of 51200 dependent fma, {ctas} CTAs of 8 warps", "us", work, 1, warps=8,
            ctas=ctas, repeat=400, how="time", parameters={"ctas": ctas},
        )  # fmt: skip
    yield Probe("kernel of 51200 dependent fma, 132 CTAs, 200 KiB shared", "us", work, 1, warps=8,
                ctas=264, repeat=400, smem=200 << 10, how="time")  # fmt: skip


def probes() -> Iterator[Probe]:
    """All of them."""
    yield from _barriers()
    yield from _mbarriers()
    yield from _launches()
