"""Message passing between threads, against the rules of the PTX ISA's memory consistency model.

A release pattern of one thread and an acquire pattern of another one on one location order what is
before the first before what is after the second, if the scopes of both contain the other thread.
Barriers carry that on to other threads of a CTA. A relaxed flag orders nothing.
"""

import itertools

import numpy as np
import pytest

from tilelang.emulator import Device, EmulatorError

SCOPES = ("cta", "cluster", "gpu", "sys")
#: What the scopes of a pair must contain, by the CTA that reads: the CTA, the cluster, the grid.
NEEDED = {0: 0, 1: 1, 2: 2}
SCHEDULES = ("late", "eager", 1, 2)

# CTA 0 writes, CTA %reader reads. Clusters of two CTAs, CTAs of two warps.
TEXT = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 d, .param .u64 f, .param .u64 o) .reqnctapercluster 2 {{
 .reg .b64 %d<9>; .reg .b32 %r<12>; .reg .pred %p<9>; .reg .b32 %t, %b;
 ld.param.u64 %d1, [d]; ld.param.u64 %d2, [f]; ld.param.u64 %d3, [o]; add.u64 %d4, %d2, 64;
 mov.u32 %b, %ctaid.x; mov.u32 %t, %tid.x;
 setp.ne.u32 %p1, %b, 0; @%p1 bra READ;
 {write}
READ: setp.ne.u32 %p1, %b, {reader}; @%p1 bra END;
 {read}
END: ret;
}}"""


def only(thread, text, label):
    """``text`` by one thread of the CTA."""
    return f"setp.ne.u32 %p2, %t, {thread}; @%p2 bra {label}; {text} {label}:"


def poll(load, wanted=1, label="L"):
    return f"{label}: {load} setp.lt.u32 %p3, %r2, {wanted}; @%p3 bra {label};"


def scope_of(name):
    return min(SCOPES.index(name), 2)


def releases():
    """(name, text, the scope that it releases to or -1)."""
    for scope in SCOPES:
        reach = scope_of(scope)
        yield f"st.release.{scope}", f"st.release.{scope}.global.u32 [%d2], 1;", reach
        yield f"red.release.{scope}", f"red.release.{scope}.global.add.u32 [%d2], 1;", reach
        yield f"st.relaxed.{scope}", f"st.relaxed.{scope}.global.u32 [%d2], 1;", -1
        yield f"atom.relaxed.{scope}", f"atom.relaxed.{scope}.global.add.u32 %r4, [%d2], 1;", -1
    for fence, store in itertools.product(SCOPES, SCOPES):
        text = f"fence.acq_rel.{fence}; st.relaxed.{store}.global.u32 [%d2], 1;"
        yield f"fence.{fence}; st.relaxed.{store}", text, min(scope_of(fence), scope_of(store))
    yield "membar.gl; st.volatile", "membar.gl; st.volatile.global.u32 [%d2], 1;", 2
    yield "membar.cta; red", "membar.cta; red.global.add.u32 [%d2], 1;", 0
    yield "st.volatile", "st.volatile.global.u32 [%d2], 1;", -1


def acquires():
    for scope in SCOPES:
        reach = scope_of(scope)
        yield f"ld.acquire.{scope}", poll(f"ld.acquire.{scope}.global.u32 %r2, [%d2];"), reach
        text = poll(f"atom.acq_rel.{scope}.global.add.u32 %r2, [%d2], 0;")
        yield f"atom.acq_rel.{scope}", text, reach
        yield f"ld.relaxed.{scope}", poll(f"ld.relaxed.{scope}.global.u32 %r2, [%d2];"), -1
    for load, fence in itertools.product(SCOPES, SCOPES):
        text = poll(f"ld.relaxed.{load}.global.u32 %r2, [%d2];") + f"fence.acq_rel.{fence};"
        yield f"ld.relaxed.{load}; fence.{fence}", text, min(scope_of(fence), scope_of(load))
    text = poll("atom.relaxed.gpu.global.add.u32 %r2, [%d2], 0;")
    yield "atom.relaxed", text, -1
    yield "ld.volatile; membar.gl", poll("ld.volatile.global.u32 %r2, [%d2];") + "membar.gl;", 2
    yield "ld.volatile", poll("ld.volatile.global.u32 %r2, [%d2];"), -1


RELEASES, ACQUIRES = tuple(releases()), tuple(acquires())


def launch(write, read, reader, schedule):
    """Returns "race", or what was read; anything else is raised."""
    text = TEXT.format(write=write, read=read, reader=reader)
    data, flags, out = np.zeros(4, np.uint32), np.zeros(64, np.uint32), np.zeros(4, np.uint32)
    kernel = Device("sm_90a").load_ptx(text)["k"]
    # On one host thread the writing CTA begins first: one that polls alone would be a deadlock.
    options = {"schedule": schedule, "instruction_limit": 10**6, "threads": 1}
    try:
        kernel.launch(4, 64, [data, flags, out], **options)
    except EmulatorError as error:
        assert error.kind == "race", error
        return "race"
    return int(out[0])


LOAD = "ld.global.u32 %r3, [%d1]; st.global.u32 [%d3], %r3;"
STORE = "st.global.u32 [%d1], 42;"


def message(release, acquire, through):
    """Writing and reading side; ``through``: who else takes part by a barrier."""
    write_by, read_by = (33 if "writer" in through else 0), (5 if "reader" in through else 32)
    write = only(write_by, STORE, "W1") + ("bar.sync 1;" if "writer" in through else "")
    write += only(0, release, "W2")
    read = only(32, acquire, "R1") + ("bar.sync 2;" if "reader" in through else "")
    return write, read + only(read_by, LOAD, "R2")


# Within one CTA each of these barriers would order both sides by itself.
THROUGH = [
    (reader, through)
    for reader in NEEDED
    for through in ("none", "writer", "reader", "writer and reader")
    if reader or through == "none"
]


@pytest.mark.parametrize(("reader", "through"), THROUGH)
def test_every_pair_of_patterns(reader, through):
    """Sampled so that each release and each acquire meets right and wrong partners."""
    rng = np.random.default_rng([reader, len(through)])
    pairs = list(itertools.product(RELEASES, ACQUIRES))
    right = [(r, a) for r, a in pairs if min(r[2], a[2]) >= NEEDED[reader]]
    half = [(r, a) for r, a in pairs if (r[2] >= NEEDED[reader]) != (a[2] >= NEEDED[reader])]
    chosen = [right[i] for i in rng.choice(len(right), 25, replace=False)]
    chosen += [half[i] for i in rng.choice(len(half), 35, replace=False)]
    for (name, release, told), (other, acquire, heard) in chosen:
        expected = 42 if min(told, heard) >= NEEDED[reader] else "race"
        for schedule in SCHEDULES:
            found = launch(*message(release, acquire, through), reader, schedule)
            assert found == expected, (name, other, schedule)


RELEASE, ACQUIRE = "st.release.gpu.global.u32 [%d2], 1;", "ld.acquire.gpu.global.u32 %r2, [%d2];"
WAIT_RELAXED = poll("ld.relaxed.gpu.global.u32 %r2, [%d2];", label="X")
CHAINS = {
    # A later store of the releasing thread belongs to its pattern, one of another thread does not.
    "release, relaxed store": (
        only(0, STORE + RELEASE + "st.relaxed.gpu.global.u32 [%d2], 2;", "W1"), 2, 42),
    "relaxed store by another thread": (
        only(0, STORE + RELEASE, "W1")
        + only(32, WAIT_RELAXED + "st.relaxed.gpu.global.u32 [%d2], 2;", "W2"), 2, "race"),
    # An atomic of another thread passes on what was released.
    "atomic by another thread": (
        only(0, STORE + RELEASE, "W1")
        + only(32, WAIT_RELAXED + "red.relaxed.gpu.global.add.u32 [%d2], 1;", "W2"), 2, 42),
    # Causality order: a thread that has acquired tells of what it knows.
    "acquired and released": (
        only(0, STORE + RELEASE, "W1")
        + only(32, poll(ACQUIRE, label="X") + "st.release.gpu.global.u32 [%d2], 2;", "W2"), 2, 42),
    "acquired in the CTA, released to the grid": (
        only(0, STORE + "st.release.cta.global.u32 [%d2], 1;", "W1")
        + only(32, poll("ld.acquire.cta.global.u32 %r2, [%d2];", label="X")
               + "st.release.gpu.global.u32 [%d2], 2;", "W2"), 2, 42),
    "a fence before the acquire": (
        only(0, STORE + RELEASE, "W1")
        + only(32, "fence.acq_rel.gpu;" + poll(ACQUIRE, label="X")
               + "st.relaxed.gpu.global.u32 [%d2], 2;", "W2"), 2, "race"),
    "a fence after the acquire": (
        only(0, STORE + RELEASE, "W1")
        + only(32, poll(ACQUIRE, label="X")
               + "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%d2], 2;", "W2"), 2, 42),
    "a fence before the data": (
        only(0, "fence.acq_rel.gpu;" + STORE + "st.relaxed.gpu.global.u32 [%d2], 2;", "W1"),
        2, "race"),
    "a barrier, then a relaxed flag": (
        only(33, STORE, "W1") + "bar.sync 1;"
        + only(0, "st.relaxed.gpu.global.u32 [%d2], 2;", "W2"), 2, "race"),
    "fences of all threads, a barrier, a relaxed flag": (
        only(33, STORE, "W1") + "fence.acq_rel.gpu; bar.sync 1;"
        + only(0, "st.relaxed.gpu.global.u32 [%d2], 2;", "W2"), 2, 42),
    "a barrier, then fence and relaxed flag": (
        only(33, STORE, "W1") + "bar.sync 1;"
        + only(0, "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%d2], 2;", "W2"), 2, 42),
    "released elsewhere": (
        only(0, STORE + "st.release.gpu.global.u32 [%d4], 1; st.relaxed.gpu.global.u32 [%d2], 2;",
             "W1"), 2, "race"),
    "halves of a word": (
        only(0, STORE + "st.release.gpu.global.u16 [%d2], 2;"
             "st.relaxed.gpu.global.u16 [%d2+2], 0;", "W1"), 2, 42),
}  # fmt: skip


# Tells that the last value is there, and orders nothing: a poll of the flag itself might see, and
# acquire, an earlier value.
DONE = "st.relaxed.gpu.global.u32 [%d4+64], 1;"
WAIT_DONE = poll("ld.relaxed.gpu.global.u32 %r2, [%d4+64];", label="Y")


@pytest.mark.parametrize("reader", [1, 2])
@pytest.mark.parametrize("name", CHAINS)
def test_chains(name, reader):
    write, wanted, expected = CHAINS[name]
    last = write.index(";", write.rindex("[%d2")) + 1
    load, declare = ACQUIRE, ""
    if name == "halves of a word":
        load = "ld.acquire.gpu.global.u16 %h1, [%d2]; cvt.u32.u16 %r2, %h1;"
        declare = ".reg .b16 %h<2>;"
    check = f"setp.ne.u32 %p3, %r2, {wanted}; @%p3 trap;"
    read = only(32, declare + WAIT_DONE + load + check + LOAD, "R")
    for schedule in SCHEDULES:
        found = launch(write[:last] + DONE + write[last:], read, reader, schedule)
        assert found == expected, schedule


# Flags in shared memory, of the CTA and of the other one of the cluster.
SHARED = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 o) .reqnctapercluster 2 {{
 .reg .b64 %d<9>; .reg .b32 %r<12>, %t, %b, %f; .reg .pred %p<9>;
 .shared .align 4 .b32 flag; .shared .align 4 .b32 data;
 ld.param.u64 %d3, [o]; mov.u32 %b, %cluster_ctarank; mov.u32 %t, %tid.x;
 mapa.shared::cluster.u32 %f, flag, {reader}; mapa.shared::cluster.u32 %r8, data, {reader};
 st.shared.u32 [flag], 0; barrier.cluster.arrive; barrier.cluster.wait;
 setp.ne.u32 %p1, %b, 0; @%p1 bra READ;
 setp.ne.u32 %p2, %t, 0; @%p2 bra READ; st.shared::cluster.u32 [%r8], 42; {release}
READ: setp.ne.u32 %p1, %b, {reader}; @%p1 bra END;
 setp.ne.u32 %p2, %t, 32; @%p2 bra END; L: {acquire} setp.eq.u32 %p3, %r2, 0; @%p3 bra L; {fence}
 ld.shared.u32 %r3, [data]; st.global.u32 [%d3], %r3;
END: barrier.cluster.arrive; barrier.cluster.wait; ret;
}}"""


@pytest.mark.parametrize("reader", [0, 1])
@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("st.release.{}.shared::cluster.u32 [%f], 1;", True),
        ("red.release.{}.shared::cluster.add.u32 [%f], 1;", True),
        ("fence.acq_rel.{0}; st.relaxed.{0}.shared::cluster.u32 [%f], 1;", True),
        ("st.relaxed.{}.shared::cluster.u32 [%f], 1;", False),
        ("red.relaxed.{}.shared::cluster.add.u32 [%f], 1;", False),
    ],
)
@pytest.mark.parametrize(
    ("acquire", "fence", "heard"),
    [
        ("ld.acquire.{}.shared.u32 %r2, [flag];", "", True),
        ("ld.relaxed.{}.shared.u32 %r2, [flag];", "fence.acq_rel.{};", True),
        ("atom.acquire.{}.shared.or.b32 %r2, [flag], 0;", "", True),
        ("ld.relaxed.{}.shared.u32 %r2, [flag];", "", False),
        ("atom.relaxed.{}.shared.or.b32 %r2, [flag], 0;", "", False),
    ],
)
def test_flags_in_shared_memory(release, told, acquire, fence, heard, reader):
    for first, second in itertools.product(SCOPES[:3], SCOPES[:3]):
        reach = min(scope_of(first) if told else -1, scope_of(second) if heard else -1)
        text = SHARED.format(
            reader=reader, release=release.format(first), acquire=acquire.format(second),
            fence=fence.format(second),
        )  # fmt: skip
        kernel = Device("sm_90a").load_ptx(text)["k"]
        for schedule in ("late", 3):
            out = np.zeros(2, np.uint32)
            try:
                kernel.launch(2, 64, [out], schedule=schedule, instruction_limit=10**6)
                found = int(out[0])
            except EmulatorError as error:
                assert error.kind == "race", error
                found = "race"
            assert found == (42 if reach >= NEEDED[reader] else "race"), (first, second, schedule)
