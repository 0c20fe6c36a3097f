"""Races in global memory, of atomics with plain accesses, and between the lanes of a warp."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

_DECLARE = """ .reg .b32 %r<20>, %t, %b; .reg .b64 %d<20>; .reg .pred %p<9>; .reg .b16 %h<4>;
 .shared .align 16 .b8 sm[1024]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;
 ld.param.u64 %d0, [DATA]; ld.param.u64 %d1, [FLAG]; mad.lo.u32 %r0, %b, 64, %t;
 mul.wide.u32 %d2, %r0, 4; add.u64 %d2, %d2, %d0; mul.wide.u32 %d3, %t, 4; add.u64 %d3, %d3, %d0;
 shl.b32 %r1, %t, 2; mov.u32 %r2, sm; add.u32 %r1, %r1, %r2; xor.b32 %r3, %r1, 4;
 xor.b32 %r4, %r1, 128;
"""
#  %d2: this thread's word; %d3: the word of this thread in CTA 0; %r1, %r3, %r4: this thread's word
#  in shared memory, that of the lane beside it, that of the warp beside it


def launch(body, *, grid=4, block=64, data=None, **options):
    """Runs ``body`` on CTAs of 64 threads; returns (data, flag) afterwards."""
    params = ".param .u64 DATA, .param .u64 FLAG"
    text = f"{HEADER}.visible .entry k({params}) {{\n{_DECLARE}{body}\n ret;\n}}\n"
    rng = np.random.default_rng(3)
    data = rng.integers(1, 2**31, 64 * grid, np.uint32) if data is None else data
    flag = np.zeros(16, np.uint32)
    Device("sm_100a").load_ptx(text)["k"].launch(grid, block, [data, flag], **options)
    return data, flag


def race(body, **options):
    with pytest.raises(EmulatorError) as caught:
        launch(body, **options)
    assert caught.value.kind == "race", caught.value
    launch(body, **options, sanitize=False)
    return str(caught.value)


# --- global memory, without synchronisation


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("body", "verbs"),
    [
        ("st.global.u32 [%d3], %r0;", "write write"),
        ("st.global.u8 [%d3+1], %b;", "write write"),
        ("st.u32 [%d3], %r0;", "write write"),
        ("ld.global.u32 %r9, [%d3]; st.global.u32 [%d2], %r9;", "read write"),
        ("red.global.add.u32 [%d3], 1; ld.global.u32 %r9, [%d2];", "atomic read"),
        ("setp.eq.u32 %p1, %b, 2; @%p1 st.global.u32 [%d3], 7; @!%p1 red.global.max.u32 [%d3], 9;",
         "atomic write"),
        ("setp.eq.u32 %p1, %b, 3; @%p1 st.global.u32 [%d0+4], 7; ld.volatile.global.u32 %r9,"
         " [%d0+4];", "strong write"),
    ],
)  # fmt: skip
def test_ctas_race(body, verbs, threads):
    message = race(body, threads=threads)
    for verb in verbs.split():
        assert verb in message
    assert "of buffer 'DATA'" in message and "by CTA (" in message


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "body",
    [
        "ld.global.u32 %r9, [%d2]; add.u32 %r9, %r9, 1; st.global.u32 [%d2], %r9;",
        "ld.global.u32 %r9, [%d3]; ld.global.u32 %r8, [%d0];",
        "st.global.u32 [%d1], 77;",  # all write the same
        "st.global.v2.u32 [%d1+8], {77, %r2};",
        "red.global.add.u32 [%d3], 1;",
        "red.global.and.b32 [%d1], 0; red.global.max.u32 [%d1], %t;",
        "st.volatile.global.u32 [%d1], %b;",  # relaxed: a winner that nobody knows, but no race
    ],
)
def test_no_race_of_ctas(body, threads):
    launch(body, threads=threads)


def test_bytes_beside_each_other_are_no_race():
    launch("mul.wide.u32 %d4, %t, 4; mul.wide.u32 %d5, %b, 1; add.u64 %d4, %d4, %d5;"
           "add.u64 %d4, %d4, %d0; st.global.u8 [%d4], %b;", grid=4)  # fmt: skip


def test_warps_of_a_cta_race_in_global_memory():
    body = "st.global.u32 [%d2], %t; @SYNC@ xor.b32 %r9, %r0, 32; mul.wide.u32 %d4, %r9, 4;"
    body += "add.u64 %d4, %d4, %d0; ld.global.u32 %r8, [%d4];"
    message = race(body.replace("@SYNC@", ""), grid=1)
    assert "put a barrier between them" in message
    launch(body.replace("@SYNC@", "bar.sync 0;"), grid=1)


def test_a_bulk_store_races_with_another_cta():
    body = (
        "st.shared.u32 [%r1], %r0; fence.proxy.async.shared::cta; bar.sync 0;"
        "setp.eq.u32 %p1, %t, 0;"
        "@%p1 cp.async.bulk.global.shared::cta.bulk_group [@TO@], [%r2], 256;"
        "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"
    )
    launch("mul.wide.u32 %d4, %b, 256; add.u64 %d4, %d4, %d0;" + body.replace("@TO@", "%d4"))
    assert "by CTA (0,0,0)" in race(body.replace("@TO@", "%d0"), threads=1)
    for threads in (1, 2):  # all write the same
        launch(body.replace("@TO@", "%d0").replace("%r0", "%t"), threads=threads)


# --- order between CTAs

FIRST = "setp.ne.u32 %p2, %b, 0; @%p2 bra READ; st.global.u32 [%d2], %r0;"
LAST = "setp.ne.u32 %p3, %t, 0;"
READ = "READ: setp.eq.u32 %p2, %b, 0; @%p2 bra END;"
GOT = " mad.lo.u32 %r9, %t, 4, 4; ld.global.u32 %r10, [%d3]; st.global.u32 [%d2], %r10; END:"
SPIN = " SPIN: @LOAD@ %r9, [%d1]; setp.eq.u32 %p4, %r9, 0; @%p4 bra SPIN; @FENCE@"


def handover(release, acquire, fence="", before="bar.sync 0;", after="bar.sync 0;"):
    """CTA 0 writes and sets a flag; all others wait for the flag and read."""
    spin = SPIN.replace("@LOAD@", acquire).replace("@FENCE@", fence)
    return (
        FIRST + before + LAST + f" @%p3 bra END; {release} bra END;" + READ + LAST
        + " @%p3 bra WAITED;" + spin + " WAITED: " + after + GOT
    )  # fmt: skip


RIGHT = {
    "release, acquire": ("st.release.gpu.global.u32 [%d1], 1;", "ld.acquire.gpu.global.u32"),
    "red.release": ("red.release.gpu.global.add.u32 [%d1], 1;", "ld.acquire.gpu.global.u32"),
    "atom, sys": ("atom.acq_rel.sys.global.exch.b32 %r9, [%d1], 1;", "ld.acquire.sys.global.u32"),
    "fences around relaxed": (
        "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%d1], 1;", "ld.relaxed.gpu.global.u32",
        "fence.acq_rel.gpu;",
    ),
    "membar and volatile": (
        "membar.gl; st.volatile.global.u32 [%d1], 1;", "ld.volatile.global.u32", "membar.gl;",
    ),
    "membar and atomics": (
        "membar.gl; atom.global.add.u32 %r9, [%d1], 1;", "ld.volatile.global.u32", "membar.gl;",
    ),
    "generic addresses": ("st.release.gpu.u32 [%d1], 1;", "ld.acquire.gpu.u32"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("schedule", ["late", 5])
def test_handover_between_ctas(name, schedule):
    data, _ = launch(handover(*RIGHT[name]), schedule=schedule)
    np.testing.assert_array_equal(data.reshape(4, 64), np.tile(np.arange(64), (4, 1)))


@pytest.mark.parametrize(
    "parts",
    [
        ("st.relaxed.gpu.global.u32 [%d1], 1;", "ld.acquire.gpu.global.u32"),
        ("st.release.cta.global.u32 [%d1], 1;", "ld.acquire.gpu.global.u32"),
        ("st.release.gpu.global.u32 [%d1], 1;", "ld.acquire.cta.global.u32"),
        ("fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%d1], 1;", "ld.acquire.gpu.global.u32"),
        ("red.global.add.u32 [%d1], 1;", "ld.acquire.gpu.global.u32"),
        # other warps' writes are not ordered before the release, nor their reads after the wait
        (*RIGHT["release, acquire"], "", "", "bar.sync 0;"),
        (*RIGHT["release, acquire"], "", "bar.sync 0;", ""),
        (*RIGHT["release, acquire"][:1], "ld.relaxed.gpu.global.u32", "", "bar.sync 0;", ""),
    ],
)
def test_handover_that_does_not_order(parts):
    message = race(handover(*parts))
    assert "a release and an acquire of gpu scope" in message or "barrier" in message


TICKET = """st.global.u32 [%d2], %r0; @FENCE@ bar.sync 0; setp.ne.u32 %p1, %t, 0; @%p1 bra GOT;
 atom.global.inc.u32 %r9, [%d1], 3; st.shared.u32 [%r2], %r9;
 GOT: bar.sync 0; ld.shared.u32 %r9, [%r2]; setp.ne.u32 %p2, %r9, 3; @%p2 ret; @FENCE@
 mov.u32 %r10, 0; mov.u32 %r11, 0; SUM: ld.global.u32 %r12, [%d3]; add.u32 %r10, %r10, %r12;
 add.u64 %d3, %d3, 256; add.u32 %r11, %r11, 1; setp.lt.u32 %p3, %r11, 4; @%p3 bra SUM;
 st.global.u32 [%d2], %r10; @!%p1 st.global.u32 [%d1], 0;"""


def test_the_last_cta_reduces():
    data, flag = launch(TICKET.replace("@FENCE@", "membar.gl;"))
    columns = 4 * np.arange(64) + 64 * (0 + 1 + 2 + 3)
    assert any((row == columns).all() for row in data.reshape(4, 64))
    assert flag[0] == 0
    race(TICKET.replace("@FENCE@", ""))


def test_a_chain_of_ctas():
    # CTA i waits for i - 1 and adds to what all before it have left: a semaphore of split-K
    body = """setp.ne.u32 %p3, %t, 0; @%p3 bra GO;
     SPIN: ld.acquire.gpu.global.u32 %r9, [%d1]; setp.ne.u32 %p4, %r9, %b; @%p4 bra SPIN;
     GO: bar.sync 0; ld.global.u32 %r9, [%d3]; add.u32 %r9, %r9, %b; st.global.u32 [%d3], %r9;
     bar.sync 0; add.u32 %r9, %b, 1; @!%p3 @RELEASE@ [%d1], %r9;"""
    data, _ = launch(body.replace("@RELEASE@", "st.release.gpu.global.u32"), grid=9,
                     data=np.zeros(64 * 9, np.uint32))  # fmt: skip
    assert (data[:64] == 36).all()
    race(body.replace("@RELEASE@", "st.relaxed.gpu.global.u32"))


def test_a_lock_protects():
    body = """setp.ne.u32 %p3, %t, 0; @%p3 ret;
     LOCK: atom.global.@A@.cas.b32 %r9, [%d1], 0, 1; setp.ne.u32 %p4, %r9, 0; @%p4 bra LOCK;
     ld.global.u32 %r9, [%d1+4]; add.u32 %r9, %r9, 3; st.global.u32 [%d1+4], %r9;
     atom.global.@R@.exch.b32 %r9, [%d1], 0;"""
    right = body.replace("@A@", "acquire.gpu").replace("@R@", "release.gpu")
    assert launch(right, grid=20)[1][1] == 60
    race(body.replace("@A@", "acquire.gpu").replace("@R@", "relaxed.gpu"))


# --- shared memory: atomics and plain accesses, lanes


@pytest.mark.parametrize(
    ("body", "sync"),
    [
        ("st.shared.u32 [%r1], 0; bar.sync 0; atom.shared.add.u32 %r9, [%r2], 1; @SYNC@"
         "ld.shared.u32 %r9, [%r2];", "bar.sync 0;"),
        ("st.shared.u32 [%r1], 0; @SYNC@ red.shared.add.u32 [%r4], 1;", "bar.sync 0;"),
        ("st.shared.u32 [%r1], 0; bar.sync 0; red.shared.add.u32 [%r4], 1; @SYNC@"
         "st.shared.u32 [%r1], %t;", "bar.sync 0;"),
        ("st.shared.u32 [%r1], %t; @SYNC@ ld.shared.u32 %r9, [%r3];", "bar.warp.sync -1;"),
        ("st.shared.u32 [%r1], %t; @SYNC@ st.shared.u32 [%r3], 5;", "bar.warp.sync -1;"),
        ("st.shared.u32 [%r1], %t; bar.sync 0; ld.shared.u32 %r9, [%r3]; @SYNC@"
         "st.shared.u32 [%r1], 5;", "bar.warp.sync -1;"),
        ("st.shared.u32 [%r1], %t; @SYNC@ ld.shared.u32 %r9, [%r3];",
         "shfl.sync.idx.b32 %r9, %r9, 0, 31, -1;"),
        ("and.b32 %r9, %t, 31; setp.eq.u32 %p1, %r9, 7; and.b32 %r10, %t, 32;"
         "shl.b32 %r10, %r10, 2; add.u32 %r10, %r10, %r2; @%p1 st.shared.u32 [%r10], %t; @SYNC@"
         "ld.shared.u32 %r9, [%r10];",
         "bar.warp.sync -1;"),
        ("st.shared.v2.u32 [%r1+@HALF@], {%t, %t}; @SYNC@ ld.shared.u32 %r9, [%r3];",
         "bar.sync 0;"),
    ],
)  # fmt: skip
def test_shared_memory(body, sync):
    body = body.replace("%r1+@HALF@", "%r5")
    if "%r5" in body:
        body = "shl.b32 %r5, %t, 3; add.u32 %r5, %r5, %r2;" + body
    launch(body.replace("@SYNC@", sync))
    race(body.replace("@SYNC@", ""))


@pytest.mark.parametrize(
    "body",
    [
        "st.shared.u32 [%r2], 7; ld.shared.u32 %r9, [%r2];",  # the same value from everybody
        "st.shared.u32 [%r1], %t; ld.shared.u32 %r9, [%r1]; st.shared.u32 [%r1], %r9;",
        "shl.b32 %r5, %t, 1; add.u32 %r5, %r5, %r2; cvt.u16.u32 %h1, %t; st.shared.u16 [%r5], %h1;"
        "ld.shared.u16 %h2, [%r5];",
        # all lanes read half words, then most of them do so again and write
        "shl.b32 %r5, %t, 1; add.u32 %r5, %r5, %r2; cvt.u16.u32 %h1, %t; st.shared.u16 [%r5], %h1;"
        "ld.shared.u16 %h2, [%r5]; and.b32 %r9, %t, 7; setp.eq.u32 %p1, %r9, 7; @%p1 bra END;"
        "ld.shared.u16 %h2, [%r5]; st.shared.u16 [%r5], %h2; END:",
        "st.volatile.shared.u32 [%r1], %t; ld.volatile.shared.u32 %r9, [%r3];",
        # a flag between warps, in shared memory
        "setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 32; @%p1 st.shared.u32 [%r2], 0; bar.sync 0;"
        "@!%p2 bra READ; st.shared.u32 [%r2+512], 42; st.release.cta.shared.u32 [%r2], 1;"
        "READ: @!%p1 bra END; SPIN: ld.acquire.cta.shared.u32 %r9, [%r2]; setp.eq.u32 %p3, %r9, 0;"
        "@%p3 bra SPIN; ld.shared.u32 %r9, [%r2+512]; END:",
        # half a warp each
        "and.b32 %r9, %t, 16; setp.eq.u32 %p1, %r9, 0; st.shared.u32 [%r1], %t; @%p1 bra LOW;"
        "bar.warp.sync 0xFFFF0000; ld.shared.u32 %r9, [%r3]; bra END;"
        "LOW: bar.warp.sync 0xFFFF; ld.shared.u32 %r9, [%r3]; END:",
    ],
)
def test_no_race_in_shared_memory(body):
    launch(body)


def test_a_race_of_lanes_names_both():
    message = race("st.shared.u32 [%r1], %t; ld.shared.u32 %r9, [%r3];", block=32)
    assert "which was written by warp 0, lane 1" in message
    assert "bar.warp.sync (__syncwarp)" in message
    assert "warp 0, lane 0" in message


#: The word that all lanes of a warp share: %r10. %p1: lane 7.
_GROUP = """and.b32 %r9, %t, 31; setp.eq.u32 %p1, %r9, 7; and.b32 %r10, %t, 32;
 shl.b32 %r10, %r10, 2; add.u32 %r10, %r10, %r2; st.shared.u32 [%r1], %t; bar.sync 0; """


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    "body",
    [
        "ld.shared.u32 %r11, [%r10]; @%p1 st.shared.u32 [%r10], %r11;",
        "ld.shared.u32 %r11, [%r10]; @%p1 st.shared.u8 [%r10+3], %r11;",
        # the lanes of a branch, in a loop
        "setp.ge.u32 %p2, %r9, 20; @%p2 bra END; mov.u32 %r12, 0; LOOP: ld.shared.u32 %r11, [%r10];"
        "@%p1 st.shared.u32 [%r10], %r12; bar.warp.sync 0xFFFFF; add.u32 %r12, %r12, 1;"
        "setp.lt.u32 %p3, %r12, 9; @%p3 bra LOOP; END:",
    ],
)
def test_a_lane_writes_what_it_has_read_with_others(body):
    """A finding of level letter; with a barrier of the warp, none."""
    with pytest.raises(EmulatorError, match="all these lanes execute in step") as caught:
        launch(_GROUP + body, letters="fail")
    assert (caught.value.kind, caught.value.level) == ("lanes-in-step", "letter")
    launch(
        _GROUP
        + body.replace("@%p1 st", "bar.warp.sync %r13; @%p1 st").replace(
            "%r13", "0xFFFFF" if "LOOP" in body else "-1"
        ),
        letters="fail",
    )


@pytest.mark.parametrize(
    "body",
    [
        # lane 7 itself reads its own word, other bytes, by another instruction, or not at all
        "selp.b32 %r12, %r1, %r10, %p1; ld.shared.u32 %r11, [%r12]; @%p1 st.shared.u32 [%r10], %t;",
        "selp.b32 %r11, 2, 0, %p1; add.u32 %r12, %r10, %r11; ld.shared.u16 %h1, [%r12];"
        "@%p1 st.shared.u32 [%r10], %t;",
        "@!%p1 ld.shared.u32 %r11, [%r10]; @%p1 ld.shared.u32 %r11, [%r10];"
        "@%p1 st.shared.u32 [%r10], %t;",
        "@!%p1 ld.shared.u32 %r11, [%r10]; @%p1 st.shared.u32 [%r10], %t;",
        "@%p1 bra OWN; ld.shared.u32 %r11, [%r10]; bra END; OWN: ld.shared.u32 %r11, [%r10];"
        "st.shared.u32 [%r10], %t; END:",
        # a lane reads what another one has written
        "ld.shared.u32 %r11, [%r10]; bar.warp.sync -1; @%p1 st.shared.u32 [%r10], %t;"
        "ld.shared.u32 %r11, [%r10];",
    ],
)  # fmt: skip
def test_other_orders_of_lanes_are_races(body):
    race(_GROUP + body, letters="count")
