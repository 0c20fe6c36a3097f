"""Order that passes through asynchronous work: a thread that saw its end comes after its issue."""

import numpy as np
import pytest

from tilelang.emulator import Device, EmulatorError

_SCHEDULES = pytest.mark.parametrize("schedule", ["late", "eager", 1, 2])

# Warp 2 touches the word `data` and arrives on the first mbarrier. Warp 0 waits for it and issues a
# bulk copy, which completes on the second one. Warp 1 waits for that alone, and touches `data`.
_KERNEL = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 IN, .param .u64 OUT) {{
 .shared .align 128 .b8 tile[64]; .shared .align 16 .b32 data; .shared .align 8 .b64 bar[2];
 .reg .b32 %r<30>; .reg .b64 %d<9>; .reg .pred %p<9>;
 ld.param.u64 %d0, [IN]; ld.param.u64 %d1, [OUT];
 mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; and.b32 %r2, %r0, 31;
 mov.u32 %r3, tile; mov.u32 %r4, bar; mov.u32 %r5, data;
 setp.ne.u32 %p0, %r0, 0; @%p0 bra READY;
 mbarrier.init.shared::cta.b64 [%r4], 1; mbarrier.init.shared::cta.b64 [%r4+8], 1;
 fence.mbarrier_init.release.cluster; mov.u32 %r6, 7; st.shared.u32 [%r5], %r6;
READY: bar.sync 0;
 setp.ne.u32 %p1, %r2, 0; @%p1 bra END;
 setp.eq.u32 %p2, %r1, 0; @%p2 bra ISSUE; setp.eq.u32 %p3, %r1, 1; @%p3 bra LATER;
 {first}
 mbarrier.arrive.shared::cta.b64 _, [%r4];
 bra END;
ISSUE:
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4+8], 64;
 {wait}
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d0], 64, [%r4+8];
 bra END;
LATER:
W2: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r4+8], 0; @!%p5 bra W2;
 {second}
END: ret;
}}
"""
_READ = "ld.shared.u32 %r8, [%r5]; st.global.u32 [%d1], %r8;"
_WRITE = "mov.u32 %r9, 9; st.shared.u32 [%r5], %r9;"
_WAIT = "W1: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r4], 0; @!%p4 bra W1;"


def _launch(first: str, second: str, wait: str, schedule: object) -> np.ndarray:
    data, out = np.arange(16, dtype=np.uint32), np.zeros(1, np.uint32)
    text = _KERNEL.format(first=first, second=second, wait=wait)
    Device("sm_90a").load_ptx(text)["k"].launch(1, 96, [data, out], schedule=schedule)
    return out


@_SCHEDULES
def test_a_write_may_follow_a_read_before_the_issue(schedule):
    assert _launch(_READ, _WRITE, _WAIT, schedule)[0] == 7


@_SCHEDULES
def test_the_issuer_must_have_waited_for_the_read(schedule):
    with pytest.raises(EmulatorError, match="nothing orders"):
        _launch(_READ, _WRITE, "", schedule)


@_SCHEDULES
@pytest.mark.parametrize("second", [_READ, _WRITE.replace("9;", "8;", 1)])
def test_no_memory_order_follows_for_writes(second, schedule):
    with pytest.raises(EmulatorError, match="nothing orders"):
        _launch(_WRITE, second, _WAIT, schedule)
