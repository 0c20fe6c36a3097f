"""Several CTAs of a cluster: barrier.cluster, mapa, shared memory of another CTA."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError
from tilelang.errors import UserError

_KERNEL = """
.visible .entry k(.param .u64 IN, .param .u64 OUT) .reqnctapercluster {size} {{
 .shared .align 16 .b8 pad[{pad}]; .shared .align 16 .b8 buf[256];
 .reg .b32 %r<20>; .reg .b64 %d<9>;
 ld.param.u64 %d0, [IN]; ld.param.u64 %d1, [OUT];
 mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 64, %r0;
 mad.wide.u32 %d0, %r2, 4, %d0; mad.wide.u32 %d1, %r2, 4, %d1;
 ld.global.b32 %r3, [%d0]; mov.u32 %r4, buf; mad.lo.u32 %r4, %r0, 4, %r4;
 {write}
 {barrier}
 mov.u32 %r5, %cluster_ctarank; add.u32 %r5, %r5, {step}; rem.u32 %r5, %r5, {size};
 {read}
 st.global.b32 [%d1], %r7;
 {leave}
 ret;
}}"""
_BARRIER = "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"
_WRITE_OWN = "st.shared.b32 [%r4], %r3;"
_READ_OWN = "ld.shared.b32 %r7, [%r4];"
_READ = {
    "shared::cluster": "mapa.shared::cluster.u32 %r6, %r4, %r5; ld.shared::cluster.b32 %r7, [%r6];",
    "generic": "cvt.u64.u32 %d3, %r4; cvta.shared.u64 %d3, %d3; mapa.u64 %d4, %d3, %r5;"
    "ld.b32 %r7, [%d4];",
}
_WRITE_NEXT = (
    "mov.u32 %r8, %cluster_ctarank; add.u32 %r8, %r8, {step}; rem.u32 %r8, %r8, {size};"
    "mapa.shared::cluster.u32 %r9, %r4, %r8; st.shared::cluster.b32 [%r9], %r3;"
)


def launch(size, step, write, read, barrier=_BARRIER, schedule="late", clusters=3, leave=_BARRIER):
    """Returns the input and the output, (clusters, size, 64) of uint32."""
    text = HEADER + _KERNEL.format(
        size=size,
        step=step,
        pad=48,
        write=write,
        read=read,
        barrier=barrier,
        leave=leave,
    )
    data = np.random.default_rng(size).integers(0, 1 << 32, (clusters, size, 64), dtype=np.uint32)
    out = np.full_like(data, 0xDEADBEEF)
    kernel = Device("sm_100a").load_ptx(text)["k"]
    kernel.launch(clusters * size, 64, [data, out], cluster=size, schedule=schedule)
    return data, out


@pytest.mark.parametrize("schedule", ["late", "eager", 5])
@pytest.mark.parametrize(("size", "step"), [(2, 1), (4, 3), (8, 5)])
@pytest.mark.parametrize("space", _READ)
def test_reads_the_shared_memory_of_another_cta(size, step, space, schedule):
    data, out = launch(size, step, _WRITE_OWN, _READ[space], schedule=schedule)
    np.testing.assert_array_equal(out, np.roll(data, -step, axis=1))


@pytest.mark.parametrize(("size", "step"), [(2, 1), (4, 3), (8, 5)])
def test_writes_the_shared_memory_of_another_cta(size, step):
    write = _BARRIER + _WRITE_NEXT.format(size=size, step=step)
    data, out = launch(size, step, write, _READ_OWN)
    np.testing.assert_array_equal(out, np.roll(data, step, axis=1))


def test_a_rank_outside_of_the_cluster_is_an_error():
    read = _READ["shared::cluster"].replace("%r5;", "4;", 1)
    with pytest.raises(EmulatorError):
        launch(4, 1, _WRITE_OWN, read)


@pytest.mark.parametrize("schedule", ["late", "eager", 5])
def test_a_cta_that_may_exit_while_others_read_it(schedule):
    with pytest.raises(EmulatorError, match="of the cluster may exit before this access") as caught:
        launch(2, 1, _WRITE_OWN, _READ["shared::cluster"], schedule=schedule, leave="")
    assert caught.value.kind == "missing-wait"


@pytest.mark.parametrize("schedule", ["late", "eager", 5])
def test_a_relaxed_barrier_keeps_ctas_from_exiting(schedule):
    leave = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;"
    data, out = launch(4, 1, _WRITE_OWN, _READ["shared::cluster"], schedule=schedule, leave=leave)
    np.testing.assert_array_equal(out, np.roll(data, -1, axis=1))


_RELAXED = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;"
_READ_REMOTE = _READ["shared::cluster"]
#: What comes before a relaxed barrier, what comes after it, and what is found.
_ACROSS_RELAXED = [
    # A write that a proxy fence has completed is over.
    (_WRITE_OWN + _READ_OWN, _WRITE_NEXT, "race"),  # the write before is not
    (_WRITE_OWN + "fence.proxy.async;", _READ_REMOTE, "relaxed-order"),
    (_WRITE_OWN, _READ_REMOTE, "race"),
    (_WRITE_NEXT, _READ_OWN, "race"),
    (_WRITE_NEXT + "fence.proxy.async;", _READ_OWN, "race"),
    (_WRITE_OWN + "fence.acq_rel.cta;", _READ_REMOTE, "race"),
]


@pytest.mark.parametrize("schedule", ["late", 5])
@pytest.mark.parametrize(("before", "after", "kind"), _ACROSS_RELAXED)
def test_what_a_relaxed_barrier_does_not_order(before, after, kind, schedule):
    with pytest.raises(EmulatorError) as caught:
        before, after = (each.format(size=2, step=1) for each in (before, after))
        launch(2, 1, before, "mov.u32 %r7, 0;" + after, barrier=_RELAXED, schedule=schedule)
    assert caught.value.kind == kind


_ALLOCATION = """
.visible .entry k() {{
 .shared .align 8 .b32 where; .reg .b32 %r<9>; .reg .pred %p0;
 mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 32;
 @%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [where], 32;
 {barrier}
 shr.u32 %r1, %r0, 5; shl.b32 %r1, %r1, 21; {after}
 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {{%r0}}; tcgen05.wait::st.sync.aligned;
 tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
 @%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;
 ret;
}}"""


@pytest.mark.parametrize("fences", [False, True])
@pytest.mark.parametrize(
    ("barrier", "kind"),
    [(_BARRIER, "missing-tcgen05-fence"), (_RELAXED, "relaxed-order"), ("", "missing-wait")],
)
def test_an_allocation_is_over_once_it_was_executed(barrier, kind, fences):
    before, after = (
        f"tcgen05.fence::{each}_thread_sync;" if fences else "" for each in ("before", "after")
    )
    text = HEADER + _ALLOCATION.format(barrier=before + barrier, after=after)
    kernel = Device("sm_100a").load_ptx(text)["k"]
    if fences and barrier:
        assert not kernel.launch(1, 128, []).findings
        return
    with pytest.raises(EmulatorError) as caught:
        kernel.launch(1, 128, [])
    assert caught.value.kind == kind


@pytest.mark.parametrize("fences", [("fence.acq_rel.cluster;",) * 2, ("fence.sc.cluster;",) * 2])
def test_fences_around_a_relaxed_barrier_order(fences):
    barrier = fences[0] + _RELAXED + fences[1]
    data, out = launch(2, 1, _WRITE_OWN, _READ_REMOTE, barrier=barrier)
    np.testing.assert_array_equal(out, np.roll(data, -1, axis=1))


def test_a_missing_cluster_barrier_is_a_race():
    with pytest.raises(EmulatorError) as caught:
        launch(4, 1, _WRITE_OWN, _READ["shared::cluster"], barrier="")
    assert caught.value.kind == "race"


@pytest.mark.parametrize("space", _READ)
@pytest.mark.parametrize("rank", [2, 31, 255, 256, 2**32 - 1])
def test_address_in_no_cta_is_an_error_where_it_is_used(space, rank):
    def first(lanes):
        """The first lanes read their own CTA, the others map a rank that is not there."""
        own = f"setp.lt.u32 %p1, %r0, {lanes}; @!%p1 mov.u32 %r5, {rank}; mov.u32 %r7, 77;"
        mapa, load = _READ[space].split("ld.")
        return ".reg .pred %p<3>; setp.lt.u32 %p2, %r0, 40;" + own + mapa + " @%p2 ld." + load

    data, out = launch(2, 1, _WRITE_OWN, first(40))
    assert (out[:, ::-1, :40] == data[:, :, :40]).all() and (out[:, :, 40:] == 77).all()
    with pytest.raises(EmulatorError) as caught:
        launch(2, 1, _WRITE_OWN, first(39))
    assert caught.value.kind == "out-of-bounds"
    assert caught.value.lane == 39 - 32


SIZES = (
    HEADER
    + """.visible .entry k(.param .u64 out) { .reg .b64 %d<3>; .reg .b32 %r<9>; .reg .pred %p0;
 .shared .align 4 .b32 mine;
 ld.param.u64 %d0, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ctaid.y;
 mad.lo.u32 %r0, %r2, %r1, %r0; mad.wide.u32 %d0, %r0, 8, %d0; st.shared.u32 [mine], %r0;
 barrier.cluster.arrive; barrier.cluster.wait;
 mov.u32 %r3, mine; mapa.shared::cluster.u32 %r3, %r3, 0; ld.shared::cluster.u32 %r4, [%r3];
 mov.u32 %r5, %cluster_nctarank; st.global.v2.u32 [%d0], {%r4, %r5};
 barrier.cluster.arrive; barrier.cluster.wait; MORE ret; }"""
)


def sizes(schedule, more=""):
    """Of the cluster of each block of a grid of 10 x 3, which is checked; clusters of 2 or 4."""
    out = np.full((3, 10, 2), 99, np.uint32)
    kernel = Device("sm_90a").load_ptx(SIZES.replace("sm_100a", "sm_90a").replace("MORE", more))
    kernel["k"].launch((10, 3), 1, [out], cluster=2, preferred_cluster=4, schedule=schedule)
    first, size = out[..., 0], out[..., 1]
    blocks = np.arange(30).reshape(3, 10)
    np.testing.assert_array_equal(first, blocks - blocks % 10 % size)
    return size


def test_preferred_clusters():
    """The larger ones lie inside of the grid; which there are is up to the schedule."""
    late, eager = sizes("late"), sizes("eager")
    assert (late[:, :8] == 4).all() and (late[:, 8:] == 2).all() and (eager == 2).all()
    seeds = [sizes(seed)[:, :8] for seed in range(6)]
    assert any(0 < (size == 4).sum() < size.size for size in seeds)
    assert len({size.tobytes() for size in seeds}) > 1
    # Blocks that may wait for each other run together, in clusters of one size.
    assert (sizes("late", "atom.add.u32 %r6, [%d0+4], 0; mov.u32 %r7, %r6;") == 2).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"preferred_cluster": 3}, "no multiple of the cluster"),
        ({"preferred_cluster": 32}, "the limit is 16"),
        ({"preferred_cluster": 4, "timing": True}, "neither timing"),
    ],
)
def test_wrong_preferred_clusters(options, words):
    kernel = Device("sm_100a").load_ptx(SIZES.replace("MORE", ""))["k"]
    with pytest.raises(UserError, match=words):
        kernel.launch((10, 3), 1, [np.zeros((3, 10, 2), np.uint32)], cluster=2, **options)


# Warp 0 writes 7 and comes late; the last warps arrive before it and exit without a wait.
_LATE = """
.visible .entry k(.param .u64 OUT) .reqntid 128 .reqnctapercluster 2 {{
 .shared .align 4 .b32 flag; .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<4>;
 mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; mov.u32 %r3, 0;
 setp.ne.u32 %p1, %r1, 0; @%p1 bra ARRIVE;
SLOW: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, {steps}; @%p2 bra SLOW; st.shared.u32 [flag], 7;
ARRIVE:
 {arrive}
 setp.ge.u32 %p3, %r1, {stay}; @%p3 bra END;
 {wait}
 ld.param.u64 %d0, [OUT]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1;
 ld.shared.u32 %r5, [flag]; st.global.u32 [%d0], %r5;
END: ret;
}}"""
_CLUSTER = ("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
_MBARRIER = (
    "mbarrier.arrive.shared.b64 _, [bar];",
    "W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra W;",
)


@pytest.mark.parametrize("schedule", ["late", "eager", 1, 2, 3])
@pytest.mark.parametrize("steps", [1, 20000])
@pytest.mark.parametrize("stay", [1, 2, 3])
def test_arrivals_of_exited_threads_count_in_their_phase(steps, stay, schedule):
    text = HEADER + _LATE.format(steps=steps, stay=stay, arrive=_CLUSTER[0], wait=_CLUSTER[1])
    out = np.full(128, 99, np.uint32)
    Device("sm_100a").load_ptx(text)["k"].launch(2, 128, [out], cluster=2, schedule=schedule)
    assert (out[: 32 * stay] == 7).all() and (out[32 * stay :] == 99).all()


def test_exited_threads_do_not_count_in_the_next_phase():
    """Warps 2 and 3 arrive once and exit; warps 0 and 1 pass three more phases by themselves."""
    again = " ".join(
        f"SLOW{i}: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, {1000 * i}; @%p2 bra SLOW{i};"
        f"@!%p1 st.shared.u32 [flag], {i}; {' '.join(_CLUSTER)}"
        f"ld.shared.u32 %r5, [flag]; setp.ne.u32 %p3, %r5, {i}; @%p3 trap; {' '.join(_CLUSTER)}"
        for i in (8, 9)
    )
    text = HEADER + _LATE.format(
        steps=1, stay=2, arrive=_CLUSTER[0], wait=_CLUSTER[1] + again
    )  # fmt: skip
    out = np.full(128, 99, np.uint32)
    Device("sm_100a").load_ptx(text)["k"].launch(2, 128, [out], cluster=2)
    assert (out[:64] == 9).all()


# Lanes 0 to 15 of warp 1 arrive at the barrier and exit, the others of the warp wait there.
_HALVES = """
.visible .entry k(.param .u64 OUT) {{
 .shared .align 4 .b32 flag; .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<4>;
 mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 32; mov.u32 %r3, 0; @%p1 bra SLOW;
 setp.lt.u32 %p2, %r0, 48; @!%p2 bra WAIT; barrier.cta.arrive 1, 64; ret;
SLOW: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, {steps}; @%p2 bra SLOW; st.shared.u32 [flag], 7;
WAIT: barrier.cta.sync 1, 64;
 ld.param.u64 %d0, [OUT]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1;
 ld.shared.u32 %r5, [flag]; st.global.u32 [%d0], %r5; ret;
}}"""


@pytest.mark.parametrize("schedule", ["late", "eager", 1, 2])
@pytest.mark.parametrize("steps", [1, 20000])
def test_lanes_that_arrive_at_a_named_barrier_and_exit_count_once(steps, schedule):
    out = np.full(64, 99, np.uint32)
    kernel = Device("sm_100a").load_ptx(HEADER + _HALVES.format(steps=steps))["k"]
    kernel.launch(1, 64, [out], schedule=schedule)
    assert (out[:32] == 7).all() and (out[32:48] == 99).all() and (out[48:] == 7).all()


def test_arrivals_of_exited_threads_at_an_mbarrier_count():
    """An mbarrier counts arrivals, whoever made them."""
    start = "setp.eq.u32 %p4, %r0, 0; @%p4 mbarrier.init.shared.b64 [bar], 128; bar.sync 0;"
    text = HEADER + _LATE.format(steps=5000, stay=2, arrive=_MBARRIER[0], wait=_MBARRIER[1])
    text = text.replace(
        " .shared .align 4 .b32 flag;", " .shared .align 8 .b64 bar; .shared .align 4 .b32 flag;"
    )
    text = text.replace("%p<4>", "%p<5>").replace("mov.u32 %r3, 0;", f"mov.u32 %r3, 0; {start}")
    text = text.replace(".reqnctapercluster 2", "")
    out = np.full(128, 99, np.uint32)
    Device("sm_100a").load_ptx(text)["k"].launch(1, 128, [out])
    assert (out[:64] == 7).all()
