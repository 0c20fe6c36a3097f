"""Of CTAs that execute the same one is timed in detail, of others the first and the last."""

import numpy as np
import pytest

from tilelang.emulator import Device, TimingOptions

#: Bodies of a kernel: %r0 is the CTA, %r1 the thread, %rd1 an array, %r9 the result.
UNIFORM = {
    "a loop of constant length": """
        mov.u32 %r2, 8;
 LOOP:  mad.lo.u32 %r9, %r9, %r0, %r1; sub.u32 %r2, %r2, 1;
        setp.ne.u32 %p0, %r2, 0; @%p0 bra LOOP;""",
    "a loop whose length is a parameter": """
        ld.param.u32 %r2, [N];
 LOOP:  add.u32 %r9, %r9, %r0; sub.u32 %r2, %r2, 1; setp.ne.u32 %p0, %r2, 0; @%p0 bra LOOP;""",
    "warps apart": """
        shr.u32 %r2, %r1, 5; shfl.sync.idx.b32 %r2, %r2, 0, 31, -1; setp.eq.u32 %p0, %r2, 0;
        @%p0 bra LOOP; add.u32 %r9, %r9, %r0;
 LOOP:  add.u32 %r9, %r9, 1;""",
    "the shape of the grid": """
        mov.u32 %r2, %nctaid.x; setp.gt.u32 %p0, %r2, 1; @%p0 add.u32 %r9, %r9, %r0;""",
    "a wait for a barrier": """
        mov.u32 %r3, bar; setp.ne.u32 %p0, %r1, 0; @!%p0 mbarrier.init.shared.b64 [%r3], 64;
        bar.sync 0; mbarrier.arrive.shared.b64 %rd3, [%r3];
 LOOP:  mbarrier.try_wait.parity.shared.b64 %p0, [%r3], 0; @!%p0 bra LOOP;""",
    "values that decide nothing": """
        ld.global.u32 %r9, [%rd1]; setp.gt.u32 %p0, %r9, %r0; selp.u32 %r9, %r9, %r0, %p0;""",
}
VARYING = {
    "a guard by the CTA": "setp.eq.u32 %p0, %r0, 0; @%p0 add.u32 %r9, %r9, 1;",
    "a guard by what is loaded": """
        ld.global.u32 %r2, [%rd1]; setp.eq.u32 %p0, %r2, 0; @%p0 add.u32 %r9, %r9, 1;""",
    "a loop whose length the CTA decides": """
        add.u32 %r2, %r0, 1;
 LOOP:  add.u32 %r9, %r9, 1; sub.u32 %r2, %r2, 1; setp.ne.u32 %p0, %r2, 0; @%p0 bra LOOP;""",
    "by way of shared memory": """
        mov.u32 %r3, bar; st.shared.u32 [%r3], %r0; bar.sync 0; ld.shared.u32 %r2, [%r3];
        setp.eq.u32 %p0, %r2, 0; @%p0 add.u32 %r9, %r9, 1;""",
    "by way of a vote": """
        setp.eq.u32 %p1, %r0, 0; vote.sync.any.pred %p0, %p1, -1; @%p0 add.u32 %r9, %r9, 1;""",
    "by way of a guarded move": """
        mov.u32 %r2, 0; setp.eq.u32 %p1, %r0, 0; @%p1 mov.u32 %r2, 1;
        setp.eq.u32 %p0, %r2, 0; @%p0 add.u32 %r9, %r9, 1;""",
    "a table of jumps": """
        min.u32 %r2, %r0, 1;
 LIST:  .branchtargets FIRST, LAST;
        brx.idx %r2, LIST;
 FIRST: add.u32 %r9, %r9, 1;
 LAST:  add.u32 %r9, %r9, 1;""",
    "the cluster": """
        mov.u32 %r2, %clusterid.x; setp.eq.u32 %p0, %r2, 0; @%p0 add.u32 %r9, %r9, 1;""",
}  # fmt: skip
KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 X, .param .u32 N) {{
 .reg .b32 %r<10>; .reg .b64 %rd<4>; .reg .pred %p<2>; .shared .align 8 .b8 bar[8];
 ld.param.u64 %rd0, [X]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mov.u32 %r9, 0;
 mad.lo.u32 %r8, %r0, 64, %r1; mul.wide.u32 %rd1, %r8, 4; add.u64 %rd1, %rd0, %rd1;
 {body}
 st.global.u32 [%rd1], %r9; ret; }}"""


def launch(body, timing, ctas=3):
    data = np.arange(ctas * 64, dtype=np.uint32)
    kernel = Device("sm_90a").load_ptx(KERNEL.format(body=body))["k"]
    return kernel.launch(ctas, 64, [data, 5], timing=timing).timing, data


@pytest.mark.parametrize("body", UNIFORM)
def test_one_of_alike_ctas_is_timed(body):
    timing, data = launch(UNIFORM[body], True)
    assert timing.timed_ctas == 1
    np.testing.assert_array_equal(data, launch(UNIFORM[body], False)[1])


@pytest.mark.parametrize("body", VARYING)
def test_of_ctas_that_may_differ_the_first_and_the_last_are_timed(body):
    timing, data = launch(VARYING[body], True)
    assert timing.timed_ctas == 2 and set(timing.track_cta.tolist()) == {0, 2}
    np.testing.assert_array_equal(data, launch(VARYING[body], False)[1])


def test_what_only_timed_ctas_compute_is_there_at_both_ends():
    timing, data = launch(UNIFORM["warps apart"], TimingOptions(sampled=True))
    assert timing.timed_ctas == 2
    full = launch(UNIFORM["warps apart"], False)[1]
    np.testing.assert_array_equal(data[[0, -1]], full[[0, -1]])
    assert data[64] == 64  # of the second CTA: as it was


def test_the_longest_of_ctas_that_differ_is_seen():
    # The last one adds a thousand times as often.
    body = """mul.lo.u32 %r2, %r0, 1000; add.u32 %r2, %r2, 1;
 LOOP:  add.u32 %r9, %r9, 1; sub.u32 %r2, %r2, 1; setp.ne.u32 %p0, %r2, 0; @%p0 bra LOOP;"""
    timing, data = launch(body, TimingOptions(), ctas=2)
    assert timing.timed_ctas == 2 and (data[64:] == 1001).all()
    assert timing.grid_cycles > 2 * 1000


def test_ctas_that_are_timed_beside_each_other_lie_on_sms_of_their_own():
    # Each has engines of its own, too: a picture of one CTA shows those of its SM.
    timing, _ = launch(VARYING["a guard by the CTA"], True)
    sms = {
        cta: {
            int(sm) for sm, of in zip(timing.track_sm, timing.track_cta, strict=True) if of == cta
        }
        for cta in (0, 2)
    }
    assert sms == {0: {0}, 2: {1}}
