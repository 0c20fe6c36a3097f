"""cp.async and its groups, cp.async.bulk, bulk reductions and bulk groups."""

import numpy as np
import pytest

from tilelang.emulator import Device, EmulatorError

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
_KERNEL = """
.visible .entry k(.param .u64 IN, .param .u64 OUT) {{
 .shared .align 128 .b8 buf[8192]; .shared .align 8 .b64 bar[2];
 .reg .b32 %r<30>; .reg .b16 %h<4>; .reg .b64 %d<12>; .reg .pred %p<8>;
 mov.u32 %r0, %tid.x; mov.u32 %r1, buf; mov.u32 %r2, bar; setp.eq.u32 %p0, %r0, 0;
 ld.param.u64 %d0, [IN]; ld.param.u64 %d1, [OUT];
 @%p0 mbarrier.init.shared::cta.b64 [%r2], {count};
 @%p0 fence.mbarrier_init.release.cluster;
 bar.sync 0;
 {body}
 ret;
}}
"""
# Threads write what they find in shared memory, 16 bytes each.
DUMP = """
 shl.b32 %r10, %r0, 4; add.u32 %r11, %r10, %r1; cvt.u64.u32 %d5, %r10; add.u64 %d6, %d1, %d5;
 ld.shared.v4.b32 {%r12, %r13, %r14, %r15}, [%r11];
 st.global.v4.b32 [%d6], {%r12, %r13, %r14, %r15};
"""
PLACES = """
 shl.b32 %r20, %r0, 4; add.u32 %r21, %r20, %r1; cvt.u64.u32 %d2, %r20; add.u64 %d3, %d0, %d2;
"""


def launch(body, data, out, *, threads=128, count=1, **options):
    text = HEADER + _KERNEL.format(body=body, count=count)
    return Device().load_ptx(text)["k"].launch(1, threads, [data, out], **options)


def random_bytes(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)


SCHEDULES = pytest.mark.parametrize("schedule", ["late", "eager", 1, 2])


@SCHEDULES
@pytest.mark.parametrize(
    "wait", ["cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;"]
)
def test_cp_async(wait, schedule):
    data, out = random_bytes(2048), np.zeros(2048, np.uint8)
    body = PLACES + f" cp.async.cg.shared.global [%r21], [%d3], 16; {wait} bar.sync 0;" + DUMP
    launch(body, data, out, schedule=schedule)
    np.testing.assert_array_equal(out, data)


@pytest.mark.parametrize("size", [4, 8])
def test_cp_async_of_smaller_sizes(size):
    data, out = random_bytes(2048), np.zeros(2048, np.uint8)
    pieces = "".join(
        f" cp.async.ca.shared.global [%r21+{at}], [%d3+{at}], {size};" for at in range(0, 16, size)
    )
    launch(PLACES + pieces + " cp.async.wait_all; bar.sync 0;" + DUMP, data, out)
    np.testing.assert_array_equal(out, data)


@pytest.mark.parametrize("kept", [0, 4, 13, 16])
def test_source_size_fills_with_zeros(kept):
    data, out = random_bytes(2048), np.zeros(2048, np.uint8)
    body = f" mov.u32 %r22, {kept}; cp.async.cg.shared.global.L2::128B [%r21], [%d3], 16, %r22;"
    launch(PLACES + body + " cp.async.wait_all; bar.sync 0;" + DUMP, data, out)
    expected = data.reshape(-1, 16).copy()
    expected[:, kept:] = 0
    np.testing.assert_array_equal(out, expected.reshape(-1))


def test_ignored_sources_fill_with_zeros():
    data, out = random_bytes(2048), np.zeros(2048, np.uint8)
    body = " setp.lt.u32 %p1, %r0, 40; cp.async.cg.shared.global [%r21], [%d3], 16, %p1;"
    launch(PLACES + body + " cp.async.wait_all; bar.sync 0;" + DUMP, data, out)
    expected = data.reshape(-1, 16).copy()
    expected[:40] = 0
    np.testing.assert_array_equal(out, expected.reshape(-1))


def test_groups_finish_in_order():
    """With one group pending the older one is complete; the younger has not arrived (late)."""
    data, out = random_bytes(4096), np.zeros(2048, np.uint8)
    body = (
        PLACES
        + """
 cp.async.cg.shared.global [%r21], [%d3], 16; cp.async.commit_group;
 cp.async.cg.shared.global [%r21], [%d3+2048], 16; cp.async.commit_group;
 cp.async.wait_group 1; bar.sync 0;"""
        + DUMP
    )
    launch(body, data, out, sanitize=False)
    np.testing.assert_array_equal(out, data[:2048])
    with pytest.raises(EmulatorError) as caught:
        launch(body, data, out)
    assert caught.value.kind == "missing-wait"


@SCHEDULES
@pytest.mark.parametrize(("noinc", "count"), [(".noinc", 128), ("", 1)])
def test_cp_async_arrives_on_an_mbarrier(noinc, count, schedule):
    data, out = random_bytes(2048), np.zeros(2048, np.uint8)
    extra = "" if noinc else " bar.sync 0; @%p0 mbarrier.arrive.shared::cta.b64 _, [%r2];"
    body = (
        PLACES
        + f"""
 cp.async.cg.shared.global [%r21], [%d3], 16;
 cp.async.mbarrier.arrive{noinc}.shared::cta.b64 [%r2];{extra}
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;"""
        + DUMP
    )
    launch(body, data, out, count=count, schedule=schedule)
    np.testing.assert_array_equal(out, data)


@SCHEDULES
def test_bulk_load_and_store(schedule):
    data, out = random_bytes(2048), np.zeros(2048, np.uint8)
    body = """
 @!%p0 bra W;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 2048;
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d0], 2048, [%r2];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;
 @!%p0 bra END;
 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 2048;
 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END:"""
    launch(body, data, out, schedule=schedule)
    np.testing.assert_array_equal(out, data)


def test_stores_are_drained_when_the_kernel_ends():
    """Though the CTA must not end before its shared memory was read."""
    data, out = random_bytes(2048), np.zeros(2048, np.uint8)
    body = (
        PLACES
        + """
 ld.global.v4.b32 {%r12, %r13, %r14, %r15}, [%d3];
 st.shared.v4.b32 [%r21], {%r12, %r13, %r14, %r15};
 fence.proxy.async.shared::cta; bar.sync 0;
 @%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 2048;"""
    )
    launch(body, data, out, sanitize=False)
    np.testing.assert_array_equal(out, data)
    with pytest.raises(EmulatorError, match="the CTA exits while this bulk store may still read"):
        launch(body, data, out)


def test_byte_mask():
    data, out = random_bytes(2048), random_bytes(2048, 1)
    before = out.copy()
    body = (
        PLACES
        + """
 ld.global.v4.b32 {%r12, %r13, %r14, %r15}, [%d3];
 st.shared.v4.b32 [%r21], {%r12, %r13, %r14, %r15};
 fence.proxy.async.shared::cta; bar.sync 0; mov.u16 %h0, 0x8421;
 @%p0 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d1], [%r1], 2048, %h0;
 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    )
    launch(body, data, out)
    chosen = (0x8421 >> (np.arange(2048) % 16)) & 1 == 1
    np.testing.assert_array_equal(out, np.where(chosen, data, before))


@pytest.mark.parametrize(
    ("op", "dtype", "reference"),
    [
        ("add.u32", np.uint32, lambda a, b: a + b),
        ("add.u64", np.uint64, lambda a, b: a + b),
        ("min.s32", np.int32, np.minimum),
        ("max.s64", np.int64, np.maximum),
        ("xor.b64", np.uint64, np.bitwise_xor),
        ("add.f32", np.float32, lambda a, b: a + b),
        ("add.noftz.f16", np.float16, lambda a, b: a + b),
        ("max.f16", np.float16, np.maximum),
        ("add.f64", np.float64, lambda a, b: a + b),
    ],
)
def test_bulk_reductions(op, dtype, reference):
    rng = np.random.default_rng(3)
    count = 2048 // np.dtype(dtype).itemsize
    if np.issubdtype(dtype, np.floating):
        data, out = rng.standard_normal((2, count)).astype(dtype)
    else:
        data, out = (random_bytes(2048, seed).view(dtype) for seed in (3, 4))
    data, out = data.copy(), out.copy()
    with np.errstate(over="ignore"):
        expected = reference(out, data)
    body = (
        PLACES
        + f"""
 ld.global.v4.b32 {{%r12, %r13, %r14, %r15}}, [%d3];
 st.shared.v4.b32 [%r21], {{%r12, %r13, %r14, %r15}};
 fence.proxy.async.shared::cta; bar.sync 0; @!%p0 bra END;
 cp.reduce.async.bulk.global.shared::cta.bulk_group.{op} [%d1], [%r1], 2048;
 cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
END:"""
    )
    launch(body, data, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("body", "kind", "complaint"),
    [
        ("cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 24;", "illegal-operand", "16"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%d1+8], [%r1], 32;", "misaligned", "16"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 65536;", "out-of-bounds", ""),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
            "[%r1], [%d0], 32, [%r2+8];",
            "mbarrier",
            "no mbarrier",
        ),
    ],
)
def test_wrong_bulk_copies(body, kind, complaint):
    with pytest.raises(EmulatorError, match=complaint) as caught:
        launch(" @%p0 " + body, random_bytes(2048), np.zeros(2048, np.uint8))
    assert caught.value.kind == kind
    assert caught.value.ptx_line > 0


@pytest.mark.parametrize(
    "text",
    [
        "cp.async.cg.shared.global [%r1], [%d0], 8;",
        "cp.async.ca.shared.global [%r1], [%d0], 12;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.u64 [%d1], [%r1], 16;",
        "cp.async.bulk.global.global.bulk_group [%d1], [%d0], 16;",
        "cp.reduce.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.add.u32 "
        "[%r1], [%d0], 16, [%r2];",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.u32 [%d1], [%r1], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.tf32 [%d1], [%r1], 16;",
        "cp.async.bulk.global.shared::cta.bulk_group.multicast::cluster [%d1], [%r1], 16;",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.cp_mask "
        "[%r1], [%d0], 16, [%r2], %h0;",
    ],
)
def test_forms_that_do_not_exist(text):
    with pytest.raises(EmulatorError) as caught:
        launch(text, random_bytes(2048), np.zeros(2048, np.uint8))
    assert caught.value.kind in ("illegal-operand", "unsupported")


def multicast():
    return (
        HEADER
        + """
.visible .entry k(.param .u64 IN, .param .u64 OUT) .reqnctapercluster 4 {
 .shared .align 128 .b8 buf[512]; .shared .align 8 .b64 bar;
 .reg .b32 %r<30>; .reg .b16 %h<4>; .reg .b64 %d<12>; .reg .pred %p<8>;
 mov.u32 %r0, %tid.x; mov.u32 %r1, buf; mov.u32 %r2, bar; setp.eq.u32 %p0, %r0, 0;
 mov.u32 %r3, %cluster_ctarank; ld.param.u64 %d0, [IN]; ld.param.u64 %d1, [OUT];
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 @%p0 fence.mbarrier_init.release.cluster;
 @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
 barrier.cluster.arrive; barrier.cluster.wait;
 setp.eq.u32 %p1, %r3, 2; and.pred %p1, %p1, %p0; mov.u16 %h0, 11; mov.u16 %h1, 4;
 @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
   [%r1], [%d0], 512, [%r2], %h0;
 @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
   [%r1], [%d0+512], 512, [%r2], %h1;
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;
 shl.b32 %r10, %r0, 4; add.u32 %r11, %r10, %r1; mad.lo.u32 %r10, %r3, 512, %r10;
 cvt.u64.u32 %d5, %r10; add.u64 %d6, %d1, %d5;
 ld.shared.v4.b32 {%r12, %r13, %r14, %r15}, [%r11];
 st.global.v4.b32 [%d6], {%r12, %r13, %r14, %r15};
 barrier.cluster.arrive; barrier.cluster.wait;
 ret;
}"""
    )


@SCHEDULES
def test_the_end_of_a_multicast_ends_the_use_of_its_mbarriers(schedule):
    """The copies of another CTA use the mbarrier until their completion is observed."""
    wait, last = "@!%p2 bra W;", " barrier.cluster.arrive; barrier.cluster.wait;\n ret;"
    ends = " @%p0 mbarrier.inval.shared::cta.b64 [%r2];"
    arguments = [random_bytes(1024), np.zeros((4, 512), np.uint8)]

    def launch(text, threads):
        kernel = Device().load_ptx(text)["k"]
        return kernel.launch(4, threads, arguments, cluster=4, schedule=schedule)

    launch(multicast().replace(wait, wait + " bar.warp.sync 0xFFFFFFFF;" + ends), 32)
    skips = " setp.ge.u32 %p3, %r0, 32; @%p3 bra S;\nW:"
    other = "S: setp.eq.u32 %p0, %r0, 32;" + ends + last
    with pytest.raises(EmulatorError) as caught:
        launch(multicast().replace("W:", skips).replace(last, other), 64)
    assert caught.value.kind in ("race", "missing-wait", "mbarrier")


@SCHEDULES
def test_multicast_reaches_every_cta_of_the_mask(schedule):
    data, out = random_bytes(1024), np.zeros((4, 512), np.uint8)
    kernel = Device().load_ptx(multicast())["k"]
    kernel.launch(4, 32, [data, out], cluster=4, schedule=schedule)
    expected = np.stack([data[:512], data[:512], data[512:], data[:512]])
    np.testing.assert_array_equal(out, expected)
