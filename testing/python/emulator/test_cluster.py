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
