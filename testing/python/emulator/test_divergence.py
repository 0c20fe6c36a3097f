"""Lanes of a warp that are apart: every lane computes what it would alone."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device

# Lanes 0..7, 8..15 and the others end in three places; those that are kept from running stand
# right behind a ret.
_THREE_WAYS = """.visible .entry k(.param .u64 out) .reqntid 32 {
 .reg .b64 %d<4>; .reg .b32 %r<8>; .reg .pred %p<4>;
 ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
 mov.u32 %r2, %r1; setp.lt.u32 %p1, %r1, 16; setp.lt.u32 %p2, %r1, 8;
 @%p1 bra A; bra.uni B;
A: @%p2 bra C;
"""


@pytest.mark.parametrize("length", [1, 100, 240, 246, 250, 255, 256, 260, 300, 400, 500, 513])
def test_exit_after_long_straight_code(length):
    add = " add.u32 %r2, %r2, 1;\n"
    end = " st.global.u32 [%d1], %r2;\n ret;\n"
    text = HEADER + _THREE_WAYS + add * length + "C:\n" + add * length + end + "B:\n" + end + "}\n"
    out = np.full(32, 99, np.uint32)
    Device("sm_100a").load_ptx(text)["k"].launch(1, 32, [out])
    added = np.repeat([length, 2 * length, 0, 0], 8)
    assert out.tolist() == (np.arange(32) + added).tolist()
