"""Tensor copies with .cta_group::2: the mbarrier of the peer CTA, and multicasts to pairs."""

import numpy as np
import pytest

from tilelang.emulator import Device, EmulatorError

SCHEDULES = pytest.mark.parametrize("schedule", ["late", "eager", 1, 2])
ROWS, COLUMNS = 16, 64
BYTES = ROWS * COLUMNS
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
# A CTA of each rank has a tile and an mbarrier. %r3 rank, %p0 thread 0, %r4 and %r5 tile and
# barrier; OUT: the tiles of all.
_KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 MAP[128], .param .u64 OUT) {{
 .shared .align 1024 .b8 tile[{bytes}]; .shared .align 8 .b64 bar;
 .reg .b32 %r<20>; .reg .b16 %h<3>; .reg .b64 %d<5>; .reg .pred %p<9>;
 mov.u64 %d0, MAP; cvta.param.u64 %d0, %d0; mov.u32 %r0, %tid.x; mov.u32 %r3, %cluster_ctarank;
 mov.u32 %r4, tile; mov.u32 %r5, bar; setp.eq.u32 %p0, %r0, 0;
 @%p0 mbarrier.init.shared::cta.b64 [%r5], 1; @%p0 fence.mbarrier_init.release.cluster;
 {meet}
 mov.u32 %r6, 0; mul.lo.u32 %r7, %r3, {rows};
 {body}
DONE:
 {meet}
 ld.param.u64 %d1, [OUT]; mov.u32 %r8, %ctaid.x; mad.lo.u32 %r8, %r8, 128, %r0;
 mul.wide.u32 %d2, %r8, 8; add.u64 %d1, %d1, %d2; mad.lo.u32 %r9, %r0, 8, %r4;
 ld.shared.b64 %d3, [%r9]; st.global.b64 [%d1], %d3;
 {meet}
 ret;
}}
"""
COPY = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{modifiers} "
    "[%r4], [%d0, {{%r6, %r7}}], [{barrier}]{mask};"
)


def run(body, size, schedule="late", clusters=1):
    """The tensor, and the tiles of all CTAs."""
    data = np.random.default_rng(size).integers(0, 256, (size * ROWS, COLUMNS), dtype=np.uint8)
    device = Device("sm_100a")
    tensor = device.tensor_map(data, box=(ROWS, COLUMNS))
    text = _KERNEL.format(body=body, bytes=BYTES, rows=ROWS, meet=MEET)
    out = np.full((clusters, size, ROWS, COLUMNS), 0xCC, np.uint8)
    kernel = device.load_ptx(text)["k"]
    kernel.launch(clusters * size, 128, [tensor, out], cluster=size, schedule=schedule)
    return data.reshape(size, ROWS, COLUMNS), out


def expect(parity, count):
    """The threads 0 of the CTAs of this parity expect ``count`` tiles."""
    return f"""
 and.b32 %r10, %r3, 1; setp.eq.u32 %p1, %r10, {parity}; and.pred %p2, %p0, %p1;
 @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {count * BYTES};
"""


WAIT = """
 @!%p1 bra DONE;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0; @!%p3 bra WAIT;
"""
# The barrier of the even or the odd CTA of the pair.
ADDRESS = {
    0: " and.b32 %r11, %r5, 0xFEFFFFFF;\n",
    1: " or.b32 %r11, %r5, 0x01000000;\n",
}


@SCHEDULES
@pytest.mark.parametrize("parity", [0, 1])
@pytest.mark.parametrize("size", [2, 4])
def test_both_ctas_complete_on_the_barrier_of_one(size, parity, schedule):
    copy = COPY.format(modifiers=".cta_group::2", barrier="%r11", mask="")
    body = ADDRESS[parity] + expect(parity, 2) + f" @%p0 {copy}\n" + WAIT
    data, out = run(body, size, schedule, clusters=2)
    np.testing.assert_array_equal(out, np.stack([data, data]))


@SCHEDULES
@pytest.mark.parametrize("parity", [0, 1])
@pytest.mark.parametrize("mask", [0b0101, 0b1010, 0b1111, 0b0110])
def test_multicast_signals_the_ctas_of_one_parity(mask, parity, schedule):
    """Rank 2 sends its rows; each pair's CTA of the barrier's parity hears of its pair's copies."""
    copy = COPY.format(modifiers=".multicast::cluster.cta_group::2", barrier="%r11", mask=", %h0")
    pairs = [bin(mask >> 2 * pair & 3).count("1") for pair in range(2)]
    body = ADDRESS[parity] + f"""
 shr.u32 %r12, %r3, 1; setp.eq.u32 %p4, %r12, 0; selp.b32 %r13, {pairs[0]}, {pairs[1]}, %p4;
 mul.lo.u32 %r13, %r13, {BYTES}; and.b32 %r10, %r3, 1; setp.eq.u32 %p1, %r10, {parity};
 and.pred %p2, %p0, %p1; mov.b16 %h0, {mask};
 @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], %r13;
 setp.eq.and.u32 %p5, %r3, 2, %p0; @%p5 {copy}
""" + WAIT  # fmt: skip
    # What nobody sends to keeps what is written here.
    fill = " mad.lo.u32 %r14, %r0, 8, %r4; mov.b64 %d4, -1; st.shared.b64 [%r14], %d4;"
    fill += f" fence.proxy.async.shared::cta; {MEET}\n"
    data, out = run(fill + body, 4, schedule)
    for rank in range(4):
        expected = data[2] if mask >> rank & 1 else np.full_like(data[2], 0xFF)
        np.testing.assert_array_equal(out[0, rank], expected)


@pytest.mark.parametrize(
    ("modifiers", "address", "size", "kind", "complaint"),
    [
        ("", ADDRESS[0], 2, "mbarrier", r"with \.cta_group::2 in its peer"),
        (".cta_group::1", ADDRESS[0], 2, "mbarrier", r"with \.cta_group::2 in its peer"),
        (
            ".cta_group::2",
            "mapa.shared::cluster.u32 %r11, %r5, 0;",
            4,
            "mbarrier",
            "it must be in that CTA or its peer",
        ),
        (".cta_group::2", ADDRESS[1], 1, "out-of-bounds", "mbarrier lies outside"),
        (".cta_group::3", ADDRESS[0], 2, "illegal", "cta_group::3"),
    ],
)
@SCHEDULES
def test_wrong_barriers(modifiers, address, size, kind, complaint, schedule):
    copy = COPY.format(modifiers=modifiers, barrier="%r11", mask="")
    body = address + expect(0, size) + f" @%p0 {copy}\n" + WAIT
    with pytest.raises(EmulatorError, match=complaint) as caught:
        run(body, size, schedule)
    assert caught.value.ptx_line > 0
    assert kind in ("illegal", caught.value.kind)


@SCHEDULES
@pytest.mark.parametrize("parity", [0, 1])
def test_shared_cta_has_the_barrier_of_its_own(parity, schedule):
    copy = COPY.format(modifiers=".cta_group::2", barrier="%r11", mask="")
    copy = copy.replace("shared::cluster", "shared::cta")
    body = ADDRESS[parity] + expect(parity, 2) + f" @%p0 {copy}\n" + WAIT
    with pytest.raises(EmulatorError, match=r"use \.shared::cluster") as caught:
        run(body, 2, schedule)
    assert caught.value.kind == "illegal-operand"


@SCHEDULES
def test_the_peer_must_not_read_without_waiting(schedule):
    """Its copy is complete when the other's barrier is, of which it is not told."""
    copy = COPY.format(modifiers=".cta_group::2", barrier="%r11", mask="")
    body = ADDRESS[0] + expect(0, 2) + f" @%p0 {copy}\n" + WAIT
    read = " bar.sync 0; @%p1 bra READ; ld.shared.b32 %r15, [%r4];\nREAD:"
    with pytest.raises(EmulatorError, match="the mbarrier on which the bulk copy") as caught:
        run(body.replace(" @!%p1 bra DONE;", f"{read}\n @!%p1 bra DONE;"), 2, schedule)
    assert caught.value.kind == "missing-wait"
