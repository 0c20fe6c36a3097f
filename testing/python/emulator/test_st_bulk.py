"""st.bulk sets a region of shared memory to zero."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

SIZE = 256
# Every byte is 0xFF; thread 0 zeroes [at, at + bytes), and all are read back.
KERNEL = (
    HEADER
    + """
.visible .entry k(.param .u64 out, .param .u32 at, .param .u64 bytes) {{
 .shared .align 16 .b8 buffer[256]; .reg .b64 %d<9>; .reg .b32 %r<9>; .reg .pred %p<3>;
 ld.param.u64 %d1, [out]; ld.param.u32 %r1, [at]; ld.param.u64 %d2, [bytes];
 mov.u32 %r2, %tid.x; mov.u32 %r3, buffer; mad.lo.u32 %r4, %r2, 4, %r3;
 st.shared.b32 [%r4], -1; {meet}
 setp.ne.u32 %p1, %r2, 0; @%p1 bra OVER;
 add.u32 %r5, %r3, %r1; cvt.u64.u32 %d3, %r5; cvta.shared.u64 %d4, %d3;
 {store}
OVER: bar.sync 0; ld.shared.b32 %r6, [%r4];
 mad.wide.u32 %d5, %r2, 4, %d1; st.global.b32 [%d5], %r6; ret;
}}
"""
)


def zero(at, count, store="st.bulk.weak.shared::cta [%r5], %d2, 0;", meet="bar.sync 0;"):
    out = np.full(SIZE, 7, np.uint8)
    kernel = Device("sm_100a").load_ptx(KERNEL.format(store=store, meet=meet))["k"]
    kernel.launch(1, SIZE // 4, [out, at, count])
    return out


@pytest.mark.parametrize(
    "store", ["st.bulk.shared::cta [%r5]", "st.bulk [%d4]", "st.bulk.weak [%d4]"]
)
@pytest.mark.parametrize(("at", "count"), [(0, 8), (8, 40), (128, 128), (0, 256), (16, 0)])
def test_region(store, at, count):
    expected = np.full(SIZE, 0xFF, np.uint8)
    expected[at : at + count] = 0
    assert (zero(at, count, store + ", %d2, 0;") == expected).all()


@pytest.mark.parametrize(
    ("at", "count", "kind"),
    [(0, 12, "illegal-operand"), (0, 264, "out-of-bounds"), (4, 8, "misaligned")],
)
def test_rules(at, count, kind):
    with pytest.raises(EmulatorError) as caught:
        zero(at, count)
    assert caught.value.kind == kind


def test_it_is_a_write_of_the_thread():
    with pytest.raises(EmulatorError) as caught:
        zero(0, 256, meet="")
    assert caught.value.kind == "race"


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("st.bulk.shared::cta [%r5], %d2, 1;", "must be 0"),
        ("st.bulk.shared::cluster [%r5], %d2, 0;", "shared::cluster"),
        ("st.bulk.relaxed.shared::cta [%r5], %d2, 0;", "relaxed"),
    ],
)
def test_forms_that_do_not_exist(store, message):
    with pytest.raises(EmulatorError, match=message) as caught:
        zero(0, 8, store)
    assert caught.value.kind == "illegal-operand"
