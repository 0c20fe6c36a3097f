"""Loading, launching, divergence, bounds."""

import numpy as np
import pytest

from tilelang.emulator import Device, EmulatorError, Pointer
from tilelang.errors import UserError

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
VADD = (
    HEADER
    + """
.visible .entry vadd(.param .u64 A, .param .u64 B, .param .u64 C, .param .u32 n) {
 .reg .b32 %r<10>; .reg .b64 %d<10>; .reg .f32 %f<4>; .reg .pred %p<3>;
 mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
 mad.lo.s32 %r4, %r2, %r3, %r1;
 ld.param.u32 %r5, [n];
 setp.ge.s32 %p1, %r4, %r5;
 @%p1 bra DONE;
 ld.param.u64 %d1, [A]; ld.param.u64 %d2, [B]; ld.param.u64 %d3, [C];
 mul.wide.s32 %d4, %r4, 4;
 add.s64 %d5, %d1, %d4; add.s64 %d6, %d2, %d4; add.s64 %d7, %d3, %d4;
 ld.global.f32 %f1, [%d5];
 ld.global.f32 %f2, [%d6];
 add.f32 %f3, %f1, %f2;
 st.global.f32 [%d7], %f3;
DONE: ret;
}
"""
)
COLLATZ = (
    HEADER
    + """
.visible .entry collatz(.param .u64 A, .param .u64 C) {
 .reg .b32 %r<12>; .reg .b64 %d<10>; .reg .pred %p<3>;
 mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
 mad.lo.s32 %r4, %r2, %r3, %r1;
 ld.param.u64 %d1, [A]; ld.param.u64 %d3, [C];
 mul.wide.s32 %d4, %r4, 4;
 add.s64 %d5, %d1, %d4; add.s64 %d7, %d3, %d4;
 ld.global.u32 %r5, [%d5]; mov.u32 %r6, 0;
LOOP: setp.eq.u32 %p1, %r5, 1; @%p1 bra DONE;
  add.u32 %r6, %r6, 1;
  rem.u32 %r7, %r5, 2; setp.ne.u32 %p2, %r7, 0; @%p2 bra ODD;
  div.u32 %r5, %r5, 2; bra.uni LOOP;
 ODD: mad.lo.u32 %r5, %r5, 3, 1; bra.uni LOOP;
DONE: st.global.u32 [%d7], %r6; ret;
}
"""
)


@pytest.fixture
def device():
    return Device("sm_100a")


@pytest.mark.parametrize("n", [1, 31, 1000, 1024])
def test_vector_add(device, n):
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((2, n)).astype(np.float32)
    c = np.full(n, np.nan, np.float32)
    report = device.load_ptx(VADD)["vadd"].launch(-(-n // 128), 128, [a, b, c, n])
    np.testing.assert_array_equal(c, a + b)
    assert report.instructions > 0


def test_divergent_loop(device):
    def steps(value):
        count = 0
        while value != 1:
            value = 3 * value + 1 if value & 1 else value // 2
            count += 1
        return count

    values = np.random.default_rng(0).integers(1, 2000, 256).astype(np.uint32)
    counts = np.full(256, 0xDEAD, np.uint32)
    device.load_ptx(COLLATZ)["collatz"].launch(2, 128, [values, counts])
    assert counts.tolist() == [steps(int(v)) for v in values]


def test_out_of_bounds_store_names_the_thread(device):
    a, b = np.ones((2, 128), np.float32)
    c = np.zeros(128, np.float32)
    kernel = device.load_ptx(VADD)["vadd"]
    with pytest.raises(EmulatorError) as caught:
        kernel.launch(1, 128, [a, b, c[:100], 128])
    error = caught.value
    assert error.kind == "out-of-bounds"
    assert error.buffer == "C"
    assert (error.cta, error.warp, error.lane) == ((0, 0, 0), 3, 4)
    assert "st.global.f32" in error.ptx_text
    assert "400 bytes" in error.reason


def test_pointer_with_offset_and_torch(device):
    torch = pytest.importorskip("torch")
    base = torch.randn(64)
    out = torch.zeros(32)
    kernel = device.load_ptx(VADD)["vadd"]
    kernel.launch(1, 32, [Pointer(base, 4 * 32), base[:32], out, 32])
    assert torch.equal(out, base[32:] + base[:32])


def test_read_only_array_is_not_written(device):
    a, b = np.ones((2, 32), np.float32)
    c = np.zeros(32, np.float32)
    c.flags.writeable = False
    with pytest.raises(EmulatorError, match="read-only"):
        device.load_ptx(VADD)["vadd"].launch(1, 32, [a, b, c, 32])


def test_unknown_instruction_is_named_with_its_line(device):
    text = (
        HEADER + ".visible .entry k() {\n .reg .b32 %r<3>;\n frobnicate.x4.u32 %r1, %r2;\n ret;\n}"
    )
    with pytest.raises(EmulatorError, match=r"frobnicate\.x4\.u32") as caught:
        device.load_ptx(text)["k"]
    assert (caught.value.kind, caught.value.ptx_line) == ("unsupported", 6)


def test_unknown_modifier_is_named(device):
    text = (
        HEADER + ".visible .entry k() {\n .reg .b32 %r<3>;\n add.wobbly.u32 %r1, %r2, 1;\n ret;\n}"
    )
    with pytest.raises(EmulatorError, match=r"\.wobbly"):
        device.load_ptx(text)["k"]


@pytest.mark.parametrize(
    ("args", "message"),
    [(["x"], "takes 4 arguments"), ([1.5, 2, 3, 4], "is a float"), ([1, 2, 3, 1 << 40], "not fit")],
)
def test_bad_arguments(device, args, message):
    with pytest.raises(UserError, match=message):
        device.load_ptx(VADD)["vadd"].launch(1, 32, args)


def test_instruction_limit_stops_an_endless_loop(device):
    text = HEADER + ".visible .entry k() {\n L: bra L;\n}"
    with pytest.raises(EmulatorError) as caught:
        device.load_ptx(text)["k"].launch(1, 32, [], instruction_limit=100000)
    assert caught.value.kind == "instruction-limit"
