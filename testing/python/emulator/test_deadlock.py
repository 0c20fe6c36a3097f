"""Deadlock: found, and told well, when threads poll; never found where threads make progress."""

import time

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

_START = """ .reg .b32 %r<20>, %t, %b; .reg .b64 %d<20>; .reg .pred %p<9>, %first; .reg .b16 %h<4>;
 .shared .align 16 .b8 sm[1024]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %r1, sm;
 ld.param.u64 %d0, [DATA]; ld.param.u64 %d1, [LINK]; setp.eq.u32 %first, %t, 0;
 @%first mbarrier.init.shared.b64 [%r1], 2; @%first st.shared.v2.u32 [%r1+64], {0, 0};
 @%first st.shared.u32 [%r1+32], 1; bar.sync 0;
"""


def launch(body, *, grid=1, block=32, arch="sm_100a", **options):
    text = f"{HEADER}.visible .entry k(.param .u64 DATA, .param .u64 LINK) {{\n{_START}{body}\n"
    data = np.zeros(64, np.uint32)
    report = (
        Device(arch)
        .load_ptx(text + " ret;\n}\n")["k"]
        .launch(grid, block, [data, np.zeros(64, np.uint32)], **options)
    )
    return data, report


def deadlock(body, **options):
    start = time.process_time()
    with pytest.raises(EmulatorError) as caught:
        launch(body, **options)
    assert caught.value.kind == "deadlock", caught.value
    assert time.process_time() - start < 20
    return caught.value


AGAIN = " setp.eq.u32 %p1, %r5, 0;\n @%p1 bra W;"
TAKEN = " setp.ne.u32 %p1, %r5, 0;\n @%p1 bra W;"
UNLESS = "\n @!%p2 bra W;"
# Name: the loop, and what the report says of it.
POLLS = {
    "cas of a lock that is held": ("atom.shared.cas.b32 %r5, [%r1+32], 0, 1;" + TAKEN,
                                   "poll shared memory at 0x420: which holds 0x1"),
    "exch of a lock that is held": ("atom.shared.exch.b32 %r5, [%r1+32], 1;" + TAKEN,
                                    "poll shared memory at 0x420: which holds 0x1"),
    "add of 0": ("atom.global.add.u32 %r5, [%d0+8], 0;" + AGAIN, "byte 8 of buffer 'DATA'"),
    "cas that never fits": ("atom.global.cas.b32 %r5, [%d0], 1, 2;" + AGAIN, "buffer 'DATA'"),
    "cas of 64 bits": ("atom.global.cas.b64 %d5, [%d0], 1, 2; cvt.u32.u64 %r5, %d5;" + AGAIN,
                       "buffer 'DATA'"),
    "max": ("atom.shared.max.u32 %r5, [%r1+64], 0;" + AGAIN, "0x440: which holds 0x0"),
    "generic or": ("atom.or.b32 %r5, [%d0], 0;" + AGAIN, "poll global memory"),
    "volatile": ("ld.volatile.shared.u32 %r5, [%r1+64];" + AGAIN, "poll shared memory at 0x440"),
    "volatile byte": ("ld.volatile.global.u8 %h1, [%d0+3]; cvt.u32.u16 %r5, %h1;" + AGAIN,
                      "byte 3 of buffer 'DATA'"),
    "acquire": ("ld.acquire.gpu.global.u32 %r5, [%d0];" + AGAIN, "which holds 0x0"),
    "sleeping": ("nanosleep.u32 100; ld.relaxed.gpu.global.u32 %r5, [%d0];" + AGAIN,
                 "poll global memory"),
    "back-off": ("nanosleep.u32 %r9; shl.b32 %r9, %r9, 1; min.u32 %r9, %r9, 4096;"
                 "atom.global.cas.b32 %r5, [%d0], 1, 2;" + AGAIN, "poll global memory"),
    "counting": ("add.u32 %r9, %r9, 1; ld.volatile.global.u32 %r5, [%d0];" + AGAIN,
                 "poll global memory"),
    "counting cas": ("add.u32 %r9, %r9, 1; atom.global.cas.b32 %r5, [%d0], 1, 2;" + AGAIN,
                     "nothing has changed for 200000 tries"),
    "test_wait": ("mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;" + UNLESS,
                  "poll mbarrier at 0x400: parity 0; it runs phase 0 (parity 0) and awaits 2 of 2"),
    "test_wait of one thread": (
        "@!%first bra E; mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;" + UNLESS + " E:",
        "lanes 0 at line 11 (mbarrier.test_wait",
    ),
    "try_wait": ("mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;" + UNLESS,
                 "mbarrier at 0x400: parity 0"),
    "try_wait, sleeping": ("mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @%p2 bra E;"
                           "nanosleep.u32 20;\n bra W; E:", "mbarrier at 0x400: parity 0"),
    "try_wait, counting": ("add.u32 %r9, %r9, 1; mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;"
                           + UNLESS, "mbarrier at 0x400: parity 0"),
    "a plain load": ("ld.shared.u32 %r5, [%r1+64];" + AGAIN, "run in a loop"),
    "nothing": ("bra W;", "run in a loop"),
    "a barrier in the loop": ("bar.sync 0; ld.volatile.shared.u32 %r5, [%r1+64];" + AGAIN,
                              "poll shared memory at 0x440"),
}  # fmt: skip


# In a random order of threads, rounds in which all poll are rare: loops without a repeated state
# are not given up.
ORDERS = [(name, "late") for name in POLLS]
ORDERS += [(name, 2) for name in POLLS if "counting" not in name and "barrier" not in name]


@pytest.mark.parametrize(("name", "schedule"), ORDERS)
def test_polls_for_ever(name, schedule):
    loop, told = POLLS[name]
    error = deadlock(" mov.u32 %r9, 1;\nW: " + loop, block=64, schedule=schedule)
    assert told in error.reason
    assert "CTA (0,0,0) warp 0" in error.reason
    assert "line 11 (" in error.reason
    assert error.ptx_line in (11, 12)
    assert error.warp == 0


def test_every_warp_is_told():
    body = """ setp.lt.u32 %p1, %t, 32; @%p1 bra A; setp.lt.u32 %p1, %t, 64; @%p1 bra B;
 bar.sync 2, 64; bra E;
A: mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra A; bra E;
B: ld.acquire.gpu.global.u32 %r5, [%d0+4]; setp.ne.u32 %p2, %r5, 7; @%p2 bra B;
E:"""
    reason = deadlock(body, block=96).reason
    assert "warp 0 all lanes at line 12 (mbarrier.test_wait" in reason
    assert "poll mbarrier at 0x400" in reason
    assert "warp 1 all lanes at line 13 (ld.acquire.gpu.global.u32) poll global memory" in reason
    assert "warp 2 all lanes at line 11 (bar.sync) wait for named barrier" in reason
    assert "barrier 2, 32 of 64 threads" in reason


@pytest.mark.parametrize("threads", [1, 2])
def test_poll_of_shared_memory_in_a_grid(threads):
    error = deadlock("W: ld.volatile.shared.u32 %r5, [%r1+64];" + AGAIN, grid=50, threads=threads)
    assert "0x440" in error.reason


def test_grid_that_the_gpu_cannot_hold():
    body = "@%first red.release.gpu.global.add.u32 [%d0], 1;"
    body += "W: ld.acquire.gpu.global.u32 %r5, [%d0]; setp.lt.u32 %p1, %r5, 160; @%p1 bra W;"
    launch(body, grid=160, block=32)  # more than one for each SM
    error = deadlock(body, grid=160, block=32, smem=116 * 1024)
    assert "12 clusters have not started" in error.reason


# --- no deadlock

COUNT = "add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, {}; @%p3 bra {};"
PROGRESS = {
    "many tries, then on": "W: ld.volatile.global.u32 %r5, [%d0+4]; setp.ne.u32 %p1, %r5, 0;"
    "@%p1 bra D;" + COUNT.format(100000, "W") + "D:",
    "many atomics, then on": "W: atom.global.cas.b32 %r5, [%d0+4], 1, 2;"
    + COUNT.format(100000, "W"),
    "many try_waits, then on": "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;"
    + COUNT.format(20000, "W"),
    "many test_waits, then on": "W: mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;"
    + COUNT.format(50000, "W"),
    "a long volatile scan": "W: and.b32 %r6, %r9, 63; mul.wide.u32 %d5, %r6, 4;"
    "add.u64 %d5, %d5, %d1; ld.volatile.global.u32 %r5, [%d5];" + COUNT.format(250000, "W"),
    "sleeping until a time": "mov.u64 %d6, %globaltimer; W: nanosleep.u32 1; mov.u64 %d7, "
    "%globaltimer; sub.u64 %d7, %d7, %d6; setp.lt.u64 %p1, %d7, 1100000; @%p1 bra W;",
    "a long computation": "W: mad.lo.u32 %r6, %r6, 5, 1; add.u32 %r9, %r9, 1;"
    "setp.lt.u32 %p3, %r9, 1000000; @%p3 bra W;",
}  # fmt: skip


def test_a_wait_does_not_take_the_turn_of_lanes_that_can_run():
    """Half of a warp waits, again and again, for the other half, whose atomics change nothing."""
    body = (
        " mov.u32 %r9, 0; setp.ge.u32 %p4, %t, 16;\n@%p4 bra W;\n"
        "V: atom.global.max.u32 %r5, [%d0+8], 0;" + COUNT.format(2000, "V") + "\n"
        "@%first mbarrier.arrive.shared.b64 _, [%r1], 2; @%first st.global.u32 [%d0], 7; bra D;\n"
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;\n@!%p2 bra W;\nD:"
    )
    for schedule in ("late", "eager", 3):
        data, _ = launch(body, schedule=schedule)
        assert data[0] == 7


@pytest.mark.parametrize("name", PROGRESS)
def test_ends(name):
    data, _ = launch(
        " mov.u32 %r9, 0; mov.u32 %r6, 0;" + PROGRESS[name] + " st.global.u32 [%d0], 7;"
    )
    assert data[0] == 7


WORK = "mov.u32 %r9, 0; V: mad.lo.u32 %r6, %r6, 5, 1; " + COUNT.format(600000, "V")
SIGNALS = {
    "shared flag": ("st.release.cta.shared.u32 [%r1+64], 1;",
                    "ld.acquire.cta.shared.u32 %r5, [%r1+64];" + AGAIN),
    "unlock": ("st.release.cta.shared.u32 [%r1+32], 0;",
               "atom.acquire.cta.shared.cas.b32 %r5, [%r1+32], 0, 1;" + TAKEN
               + " st.release.cta.shared.u32 [%r1+32], 0;"),
    "mbarrier": ("mbarrier.arrive.shared.b64 _, [%r1], 2;",
                 "mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;" + UNLESS),
    "try_wait": ("mbarrier.arrive.shared.b64 _, [%r1], 2;",
                 "mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;" + UNLESS),
    "back-off": ("st.release.gpu.global.u32 [%d0+4], 1;",
                 "nanosleep.u32 50; atom.acquire.gpu.global.add.u32 %r5, [%d0+4], 0;" + AGAIN),
}  # fmt: skip


@pytest.mark.parametrize("schedule", ["late", 3])
@pytest.mark.parametrize("name", SIGNALS)
def test_one_works_while_the_others_poll(name, schedule):
    signal, poll = SIGNALS[name]
    body = (
        f"setp.eq.u32 %p4, %t, 64; @!%p4 bra W; mov.u32 %r6, 0; {WORK} {signal}\n bra E;\nW: {poll}"
    )
    data, _ = launch(body + "\nE: atom.global.add.u32 %r7, [%d0], 1;", block=96, schedule=schedule)
    assert data[0] == 96


def test_one_computes_between_polls_while_the_others_poll():
    body = f"""setp.eq.u32 %p4, %t, 32; @!%p4 bra W; mov.u32 %r6, 0; mov.u32 %r9, 0;
V: ld.volatile.global.u32 %r8, [%d0+8]; mad.lo.u32 %r6, %r6, 5, 1; {COUNT.format(150000, "V")}
 st.release.gpu.global.u32 [%d0+4], 1; bra E;
W: ld.acquire.gpu.global.u32 %r5, [%d0+4]; {AGAIN}
E: atom.global.add.u32 %r7, [%d0], 1;"""
    assert launch(body, block=64)[0][0] == 64


def test_ctas_pass_a_token():
    body = """W: ld.acquire.gpu.global.u32 %r5, [%d0]; setp.ne.u32 %p1, %r5, %b; @%p1 bra W;
 add.u32 %r6, %b, 1; st.release.gpu.global.u32 [%d0], %r6;"""
    assert launch(body, grid=200, block=1)[0][0] == 200
    reverse = body.replace("%r5, %b;", "%r5, %r7;").replace(
        "add.u32 %r6, %b, 1", "add.u32 %r6, %r7, 1"
    )
    start = "mov.u32 %r8, 199; sub.u32 %r7, %r8, %b;\n"  # the first waits for the last
    assert launch(start + reverse, grid=200, block=1)[0][0] == 200


# --- the limit of instructions


@pytest.mark.parametrize("block", [32, 96])
def test_instruction_limit_names_the_place(block):
    body = """// spins
 setp.lt.u32 %p1, %t, 32; @!%p1 bra E;
W: atom.global.add.u32 %r5, [%d0], 1;
 bra W;
E:"""
    with pytest.raises(EmulatorError) as caught:
        launch(body, block=block, instruction_limit=50000)
    error = caught.value
    assert error.kind == "instruction-limit"
    assert error.ptx_line in (12, 13)
    assert error.warp == 0
