"""Several CTAs of a cluster: barrier.cluster, mapa, shared memory of another CTA."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

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
