"""The smallest complete Blackwell kernel, whole and broken in many ways.

One CTA: TMA loads A and B, the tensor core multiplies them, four warps store the accumulator.
"""

import numpy as np
import pytest
import torch

from tilelang.emulator import Device, EmulatorError

KERNEL = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 TA[128], .param .align 64 .b8 TB[128], .param .u64 OUT)
 .maxntid 128,1,1 .minnctapersm 1 {
 .shared .align 1024 .b8 sA[16384];   .shared .align 1024 .b8 sB[16384];
 .shared .align 8 .b64 bar[2];        .shared .b32 tp;
 .reg .b32 r<40>; .reg .b32 v<40>; .reg .b64 d<20>; .reg .pred p,q,z;
 mov.u32 r0,%tid.x; shr.u32 r1,r0,5; mov.u32 r2,bar; add.u32 r3,r2,8; mov.u32 r4,tp;
 setp.ne.u32 p,r1,0;                                   // p: not warp 0
 @p bra S1;
 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r4],128;
 elect.sync _|q,0xffffffff;
 @q mbarrier.init.shared::cta.b64 [r2],1;              // "full"
 @q mbarrier.init.shared::cta.b64 [r3],1;              // "mma done"
 @q fence.mbarrier_init.release.cluster;
S1:
 tcgen05.fence::before_thread_sync;  bar.sync 0;  tcgen05.fence::after_thread_sync;
 ld.shared.u32 r5,[r4];                                // TMEM base
 @p bra EPI;
 elect.sync _|q,0xffffffff;
 @!q bra EPI;
 mov.u32 r6,sA; mov.u32 r7,sB; mov.u32 r8,0; mov.u64 d0,TA; mov.u64 d1,TB;
 cvta.param.u64 d0,d0; cvta.param.u64 d1,d1;
 mbarrier.arrive.expect_tx.shared::cta.b64 _,[r2],32768;
 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
  [r6],[d0,{r8,r8}],[r2];
 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
  [r7],[d1,{r8,r8}],[r2];
W0: mbarrier.try_wait.parity.shared::cta.b64 q,[r2],0; @!q bra W0;
 tcgen05.fence::after_thread_sync;
 shr.u32 r9,r6,4;  and.b32 r9,r9,0x3FFF;   shr.u32 r10,r7,4; and.b32 r10,r10,0x3FFF;
 cvt.u64.u32 d2,r9;  or.b64 d2,d2,0x4000404000010000;  // SW128, SBO 1024, LBO field 1, bit 46
 cvt.u64.u32 d3,r10; or.b64 d3,d3,0x4000404000010000;
 mov.u32 r11,0x08200490; mov.u32 r12,0;                // bf16 x bf16 -> f32, 128 x 128
L0: setp.ne.u32 z,r12,0;                               // first K step overwrites D
 tcgen05.mma.cta_group::1.kind::f16 [r5],d2,d3,r11,z;
 add.u64 d2,d2,2; add.u64 d3,d3,2; add.u32 r12,r12,1; setp.lt.u32 q,r12,4; @q bra L0;
 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [r3];
EPI:
 bar.warp.sync 0xffffffff;
W1: mbarrier.try_wait.parity.shared::cta.b64 q,[r3],0; @!q bra W1;
 tcgen05.fence::after_thread_sync;
 shl.b32 r13,r1,21; add.u32 r13,r13,r5;                // lane 32*warp
 ld.param.u64 d5,[OUT]; mul.wide.u32 d6,r0,512; add.u64 d5,d5,d6; mov.u32 r14,0;
L1:
 tcgen05.ld.sync.aligned.32x32b.x8.b32 {v0,v1,v2,v3,v4,v5,v6,v7},[r13];
 tcgen05.wait::ld.sync.aligned;
 st.global.v4.b32 [d5],{v0,v1,v2,v3}; st.global.v4.b32 [d5+16],{v4,v5,v6,v7};
 add.u32 r13,r13,8; add.u64 d5,d5,32; add.u32 r14,r14,8; setp.lt.u32 q,r14,128; @q bra L1;
 tcgen05.fence::before_thread_sync; bar.sync 0;
 @p bra E;
 tcgen05.fence::after_thread_sync;
 tcgen05.dealloc.cta_group::1.sync.aligned.b32 r5,128;
 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
E: ret;
}
"""


def operands(seed=0):
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(128, 64, generator=generator).bfloat16() for _ in range(2))
    return a, b, torch.full((128, 128), float("nan"))


def launch(text, seed=0, **options):
    a, b, out = operands(seed)
    device = Device("sm_100a")
    maps = [device.tensor_map(x, box=(128, 64), swizzle="128B") for x in (a, b)]
    report = device.load_ptx(text)["k"].launch(1, 128, [*maps, out], **options)
    return a, b, out, report


def broken(*replacements):
    text = KERNEL
    for old, new in replacements:
        assert text.count(old) >= 1, old
        text = text.replace(old, new)
    return text


def line_of(text, part):
    return text[: text.index(part)].count("\n") + 1


@pytest.mark.parametrize("schedule", ["late", "eager", 1, 2, 3, 4])
def test_the_kernel_is_right(schedule):
    a, b, out, report = launch(KERNEL, seed=1, schedule=schedule)
    exact = a.double() @ b.double().T
    np.testing.assert_allclose(out.double(), exact, atol=1e-4, rtol=0)
    assert report.warnings == []


W0 = "W0: mbarrier.try_wait.parity.shared::cta.b64 q,[r2],0; @!q bra W0;"
W1 = "W1: mbarrier.try_wait.parity.shared::cta.b64 q,[r3],0; @!q bra W1;"
COMMIT = " tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [r3];"
AFTER_ALLOC = "bar.sync 0;  tcgen05.fence::after_thread_sync;\n ld.shared.u32 r5,[r4];"
LAST_BARRIER = " tcgen05.fence::before_thread_sync; bar.sync 0;\n @p bra E;"
MMA = " tcgen05.mma.cta_group::1.kind::f16 [r5],d2,d3,r11,z;"
ELECT = " elect.sync _|q,0xffffffff;\n @!q bra EPI;"
LOAD_B = "[r7],[d1"
LD = " tcgen05.ld.sync.aligned.32x32b.x8.b32"

# Name: replacements, kind of the error, part of its message, and where it is seen.
BROKEN = {
    "no wait for the loads": ([(W0, "")], "missing-wait", "reads its operand in", MMA),
    "no wait for the tensor core": ([(W1, "")], None, "", None),
    "wrong parity of the last wait": ([(W1, W1.replace("],0;", "],1;"))], None, "", None),
    "no commit": ([(COMMIT, "")], "deadlock", "awaits 1 of 1 arrivals", None),
    "no elect: every lane issues": (
        [(ELECT, "")],
        "mbarrier",
        "over-arrival",
        " mbarrier.arrive.expect_tx",
    ),
    "swizzle code that does not exist": (
        [("or.b64 d2,d2,0x4000404000010000", "or.b64 d2,d2,0x6000404000010000")],
        "descriptor",
        "swizzle code 3",
        MMA,
    ),
    "reserved bit of the instruction descriptor": (
        [("0x08200490", "0x08A00490")],
        "descriptor",
        "reserved bits",
        MMA,
    ),
    "more columns than allocated": (
        [("0x08200490", "0x08400490")],
        "out-of-bounds",
        "operand B",
        MMA,
    ),
    "shape that does not exist": ([("0x08200490", "0x06200490")], "descriptor", "M=96", MMA),
    "lane between quarters": (
        [("shl.b32 r13,r1,21", "shl.b32 r13,r1,20")],
        "tmem-lanes",
        "starts at lane 16",
        LD,
    ),
    "reads past the allocation": (
        [("setp.lt.u32 q,r14,128", "setp.lt.u32 q,r14,136")],
        "tmem",
        "not allocated",
        LD,
    ),
    "tensor memory is not freed": (
        [(" tcgen05.dealloc.cta_group::1.sync.aligned.b32 r5,128;", "")],
        "tmem-leak",
        "columns 0..127",
        " tcgen05.alloc",
    ),
    "freed with another size": (
        [("sync.aligned.b32 r5,128", "sync.aligned.b32 r5,64")],
        "tmem",
        "matches no allocation",
        " tcgen05.dealloc",
    ),
    "freed while others read": (
        [(LAST_BARRIER, " @p bra E;")],
        None,
        "",
        None,
    ),
    "illegal number of columns": (
        [("[r4],128;", "[r4],96;")],
        "tmem",
        "power of two",
        " tcgen05.alloc",
    ),
    "too few bytes expected": (
        [("[r2],32768", "[r2],16384")],
        "mbarrier",
        "expect_tx was too small",
        "cp.async.bulk.tensor",
    ),
    "too many bytes expected": ([("[r2],32768", "[r2],32784")], "deadlock", "16 bytes", None),
    "barrier of arrivals that never come": (
        [('[r3],1;              // "mma', '[r3],2;              // "mma')],
        "deadlock",
        "awaits 1 of 2 arrivals",
        None,
    ),
    "both loads into one buffer": (
        [(LOAD_B, "[r6],[d1")],
        "missing-wait",
        "which is also written",
        None,
    ),
    "load to a misaligned address": (
        [("mov.u32 r7,sB;", "mov.u32 r7,sB+64;")],
        "misaligned",
        "multiple of 128",
        None,
    ),
    "no barrier after allocation": (
        [(AFTER_ALLOC, "\n ld.shared.u32 r5,[r4];")],
        None,
        "",
        None,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_reported(name):
    replacements, kind, message, place = BROKEN[name]
    text = broken(*replacements)
    with pytest.raises(EmulatorError) as caught:
        launch(text)
    error = caught.value
    if kind is None:  # which of the unordered uses comes first depends on the order of warps
        assert error.kind in ("race", "mbarrier", "missing-wait", "tmem")
        return
    assert error.kind == kind
    assert message in str(error)
    if place is not None:
        lines = [
            i + 1
            for i, line in enumerate(text.split("\n"))
            if place in "\n" + line or place in line
        ]
        assert error.ptx_line in lines
        assert error.warp is not None
        assert error.cta == (0, 0, 0)


def test_accumulating_over_nothing_is_reported():
    text = broken(("setp.ne.u32 z,r12,0;", "setp.ne.u32 z,r12,99;"))
    message = "which accumulates, reads tensor memory that nothing"
    with pytest.raises(EmulatorError, match=message) as caught:
        launch(text)
    assert caught.value.kind == "uninitialised-tmem"
    with pytest.warns(UserWarning, match=message):
        launch(text, sanitize=False)


@pytest.mark.parametrize("schedule", ["late", "eager", 1, 2])
def test_a_missing_wait_is_reported_under_every_schedule(schedule):
    with pytest.raises(EmulatorError) as caught:
        launch(broken((W1, "")), schedule=schedule)
    assert caught.value.kind in ("missing-wait", "race")


def test_a_missing_wait_gives_wrong_numbers_without_the_sanitizer():
    """What the late schedule is for: the error shows even if nobody looks for it."""
    a, b, out, _ = launch(broken((W1, "")), sanitize=False)
    exact = a.double() @ b.double().T
    assert not np.allclose(out.double(), exact, atol=1e-4, rtol=0)


@pytest.mark.parametrize("schedule", ["late", "eager", 1])
def test_kernels_of_compilers_that_emit_no_fences(schedule):
    """They order by completion and barriers alone; that is all that is reported of them."""
    text = KERNEL.replace("tcgen05.fence::before_thread_sync;", "")
    text = text.replace("tcgen05.fence::after_thread_sync;", "")
    text = text.replace(" tcgen05.wait::ld.sync.aligned;\n", "")
    with pytest.raises(EmulatorError, match=r"tcgen05\.fence"):
        launch(text, schedule=schedule, suppress=[("ld-before-wait", "k")])
    suppress = [("missing-tcgen05-fence", "k"), ("ld-before-wait", "k"), ("missing-wait", "k")]
    a, b, out, report = launch(text, schedule=schedule, suppress=suppress)
    np.testing.assert_allclose(out.double(), a.double() @ b.double().T, atol=1e-4, rtol=0)
    assert report.warnings == report.findings == []
