"""clusterlaunchcontrol: running clusters take over those that have not started."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

# Each CTA does its own tile and those of the clusters that its cluster takes over. COUNTS holds for
# every CTA of the grid how often its tile was done; DONE how many tiles each CTA did.
_KERNEL = """
.visible .entry k(.param .u64 COUNTS, .param .u64 DONE) .reqnctapercluster {size} {{
 .shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;
 .reg .b32 %r<30>; .reg .b64 %d<9>; .reg .pred %p<9>; .reg .b128 %q<2>;
 ld.param.u64 %d0, [COUNTS]; ld.param.u64 %d1, [DONE];
 mov.u32 %r0, %tid.x; mov.u32 %r1, answer; mov.u32 %r2, bar; setp.ne.u32 %p0, %r0, 0;
 mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z;
 mov.u32 %r6, %nctaid.x; mov.u32 %r7, %nctaid.y; mov.u32 %r8, 0;
 mad.lo.u32 %r20, %r5, %r7, %r4; mad.lo.u32 %r20, %r20, %r6, %r3;
 mad.wide.u32 %d1, %r20, 4, %d1;
 @%p0 bra READY;
 mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
READY: barrier.cluster.arrive; barrier.cluster.wait;
 mov.u32 %r9, %cluster_ctarank;
TILE:
 @%p0 bra ASK;
 mad.lo.u32 %r10, %r5, %r7, %r4; mad.lo.u32 %r10, %r10, %r6, %r3;
 mad.wide.u32 %d2, %r10, 4, %d0; red.global.add.u32 [%d2], 1;
 red.global.add.u32 [%d1], 1;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;
ASK: barrier.cluster.arrive; barrier.cluster.wait;
 setp.eq.u32 %p1, %r9, 0; @%p0 bra WAIT; {ask}
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r8; @!%p2 bra WAIT;
 xor.b32 %r8, %r8, 1;
 ld.shared.b128 %q0, [%r1];
 clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
 @!%p3 bra END;
 {query}
 add.u32 %r3, %r3, %r9;
 fence.proxy.async.shared::cta;
 bra TILE;
END: ret;
}}"""
_TRY = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
ONE = f"{_TRY}.b128 [%r1], [%r2];"
ALL = f"@%p1 {_TRY}.multicast::cluster::all.b128 [%r1], [%r2];"
VECTOR = "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r3, %r4, %r5, _}, %q0;"
SINGLE = "".join(
    f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{axis}.b32.b128 %r{3 + i}, %q0; "
    for i, axis in enumerate("xyz")
)


def launch(grid, size=1, ask=None, query=VECTOR, **options):
    ask = ask or (ONE if size == 1 else ALL)
    text = HEADER + _KERNEL.format(size=size, ask=ask, query=query)
    ctas = int(np.prod(grid))
    counts, done = np.zeros((2, ctas), np.uint32)
    Device("sm_100a").load_ptx(text)["k"].launch(grid, 64, [counts, done], cluster=size, **options)
    return counts, done


@pytest.mark.parametrize("schedule", ["late", "eager", 1, 7])
@pytest.mark.parametrize("query", [VECTOR, SINGLE], ids=["vector", "single"])
@pytest.mark.parametrize(
    ("grid", "size"), [((40,), 1), ((7, 5, 3), 1), ((12, 3), 2), ((8, 2, 3), 4)]
)
def test_every_tile_is_done_once(grid, size, query, schedule):
    counts, done = launch(grid, size, query=query, schedule=schedule)
    np.testing.assert_array_equal(counts, 1)
    assert done.sum() == counts.size
    assert done.max() > 1, "nothing was taken over"


def test_with_several_host_threads():
    counts, done = launch((60,), threads=3)
    np.testing.assert_array_equal(counts, 1)
    assert done.sum() == 60


def test_the_last_cluster_gets_no_work():
    counts, done = launch((1,))
    assert counts.tolist() == done.tolist() == [1]


def test_coordinates_of_a_failed_request_are_undefined():
    query = VECTOR.replace("%r3, %r4, %r5", "%r11, %r12, %r13")
    text = _KERNEL.replace(
        "@!%p3 bra END;", f"{query.replace('{', '{{').replace('}', '}}')} bra END;"
    )
    counts, done = np.zeros((2, 1), np.uint32)
    with pytest.warns(UserWarning, match="cancelled nothing"):
        Device("sm_100a").load_ptx(HEADER + text.format(size=1, ask=ONE, query=""))["k"].launch(
            1, 64, [counts, done]
        )


@pytest.mark.parametrize(
    ("ask", "kind", "complaint"),
    [
        (f"{_TRY}.b128 [%r1+8], [%r2];", "misaligned", "16"),
        (f"{_TRY}.b128 [%r1], [%r1];", "mbarrier", "no mbarrier"),
        ("mapa.shared::cluster.u32 %r15, %r1, 1; " + f"{_TRY}.b128 [%r15], [%r2];",
         "illegal-operand", "own shared memory"),
    ],
)  # fmt: skip
def test_wrong_requests(ask, kind, complaint):
    with pytest.raises(EmulatorError, match=complaint) as caught:
        launch((4,), 2, ask="@%p1 bra GO; bra WAIT; GO: " + ask)
    assert caught.value.kind == kind
    assert caught.value.ptx_line > 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (ONE.replace(".async", ""), "async"),
        (ONE.replace(".b128", ""), "b128"),
        (ONE.replace(".mbarrier::complete_tx::bytes", ""), "mbarrier::complete_tx::bytes"),
        ("clusterlaunchcontrol.query_cancel.get_first_ctaid.b32.b128 %r3, %q0;", "v4"),
        ("clusterlaunchcontrol.query_cancel.get_first_ctaid.x.b32.b128 %r3, %q0;", "x|v4"),
        ("clusterlaunchcontrol.query_cancel.is_canceled.b128 %p3, %q0;", "pred"),
        ("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %d0;", "128"),
    ],
)
def test_forms_that_do_not_exist(text, complaint):
    with pytest.raises(EmulatorError, match=complaint) as caught:
        launch((4,), ask=text)
    assert caught.value.ptx_line > 0


def test_random_schedules_refuse_now_and_then():
    """As a GPU may: what is refused starts as usual, and every tile is done once."""
    usual = np.count_nonzero(launch(24, schedule="late")[1])
    workers = []
    for seed in range(6):
        counts, done = launch(24, schedule=seed)
        assert (counts == 1).all() and done.sum() == 24
        workers.append(np.count_nonzero(done))
    assert max(workers) > usual
