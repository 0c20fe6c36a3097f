"""Vectors of registers, rarer special registers, and modules of which one kernel is not
implemented."""

import numpy as np
import pytest
from ptx_kernels import HEADER, elementwise

from tilelang.emulator import Device, EmulatorError

N = 96
RNG = np.random.default_rng(5)


def test_vector_registers():
    a, b = RNG.integers(0, 1 << 32, (2, N), dtype=np.uint32)
    body = """
      { .reg .v2 .u32 v; .reg .v4 .u32 w<3>; .reg .u32 t;
        mov.v2.u32 v, {%in0, %in1};
        mov.v2.u32 v, {v.y, v.x};
        mov.v4.u32 w2, {v.x, v.y, 5, 7};
        mov.v4.u32 w1, w2;
        mad.lo.u32 t, w1.r, w1.w, w1.z;
        sub.u32 %out, t, w1.g; }
    """
    result = elementwise(body, [a, b], "u4")
    np.testing.assert_array_equal(result, b * np.uint32(7) + np.uint32(5) - a)


def test_vector_registers_in_memory():
    text = (
        HEADER
        + """.visible .entry k(.param .u64 p) {
      .reg .b64 %d<2>; .reg .v4 .f32 v; .reg .b32 %r<6>;
      mov.v4.u32 {%r0, %r1, %r2, %r3}, %tid;
      ld.param.u64 %d0, [p]; mad.wide.u32 %d0, %r0, 16, %d0; mad.wide.u32 %d0, %r1, 512, %d0;
      ld.global.v4.f32 v, [%d0]; add.f32 v.y, v.x, v.w; mov.u32 %r4, %nctaid.w;
      add.u32 %r3, %r3, %r4;
      cvt.rn.f32.u32 v.z, %r3; st.global.v4.f32 [%d0], v; ret; }"""
    )
    x = RNG.standard_normal((2, 32, 4)).astype(np.float32)
    expected = x.copy()
    expected[..., 1], expected[..., 2] = x[..., 0] + x[..., 3], 0
    Device("sm_100a").load_ptx(text)["k"].launch(1, (32, 2), [x])
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("static", [0, 100, 300])
@pytest.mark.parametrize("dynamic", [0, 48])
def test_sizes_of_shared_memory(static, dynamic):
    """As an H200 has them."""
    names = ["total_smem_size", "aggr_smem_size", "reserved_smem_offset_begin",
             "reserved_smem_offset_end", "reserved_smem_offset_cap"]  # fmt: skip
    text = HEADER + ".visible .entry k(.param .u64 p) { .reg .b32 %r<3>; .reg .b64 %d0;\n"
    if static:
        text += f".shared .align 4 .b8 s[{static}]; mov.u32 %r1, s;"
    text += " ld.param.u64 %d0, [p];"
    for i, name in enumerate(names):
        text += f" mov.u32 %r0, %{name}; st.global.u32 [%d0+{4 * i}], %r0;\n"
    text += " ret; }"
    out = np.full(len(names), 99, np.uint32)
    Device("sm_100a").load_ptx(text)["k"].launch(1, 1, [out], smem=dynamic)
    start = -(-static // 16) * 16 if dynamic else static
    used = start + dynamic
    assert out.tolist()[0] == -(-used // 128) * 128
    assert out.tolist()[2:] == [0, 288, 1024]
    assert 1024 + used <= out[1] < 1024 + used + 16


def test_an_unimplemented_instruction_spares_the_other_kernels():
    text = (
        HEADER
        + """
      .func helper() { .reg .b32 %r<4>; vset4.u32.u32.eq %r0, %r1, %r2, %r3; ret; }
      .visible .entry good(.param .u64 p) { .reg .b64 %d0; ld.param.u64 %d0, [p];
        st.global.u32 [%d0], 42; ret; }
      .visible .entry direct(.param .u64 p) { .reg .b32 %r<4>; bar.sync 0;
        vset4.u32.u32.eq %r0, %r1, %r2, %r3; ret; }
      .visible .entry calls(.param .u32 n) { call.uni helper, (); ret; }
      .visible .entry indirect() { .reg .b64 %d0; mov.u64 %d0, helper;
        proto: .callprototype _ (); call %d0, (), proto; ret; }"""
    )
    module = Device("sm_100a").load_ptx(text)
    assert list(module.kernels) == ["good", "direct", "calls", "indirect"]
    out = np.zeros(1, np.uint32)
    module["good"].launch(1, 1, [out])
    assert out[0] == 42
    assert [p.name for p in module.kernels["calls"].params] == ["n"]
    for name, args in [("direct", [out]), ("calls", [1]), ("indirect", [])]:
        with pytest.raises(EmulatorError, match="not implemented") as taken:
            module[name]
        with pytest.raises(EmulatorError, match="not implemented") as launched:
            module.kernels[name].launch(1, 32, args)
        for caught in (taken, launched):
            assert caught.value.kind == "unsupported"
            assert "vset4" in str(caught.value)


GRID_SYNC = """
  mov.u32 %r10, %envreg2; cvt.u64.u32 %d9, %r10; mov.u32 %r11, %envreg1; cvt.u64.u32 %d8, %r11;
  shl.b64 %d8, %d8, 32; or.b64 %d9, %d8, %d9; setp.eq.s64 %p0, %d9, 0; @%p0 trap;
  barrier.sync 0; setp.ne.u32 %p1, %r0, 0; @%p1 bra {done};
  sub.s32 %r12, -2147483647, %r2; setp.eq.u32 %p2, %r1, 0; selp.b32 %r12, %r12, 1, %p2;
  atom.add.release.gpu.u32 %r13, [%d9+4], %r12;
{wait}: ld.acquire.gpu.u32 %r14, [%d9+4]; xor.b32 %r14, %r14, %r13; setp.gt.s32 %p2, %r14, -1;
  @%p2 bra {wait};
{done}: barrier.sync 0;
"""


def test_workspace_of_cooperative_grids():
    """What this_grid().sync() compiles to, twice in one kernel."""
    text = (
        HEADER
        + """.visible .entry k(.param .u64 a, .param .u64 b) {
      .reg .b64 %d<12>; .reg .b32 %r<20>; .reg .pred %p<4>;
      mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x;
      ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; mad.lo.u32 %r3, %r1, 64, %r0;
      mul.lo.u32 %r4, %r3, 3; mad.wide.u32 %d2, %r3, 4, %d0; st.global.u32 [%d2], %r4;
      mul.lo.u32 %r5, %r2, 64; """
    )
    text += (
        GRID_SYNC.format(wait="W1", done="D1")
        + """
      add.u32 %r6, %r3, 37; rem.u32 %r6, %r6, %r5; mad.wide.u32 %d3, %r6, 4, %d0;
      ld.global.u32 %r7, [%d3]; mad.wide.u32 %d4, %r3, 4, %d1; st.global.u32 [%d4], %r7; """
    )
    text += (
        GRID_SYNC.format(wait="W2", done="D2")
        + """
      add.u32 %r6, %r3, 5; rem.u32 %r6, %r6, %r5; mad.wide.u32 %d3, %r6, 4, %d1;
      ld.global.u32 %r7, [%d3]; st.global.u32 [%d2], %r7; ret; }"""
    )
    kernel = Device("sm_100a").load_ptx(text)["k"]
    i = np.arange(320)
    for schedule in ("late", 4):
        a, b = np.full((2, 320), -1, np.int32)
        kernel.launch(5, 64, [a, b], schedule=schedule)
        np.testing.assert_array_equal(b, (i + 37) % 320 * 3)
        np.testing.assert_array_equal(a, (i + 42) % 320 * 3)


def test_an_error_spares_no_kernel():
    text = HEADER + ".visible .entry a() { ret; } .visible .entry b() { add.u32 x, y, z; ret; }"
    with pytest.raises(EmulatorError, match="not a declared register"):
        Device("sm_100a").load_ptx(text)
