"""The modelled engines at published and measured rates: kernels of one instruction, repeated."""

import warnings

import numpy as np
import pytest

from tilelang.emulator import Device, TimingOptions


def span(arch, text, threads, args, smem=0):
    """Cycles of one CTA."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # operands that nothing has written
        report = (
            Device(arch)
            .load_ptx(text)["k"]
            .launch(1, threads, args, smem=smem, sanitize=False, timing=TimingOptions(l2="warm"))
        )
    return report.timing.span_cycles


def tcgen05(count, m, n, rounds=1):
    """One thread that multiplies ``count`` times from shared memory, and waits, in rounds."""
    instruction = m >> 4 << 24 | n >> 3 << 17 | 0x490
    mma = "tcgen05.mma.cta_group::1.kind::f16 [%t], %a, %b, %i, %z;\n"
    turn = f"""@!%q bra W#;
 {mma * count} tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2];
W#: bar.warp.sync -1;
V#: mbarrier.try_wait.parity.shared::cta.b64 %w, [%r2], PARITY; @!%w bra V#;
"""
    turns = "".join(turn.replace("#", str(i)).replace("PARITY", str(i & 1)) for i in range(rounds))
    return f""".version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 P) {{
 .reg .b32 %t, %i, %r<5>; .reg .b64 %a, %b, %d; .reg .pred %z, %q, %w;
 .shared .align 1024 .b8 A[16384]; .shared .align 1024 .b8 B[32768];
 .shared .align 8 .b64 bar; .shared .b32 slot;
 mov.u32 %r1, slot; mov.u32 %r2, bar; mov.u32 %i, {instruction};
 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 256;
 elect.sync _|%q, -1;
 @%q mbarrier.init.shared::cta.b64 [%r2], 1;
 bar.sync 0;
 ld.shared.u32 %t, [%r1]; setp.ne.u32 %z, 0, 0;
 mov.u32 %r3, A; shr.u32 %r3, %r3, 4; cvt.u64.u32 %a, %r3; or.b64 %a, %a, 0x4000404000010000;
 mov.u32 %r4, B; shr.u32 %r4, %r4, 4; cvt.u64.u32 %b, %r4; or.b64 %b, %b, 0x4000404000010000;
 {turns} tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t, 256;
 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
 ret;
}}
"""


# SemiAnalysis, B200: cycles of an instruction, operands in shared memory.
@pytest.mark.parametrize(
    "m, n, cycles", [(128, 64, 48.5), (128, 96, 56.6), (128, 128, 64.6), (128, 256, 128.6)]
)
def test_tcgen05_rate(m, n, cycles):
    some, more = (span("sm_100a", tcgen05(count, m, n), 32, [0]) for count in (40, 140))
    assert (more - some) / 100 == pytest.approx(cycles, rel=0.05)


def test_tcgen05_latency():
    some, more = (span("sm_100a", tcgen05(1, 128, 128, rounds), 32, [0]) for rounds in (2, 12))
    # From the issue to the mbarrier: 136 + N / 2.
    assert (more - some) / 10 == pytest.approx(136 + 64, rel=0.1)


def wgmma(count, n, groups=1):
    """A warpgroup that multiplies ``count`` times from shared memory in a group, and waits."""
    registers = ", ".join(f"%f{i}" for i in range(n // 2))
    mma = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{registers}}}, %a, %b, %p, "
        "1, 1, 0, 0;\n"
    )
    group = f"""wgmma.fence.sync.aligned;
 {mma * count} wgmma.commit_group.sync.aligned;
 wgmma.wait_group.sync.aligned 0;
"""
    return f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 P) {{
 .reg .b32 %r<3>; .reg .b64 %a, %b; .reg .pred %p; .reg .f32 %f<{n // 2}>;
 .shared .align 1024 .b8 A[16384]; .shared .align 1024 .b8 B[32768];
 setp.ne.u32 %p, 0, 0;
 mov.u32 %r1, A; shr.u32 %r1, %r1, 4; cvt.u64.u32 %a, %r1; or.b64 %a, %a, 0x4000004000010000;
 mov.u32 %r2, B; shr.u32 %r2, %r2, 4; cvt.u64.u32 %b, %r2; or.b64 %b, %b, 0x4000004000010000;
 {group * groups} ret;
}}
"""


# benchmark/microbench on an H200, two warpgroups at a time.
@pytest.mark.parametrize(
    "n, cycles", [(8, 18.1), (32, 24.1), (64, 32.2), (96, 48.2), (128, 64.2), (256, 128.2)]
)
def test_wgmma_rate(n, cycles):
    some, more = (span("sm_90a", wgmma(count, n), 128, [0]) for count in (10, 60))
    assert (more - some) / 50 == pytest.approx(cycles, rel=0.05)


@pytest.mark.parametrize("n, cycles", [(64, 94.3), (128, 125.7), (256, 200.2)])
def test_wgmma_latency(n, cycles):
    some, more = (span("sm_90a", wgmma(1, n, groups), 128, [0]) for groups in (2, 12))
    assert (more - some) / 10 == pytest.approx(cycles, rel=0.1)


def test_waits_for_products_come_before_arithmetic():
    # ptxas moves the wait up: exponentials that do not need the products begin when these end.
    wait = " wgmma.wait_group.sync.aligned 0;"
    text = (
        wgmma(16, 128)
        .replace("%f<64>", "%f<64>, %e")
        .replace("setp.ne", "mov.f32 %e, 0f3F800000; setp.ne", 1)
    )
    text = text.replace(" ret;", " st.shared.f32 [A], %e; ret;")
    plain, beside = (
        span("sm_90a", text.replace(wait, extra + wait), 128, [0])
        for extra in ("", "ex2.approx.ftz.f32 %e, %e;\n" * 20)
    )
    assert beside - plain == pytest.approx(20 * 17, rel=0.15)


def chain(letter):
    return f"fma.rn.f32 %{letter}, %{letter}, %{letter}, %{letter};\n" * 100


def test_arithmetic_passes_arrivals():
    text = f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 P) {{
 .reg .b32 %r; .reg .f32 %x, %y; .shared .align 8 .b64 bar; .shared .f32 S[2];
 mov.u32 %r, bar; mbarrier.init.shared::cta.b64 [%r], 1; mov.f32 %x, 0f3F800000;
 mov.f32 %y, 0f3F800000;
 {chain("x")} mbarrier.arrive.shared::cta.b64 _, [%r]; {chain("y")}
 st.shared.f32 [S], %x; st.shared.f32 [S+4], %y; ret;
}}
"""
    one = span("sm_90a", text.replace(chain("y"), ""), 1, [0])
    # The second chain begins beside the end of the first one.
    assert span("sm_90a", text, 1, [0]) < one + 300


def bulk_load(count, size):
    """One thread that loads ``size`` bytes and waits, ``count`` times."""
    turn = """ mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], SIZE;
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d], SIZE, [%r1];
W#: mbarrier.try_wait.parity.shared::cta.b64 %p, [%r1], PARITY; @!%p bra W#;
"""
    turns = "".join(
        turn.replace("#", str(i)).replace("SIZE", str(size)).replace("PARITY", str(i & 1))
        for i in range(count)
    )
    return f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 P) {{
 .reg .b32 %r<3>; .reg .b64 %d; .reg .pred %p;
 .shared .align 128 .b8 A[32768]; .shared .align 8 .b64 bar;
 mov.u32 %r1, bar; mov.u32 %r2, A; ld.param.u64 %d, [P];
 mbarrier.init.shared::cta.b64 [%r1], 1;
 fence.mbarrier_init.release.cluster;
{turns} ret;
}}
"""


# benchmark/microbench on an H200: from L2.
@pytest.mark.parametrize(
    "size, cycles", [(512, 398), (4096, 446), (8192, 474), (16384, 547), (32768, 690)]
)
def test_bulk_loads_take_their_latency(size, cycles):
    data = np.zeros(32768, np.uint8)
    some, more = (span("sm_90a", bulk_load(count, size), 1, [data]) for count in (2, 12))
    assert (more - some) / 10 == pytest.approx(cycles, rel=0.1)


def test_what_costs_nothing_takes_less():
    data = np.zeros(32768, np.uint8)
    kernel = Device("sm_90a").load_ptx(bulk_load(4, 32768))["k"]
    whole, without = (
        kernel.launch(1, 1, [data], timing=TimingOptions(ablate=frozenset(names))).timing
        for names in ((), ("memory",))
    )
    assert without.span_cycles < whole.span_cycles / 2
